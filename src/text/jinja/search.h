#pragma once
// Substring search whose worst case is linear, unlike std::string_view's for long needles.

#include <cstddef>
#include <string_view>
#include <vector>

namespace cera::text::jinja {

/// Finds one needle again and again.
class Searcher {
 public:
  /// The needle must outlive this and must not be empty.
  explicit Searcher(std::string_view needle);
  /// First match that starts at or after `from`; npos if there is none.
  size_t find(std::string_view text, size_t from = 0) const;
  /// Last match that ends at or before `end`.
  size_t find_last(std::string_view text, size_t end) const;

 private:
  std::string_view needle_;
  std::vector<size_t> fallback_;  // of Knuth, Morris and Pratt; empty for short needles
};

}  // namespace cera::text::jinja
