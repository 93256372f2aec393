// What must hold for any text, over real vocabularies and a small one; and how long it may take.

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/utf8.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_tiny.h"

namespace cera::text {
namespace {

using Ids = std::vector<TokenId>;

struct Source {
  const char* name;
  std::function<std::filesystem::path()> path;  // empty: the small vocabulary
};
void PrintTo(const Source& source, std::ostream* out) {
  *out << source.name;
}

const Source sources[] = {
    {"tiny", [] { return std::filesystem::path(); }},
    {"smollm2", [] { return models_folder() / "smollm2.gguf"; }},
    {"qwen05", [] { return models_folder() / "qwen05.gguf"; }},
    {"llama_bpe", [] { return peer_models_folder() / "ggml-vocab-llama-bpe.gguf"; }},
    {"mpt", [] { return peer_models_folder() / "ggml-vocab-mpt.gguf"; }},
    {"deepseek_coder", [] { return peer_models_folder() / "ggml-vocab-deepseek-coder.gguf"; }},
};

TinyVocabulary small_vocabulary() {
  TinyVocabulary vocabulary;
  vocabulary.merge("t", "h");
  vocabulary.merge("th", "e");
  vocabulary.merge(" ", "the");
  vocabulary.merge("\xe6", "\xbc");
  vocabulary.merge("a", "a");
  vocabulary.merge("aa", "aa");
  vocabulary.add("<|im_start|>", TokenKind::control);
  vocabulary.add("<|im_end|>", TokenKind::control);
  vocabulary.add("<tool_call>", TokenKind::user_defined);
  vocabulary.add("    ", TokenKind::user_defined);
  vocabulary.add("<unk>", TokenKind::unknown);
  return vocabulary;
}

/// White space, letters, digits, or one character: see tokenizer_load.cpp. Enough for these
/// vocabularies.
bool is_markup(std::string_view spelling) {
  return utf8_sequence_bytes(spelling) != spelling.size() &&
         spelling.find_first_not_of(' ') != spelling.npos;
}

class AnyText : public testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    const auto path = GetParam().path();
    if (!path.empty()) CERA_NEEDS_FILE(path);
    auto loaded = path.empty() ? small_vocabulary().load() : load_tokenizer(path);
    ASSERT_TRUE(loaded) << loaded.error().text();
    tokenizer_ = *loaded;
    for (TokenId id = 0; id < TokenId(tokenizer_->vocab_size()); ++id) {
      const TokenKind kind = tokenizer_->token_kind(id);
      const bool added = kind == TokenKind::control || kind == TokenKind::user_defined ||
                         kind == TokenKind::unknown;
      if (added && is_markup(tokenizer_->token_bytes(id))) markup_.push_back(id);
    }
  }
  Encoding encode(const SpanText& text) const {
    auto encoding = tokenizer_->encode(text);
    EXPECT_TRUE(encoding) << encoding.error().text();
    return encoding ? *encoding : Encoding{};
  }
  std::string decode(const Ids& ids) const {
    Detokenizer detokenizer(tokenizer_, true);
    std::string text;
    for (const TokenId id : ids) {
      text += detokenizer.push(id);
      EXPECT_TRUE(is_valid_utf8(text));
    }
    return text + detokenizer.finish();
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  Ids markup_;
  std::mt19937 random_{20240229};
};

/// Pieces that meet in interesting ways, none of which can make up a special token.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> pieces = {"the",
                                                  " the",
                                                  "The ",
                                                  "a",
                                                  "aaaa",
                                                  "    ",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "\u00a0",
                                                  "\u180e",
                                                  "\u2028",
                                                  "1",
                                                  "42",
                                                  "1234567",
                                                  "'s",
                                                  "'LL",
                                                  "'",
                                                  "!",
                                                  "...",
                                                  "\"",
                                                  "(x)",
                                                  "\u00e9",
                                                  "e\u0301",
                                                  "\u0416\u0438",
                                                  "\u6f22\u5b57",
                                                  "\u3042",
                                                  "\ud55c\uae00",
                                                  "\u0627\u0644",
                                                  "\u0939\u093f",
                                                  "\U0001f642",
                                                  "\U0001f469\u200d\U0001f469",
                                                  "_",
                                                  "//",
                                                  "{",
                                                  "}",
                                                  "=",
                                                  "+1",
                                                  "\ufffd",
                                                  "\u00f5"};
  std::string text;
  const size_t n = random() % 24;
  for (size_t i = 0; i < n; ++i) text += pieces[random() % pieces.size()];
  return text;
}

TEST_P(AnyText, ComesBackFromItsIds) {
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random_);
    const Encoding encoding = encode(SpanText(text, Origin::content));
    ASSERT_EQ(decode(encoding.ids), text);
    ASSERT_EQ(encoding.invalid_bytes + encoding.left_out_bytes, 0u);
  }
}

TEST_P(AnyText, WithoutLookAlikesTheSpansDoNotMatter) {
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random_);
    SpanText spans;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random_() % 6;  // also inside a character
      spans.append(std::string_view(text).substr(at, n),
                   random_() % 2 ? Origin::content : Origin::template_text);
      at += n;
    }
    ASSERT_EQ(encode(spans).ids, encode(SpanText(text, Origin::content)).ids) << text;
    ASSERT_EQ(encode(spans).ids, encode(SpanText(text, Origin::template_text)).ids) << text;
  }
}

