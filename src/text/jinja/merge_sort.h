#pragma once
// A stable sort that stays in bounds whatever the comparison says (NaN is neither less nor equal)
// and may be left by an exception at any time.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace cera::text::jinja {

template <class T, class Less>
void merge_sort(std::vector<T>& rows, Less less) {
  const size_t n = rows.size();
  std::vector<T> merged(n);
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * width) {
      const auto at = [&](size_t i) {
        return std::make_move_iterator(rows.begin() + ptrdiff_t(std::min(i, n)));
      };
      std::merge(at(begin), at(begin + width), at(begin + width), at(begin + 2 * width),
                 merged.begin() + ptrdiff_t(begin), less);
    }
    std::swap(rows, merged);
  }
}

}  // namespace cera::text::jinja
