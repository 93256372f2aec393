#pragma once
// Python's str operations on text that remembers its origins. Results that copy from the subject
// keep its `markup` flag, as markupsafe does. Positions and widths count code points.

#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace cera::text::jinja::strings {

Value upper(Runtime& runtime, const String& text);
Value lower(Runtime& runtime, const String& text);
Value capitalize(Runtime& runtime, const String& text);
Value swapcase(Runtime& runtime, const String& text);
/// str.title: a capital after everything that has no case.
Value title(Runtime& runtime, const String& text);
/// Jinja's title filter: a capital after whitespace, hyphens and opening brackets.
Value title_filter(Runtime& runtime, const String& text);

enum class Side { left, right, both };
/// chars: the set to remove; null for whitespace.
Value strip(Runtime& runtime, const String& text, const String* chars, Side side);
/// separator null: by whitespace. limit < 0: no limit.
std::vector<Value> split(Runtime& runtime, const String& text, const String* separator,
                         int64_t limit);
std::vector<Value> split_right(Runtime& runtime, const String& text, const String* separator,
                               int64_t limit);
std::vector<Value> split_lines(Runtime& runtime, const String& text, bool keep_ends);
/// Three parts: before, the separator, after.
std::vector<Value> partition(Runtime& runtime, const String& text, const String& separator,
                             bool from_right);

Value replace(Runtime& runtime, const String& text, const String& from, const String& to,
              int64_t limit);
Value join(Runtime& runtime, const String& separator, const std::vector<Value>& strings,
           bool markup);
/// Side::both centres.
Value pad(Runtime& runtime, const String& text, int64_t width, const SpanText& fill,
          Side text_side);

/// A part of the text, by bytes.
Value part(Runtime& runtime, const String& text, size_t begin, size_t end);

}  // namespace cera::text::jinja::strings
