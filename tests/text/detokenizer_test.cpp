// Streaming ids to text.

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace cera::text {
namespace {

std::shared_ptr<const Tokenizer> make_tokenizer() {
  TinyVocabulary vocabulary;
  vocabulary.add("<|im_end|>", TokenKind::control);   // 256
  vocabulary.add("<unk>", TokenKind::unknown);        // 257
  vocabulary.add("<tool>", TokenKind::user_defined);  // 258
  vocabulary.add(spell("a\xf0\x9f"));                 // 259: half an emoji
  vocabulary.add(
      spell("\x99\x82"
            "b"));                                        // 260: the other half
  vocabulary.add("<|eot_id|>", TokenKind::user_defined);  // 261: an end, whatever its type
  return *vocabulary.load();
}

std::vector<std::string> stream(std::span<const TokenId> ids, bool show_special = false) {
  Detokenizer detokenizer(make_tokenizer(), show_special);
  std::vector<std::string> out;
  for (const TokenId id : ids) {
    out.push_back(detokenizer.push(id));
    EXPECT_TRUE(is_valid_utf8(out.back()));
  }
  out.push_back(detokenizer.finish());
  return out;
}
std::vector<std::string> stream_bytes(std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.push_back(TokenId(static_cast<unsigned char>(c)));
  return stream(ids);
}

using Pieces = std::vector<std::string>;

TEST(Detokenizer, HoldsACharacterBackUntilItIsComplete) {
  EXPECT_EQ(stream_bytes("\U0001f642!"), (Pieces{"", "", "", "\U0001f642", "!", ""}));
  const TokenId halves[] = {259, 260};
  EXPECT_EQ(stream(halves), (Pieces{"a", "\U0001f642b", ""}));
}

TEST(Detokenizer, ADanglingTailIsOneReplacementCharacter) {
  EXPECT_EQ(stream_bytes("x\xf0\x9f\x99"), (Pieces{"x", "", "", "", "\ufffd"}));
  EXPECT_EQ(stream_bytes("\xe2"), (Pieces{"", "\ufffd"}));
  EXPECT_EQ(stream_bytes(""), Pieces{""});
}

TEST(Detokenizer, InvalidBytesComeOutAsSoonAsTheyAreCertain) {
  EXPECT_EQ(stream_bytes("\xff"), (Pieces{"\ufffd", ""}));
  EXPECT_EQ(stream_bytes("\x80"), (Pieces{"\ufffd", ""}));
  EXPECT_EQ(stream_bytes("\xe2\x82"
                         "A"),
            (Pieces{"", "",
                    "\ufffd"
                    "A",
                    ""}));
  EXPECT_EQ(stream_bytes("\xc0\xaf"), (Pieces{"\ufffd", "\ufffd", ""}));
  EXPECT_EQ(stream_bytes("\xed\xa0\x80"), (Pieces{"", "\ufffd\ufffd", "\ufffd", ""}));
  EXPECT_EQ(stream_bytes("\xf4\x90"), (Pieces{"", "\ufffd\ufffd", ""}));
  EXPECT_EQ(stream_bytes("\xe2\xe2\x82\xac"), (Pieces{"", "\ufffd", "", "\u20ac", ""}));
  EXPECT_EQ(stream_bytes("\xf0\x9f\xf0\x9f\x99\x82"),
            (Pieces{"", "", "\ufffd", "", "", "\U0001f642", ""}));
}

TEST(Detokenizer, ControlTokensAreHiddenUnlessAskedFor) {
  const TokenId ids[] = {'a', 256, 257, 258, 261, 'b', -1, 99'999};
  EXPECT_EQ(stream(ids), (Pieces{"a", "", "", "<tool>", "", "b", "", "", ""}));
  EXPECT_EQ(stream(ids, true),
            (Pieces{"a", "<|im_end|>", "<unk>", "<tool>", "<|eot_id|>", "b", "", "", ""}));
}

TEST(Detokenizer, AHiddenTokenDoesNotBreakACharacter) {
  const TokenId ids[] = {259, 256, 260};
  EXPECT_EQ(stream(ids), (Pieces{"a", "", "\U0001f642b", ""}));
}

TEST(Detokenizer, CanBeUsedAgainAfterFinish) {
  Detokenizer detokenizer(make_tokenizer());
  EXPECT_EQ(detokenizer.push(0xe2), "");
  EXPECT_EQ(detokenizer.finish(), "\ufffd");
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.finish(), "");
}

/// All byte strings of up to three bytes over a set that has every kind of byte, cut in every way:
/// what comes out does not depend on the cuts.
TEST(Detokenizer, TheTextDoesNotDependOnTheCuts) {
  const std::string alphabet = "A\x80\x90\x9f\xa0\xbf\xc0\xc3\xe0\xe2\xed\xef\xf0\xf1\xf4\xf5";
  TinyVocabulary vocabulary;
  std::vector<std::string> texts;
  for (const char a : alphabet) {
    for (const char b : alphabet) {
      for (const char c : alphabet) texts.push_back({a, b, c});
    }
  }
  for (const std::string& text : texts) vocabulary.add(spell(text));
  const auto loaded = vocabulary.load();
  ASSERT_TRUE(loaded);
  for (size_t i = 0; i < texts.size(); ++i) {
    Detokenizer whole(*loaded), bytes(*loaded);
    std::string at_once = whole.push(TokenId(256 + i)), one_by_one;
    at_once += whole.finish();
    for (const char c : texts[i]) one_by_one += bytes.push(TokenId(static_cast<unsigned char>(c)));
    one_by_one += bytes.finish();
    ASSERT_EQ(at_once, one_by_one) << i;
    ASSERT_TRUE(is_valid_utf8(at_once));
  }
}

}  // namespace
}  // namespace cera::text
