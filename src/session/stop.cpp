#include "session/stop.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace cera {

Result<StopFilter> StopFilter::make(std::vector<std::string> stops) {
  for (const std::string& stop : stops) {
    if (stop.empty())
      return fail(ErrorCode::invalid_argument, "stop", "a stop string must not be empty");
    if (!is_valid_utf8(stop))
      return fail(ErrorCode::invalid_argument, "stop", "a stop string is not valid UTF-8");
  }
  return StopFilter(std::move(stops));
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  size_t match_begin = std::string::npos, match_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < match_end || (end == match_end && begin < match_begin)) {
      match_begin = begin;
      match_end = end;
    }
  }
  if (match_begin != std::string::npos) {
    stopped_ = true;
    pending_.resize(match_begin);
    return std::exchange(pending_, {});
  }
  const size_t free_bytes = pending_.size() - held_back_bytes();
  std::string out = pending_.substr(0, free_bytes);
  pending_.erase(0, free_bytes);
  return out;
}

std::string StopFilter::finish() {
  return std::exchange(pending_, {});
}

/// The longest end of pending_ that is a beginning of a stop string.
size_t StopFilter::held_back_bytes() const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n) {
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) {
        held = n;
        break;
      }
    }
  }
  return held;
}

}  // namespace cera
