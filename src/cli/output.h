#pragma once
// Where the program prints: results to stdout; errors, statistics and progress to stderr.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cera::cli {

/// "error: message" on one line.
void print_error(std::string_view message);

/// Control characters escaped, so that nothing from a file can move the cursor or break the line.
std::string one_line(std::string_view text);

/// Writes all of it; an error (io) when stdout is closed or full.
Result<void> write_stdout(std::string_view text);
Result<void> flush_stdout();

/// A line on stderr that follows long work; silent when stderr is no terminal. Erased at the end.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done, uint64_t all, std::string_view note = {});

 private:
  std::string label_;
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace cera::cli
