#include "cli/interrupt.h"

#include <csignal>

#include <unistd.h>

namespace cera::cli {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // set from a signal handler

void on_interrupt(int) {
  if (flag.exchange(true)) _exit(130);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

const std::atomic<bool>& interrupted() {
  return flag;
}

}  // namespace cera::cli
