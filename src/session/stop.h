#pragma once
// Stop strings in streamed text. What could be the beginning of a stop string is held back until it
// is decided, so that nothing of it leaks, wherever the borders of tokens fall.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cera {

class StopFilter {
 public:
  /// An empty stop string, or one that is not valid UTF-8, is an error.
  static Result<StopFilter> make(std::vector<std::string> stops);

  /// Takes whole code points and returns the text that is free to go. The stop string that is
  /// complete first wins (of several, the longest); the text before it is returned and stopped()
  /// becomes true. The result over a stream does not depend on how it was cut. After a stop, text
  /// is swallowed.
  std::string push(std::string_view text);

  /// At the end of the stream: what was held back.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  size_t held_back_bytes() const;

  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace cera
