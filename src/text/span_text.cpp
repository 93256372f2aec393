#include "text/span_text.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace cera::text {

SpanText::SpanText(std::string text, Origin origin) : text_(std::move(text)) {
  if (!text_.empty()) runs_.push_back({text_.size(), origin});
}

Origin SpanText::origin_at(size_t byte) const {
  CERA_ASSERT(byte < text_.size());
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), byte,
                                    [](size_t at, const Run& r) { return at < r.end; });
  return run->origin;
}

void SpanText::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  text_.append(text);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), origin});
  }
}

void SpanText::append(const SpanText& other) {
  if (&other == this) return append(SpanText(other));
  size_t begin = 0;
  for (const Run& run : other.runs_) {
    append(std::string_view(other.text_).substr(begin, run.end - begin), run.origin);
    begin = run.end;
  }
}

SpanText SpanText::substr(size_t position, size_t n) const {
  SpanText part;
  if (position >= text_.size() || n == 0) return part;
  const size_t stop = position + std::min(n, text_.size() - position);
  auto run = std::upper_bound(runs_.begin(), runs_.end(), position,
                              [](size_t at, const Run& r) { return at < r.end; });
  for (size_t begin = position; begin < stop; ++run) {
    const size_t end = std::min(run->end, stop);
    part.append(std::string_view(text_).substr(begin, end - begin), run->origin);
    begin = end;
  }
  return part;
}

void SpanText::clear() {
  text_.clear();
  runs_.clear();
}

}  // namespace cera::text
