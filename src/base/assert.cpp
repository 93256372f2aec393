#include "base/assert.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cera {
namespace {
std::atomic<AssertHandler> current_handler{nullptr};
}

AssertHandler set_assert_handler(AssertHandler handler) {
  return current_handler.exchange(handler);
}

void assert_failed(const char* condition, const char* file, int line) {
  if (AssertHandler handler = current_handler.load()) handler(condition, file, line);
  // The one place in the library that prints and ends the process: state is known to be wrong.
  std::fprintf(stderr, "cera: internal error: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace cera
