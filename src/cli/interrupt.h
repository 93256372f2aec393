#pragma once
// Ctrl-C: the first one asks for a clean stop, the second one ends the process.

#include <atomic>

namespace cera::cli {

/// Installs the handler for SIGINT.
void catch_interrupts();

/// True after the first Ctrl-C.
const std::atomic<bool>& interrupted();

}  // namespace cera::cli
