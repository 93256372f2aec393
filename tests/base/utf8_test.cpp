#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace cera {
namespace {

TEST(Utf8, EveryCodePointAndNothingElse) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    const auto tail = [&](int shift) { text += char(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      text += char(code);
    } else if (code < 0x800) {
      text += char(0xc0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      text += char(0xe0 | code >> 12);
      tail(6), tail(0);
    } else {
      text += char(0xf0 | code >> 18);
      tail(12), tail(6), tail(0);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    ASSERT_EQ(utf8_sequence_bytes(text), surrogate ? 0 : text.size()) << code;
    ASSERT_EQ(utf8_sequence_bytes(text + "x"), surrogate ? 0 : text.size()) << code;
    for (size_t n = 1; n < text.size(); ++n)
      ASSERT_EQ(utf8_sequence_bytes(text.substr(0, n)), 0u) << code;
  }
}

TEST(Utf8, MalformedForms) {
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
                          "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82(", "\xed\xa0\x80"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_FALSE(is_valid_utf8(std::string("fine ") + bad));
  }
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("plain, é, €, 😊"));
  EXPECT_TRUE(is_valid_utf8(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace cera