TEST_P(AnyText, ContentIsNeverMarkup) {
  ASSERT_FALSE(markup_.empty());
  std::vector<bool> is_markup_id(tokenizer_->vocab_size());
  for (const TokenId id : markup_) is_markup_id[id] = true;
  const auto expect_none = [&](const SpanText& text) {
    for (const TokenId id : encode(text).ids) ASSERT_FALSE(is_markup_id[id]) << text.str();
  };
  std::string all;
  for (const TokenId id : markup_) {
    const std::string spelling(tokenizer_->token_bytes(id));
    expect_none(SpanText(spelling, Origin::content));
    // Assembled across a border, from either side.
    SpanText tail_is_content(spelling.substr(0, spelling.size() / 2), Origin::template_text);
    tail_is_content.append(spelling.substr(spelling.size() / 2), Origin::content);
    expect_none(tail_is_content);
    SpanText head_is_content(spelling.substr(0, 1), Origin::content);
    head_is_content.append(spelling.substr(1), Origin::template_text);
    if (spelling.substr(1).find('<') == std::string::npos) expect_none(head_is_content);
    all += spelling;
    if (all.size() > 4000) {
      expect_none(SpanText(all, Origin::content));
      all.clear();
    }
  }
}

TEST_P(AnyText, EverySpecialTokenIsItselfInTemplateText) {
  for (const TokenId id : markup_) {
    const SpanText text(std::string(tokenizer_->token_bytes(id)), Origin::template_text);
    ASSERT_EQ(encode(text).ids, Ids{id}) << text.str();
  }
}

TEST_P(AnyText, InvalidBytesComeBackAsReplacementCharacters) {
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t n = random_() % 40; n > 0; --n) bytes += static_cast<char>(0x20 + random_() % 0xe0);
    std::string read;
    size_t invalid = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = utf8_sequence_bytes(std::string_view(bytes).substr(at));
      read += n ? bytes.substr(at, n) : "\ufffd";
      invalid += n == 0;
      at += n ? n : 1;
    }
    const Encoding encoding = encode(SpanText(bytes, Origin::content));
    ASSERT_EQ(encoding.invalid_bytes, invalid);
    ASSERT_EQ(encoding.ids, encode(SpanText(read, Origin::content)).ids);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr bool fast_build = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool fast_build = false;
#else
constexpr bool fast_build = true;
#endif
#else
constexpr bool fast_build = true;
#endif

/// Processor time, so that a busy machine does not matter. A quadratic step would take minutes.
TEST_P(AnyText, OneMegabyteTakesLessThanASecond) {
  const std::string name = GetParam().name;
  if (name != "smollm2" && name != "qwen05") return;  // the others add minutes, not knowledge
  const size_t size = fast_build ? 1u << 20 : 1u << 17;
  const std::string units[] = {
      "a",           " ",          "\n",
      " \n",         "1",          "!",
      "'",           "\u6f22",     "\u00a0",
      "<|im_",       "\U0001f642", "the ",
      "aA",          "\u0301",     "<",
      "x ",          "\t",         "The quick brown fox isn't 12 years old, is she?\n",
      "<|im_start|>"};
  for (const std::string& unit : units) {
    const Origin origin = unit.starts_with('<') ? Origin::template_text : Origin::content;
    std::string text;
    while (text.size() < size) text += unit;
    const std::clock_t start = std::clock();
    const Encoding encoding = encode(SpanText(text, origin));
    EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 1.0) << "'" << unit << "'";
    std::string back;
    for (const TokenId id : encoding.ids) back += tokenizer_->token_bytes(id);
    EXPECT_TRUE(back == text) << "'" << unit << "'";
  }
}

std::string source_name(const testing::TestParamInfo<Source>& source) {
  return source.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, AnyText, testing::ValuesIn(sources), source_name);

/// Aho-Corasick, not "each token at each place": many specials that start alike, and text full of
/// starts.
TEST(Tokenizer, ManySpecialTokensCostNoMore) {
  TinyVocabulary vocabulary;
  for (int i = 0; i < 2000; ++i) {
    vocabulary.add("<" + std::string(size_t(i % 500), '<') + "|" + std::to_string(i) + ">",
                   TokenKind::control);
  }
  const auto tokenizer = vocabulary.load();
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const std::string text(fast_build ? 1u << 20 : 1u << 17, '<');
  const std::clock_t start = std::clock();
  const auto encoding = (*tokenizer)->encode(SpanText(text, Origin::template_text));
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 1.0);
  ASSERT_TRUE(encoding);
  EXPECT_EQ(encoding->ids.size(), text.size());
}

TEST(Tokenizer, Qwen05LoadsInAFifthOfASecond) {
  const auto path = models_folder() / "qwen05.gguf";
  CERA_NEEDS_FILE(path);
  const auto file = gguf::File::open(path.string(), {.metadata_only = true});
  ASSERT_TRUE(file);
  const std::clock_t start = std::clock();
  ASSERT_TRUE(Tokenizer::from_gguf(**file));
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  if (fast_build) {
    EXPECT_LT(seconds, 0.2);
  }
}

}  // namespace
}  // namespace cera::text
