#include "text/jinja/search.h"

#include <cstdint>

namespace cera::text::jinja {
namespace {
constexpr size_t kLongNeedle = 32;  // below, the library's search costs at most this factor
}

Searcher::Searcher(std::string_view needle) : needle_(needle) {
  if (needle.size() < kLongNeedle) return;
  fallback_.resize(needle.size() + 1);
  for (size_t i = 1, matched = 0; i < needle.size(); ++i) {
    while (matched > 0 && needle[i] != needle[matched]) matched = fallback_[matched];
    matched += needle[i] == needle[matched];
    fallback_[i + 1] = matched;
  }
}

size_t Searcher::find(std::string_view text, size_t from) const {
  if (fallback_.empty()) return text.find(needle_, from);
  size_t matched = 0;
  for (size_t i = from; i < text.size(); ++i) {
    while (matched > 0 && text[i] != needle_[matched]) matched = fallback_[matched];
    matched += text[i] == needle_[matched];
    if (matched == needle_.size()) return i + 1 - matched;
  }
  return std::string_view::npos;
}

size_t Searcher::find_last(std::string_view text, size_t end) const {
  text = text.substr(0, end);
  if (fallback_.empty()) return text.rfind(needle_);
  size_t matched = 0, last = std::string_view::npos;
  for (size_t i = 0; i < text.size(); ++i) {
    while (matched > 0 && text[i] != needle_[matched]) matched = fallback_[matched];
    matched += text[i] == needle_[matched];
    if (matched < needle_.size()) continue;
    last = i + 1 - matched;
    matched = fallback_[matched];
  }
  return last;
}

}  // namespace cera::text::jinja
