// The tokenizer over vocabularies made here; real ones are in tokenizer_golden_test.cpp.

#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/pre_tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace cera::text {
namespace {

using Ids = std::vector<TokenId>;
constexpr Origin kTemplate = Origin::template_text;
constexpr Origin kContent = Origin::content;

std::shared_ptr<const Tokenizer> load(const TinyVocabulary& vocabulary,
                                      const TokenizerOptions& options = {}) {
  auto loaded = vocabulary.load(options);
  if (!loaded) throw std::runtime_error(loaded.error().text());
  return *loaded;
}

Encoding encode(const Tokenizer& tokenizer, const SpanText& text, bool add_special = false) {
  auto encoding = tokenizer.encode(text, {.add_special = add_special});
  if (!encoding) throw std::runtime_error(encoding.error().text());
  return *encoding;
}
Ids ids_of(const Tokenizer& tokenizer, std::string text, Origin origin = kContent,
           bool add_special = false) {
  return encode(tokenizer, SpanText(std::move(text), origin), add_special).ids;
}
SpanText spans(std::initializer_list<std::pair<const char*, Origin>> pieces) {
  SpanText text;
  for (const auto& [piece, origin] : pieces) text.append(piece, origin);
  return text;
}
Ids bytes_as_ids(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(TokenId(static_cast<unsigned char>(c)));
  return ids;
}
bool has_note(const Tokenizer& tokenizer, std::string_view part) {
  for (const std::string& note : tokenizer.notes()) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

// --- merging ---

TEST(Tokenizer, WithoutMergesEveryByteIsAToken) {
  const auto tokenizer = load({});
  const std::string text = std::string("\0\x01 ~", 4) + "\u00e9\u6f22\U0001f642";
  EXPECT_EQ(ids_of(*tokenizer, text), bytes_as_ids(text));
  EXPECT_EQ(ids_of(*tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer->vocab_size(), 256u);
}

TEST(Tokenizer, MergesByRankAndNotFromTheLeft) {
  TinyVocabulary vocabulary;
  const TokenId bc = vocabulary.merge("b", "c"), ab = vocabulary.merge("a", "b");
  const TokenId abc = vocabulary.merge("ab", "c");
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "abc"), (Ids{'a', bc}));
  EXPECT_EQ(ids_of(*tokenizer, "abd"), (Ids{ab, 'd'}));
  EXPECT_EQ(tokenizer->find_token("abc"), abc);
}

TEST(Tokenizer, EqualRanksMergeFromTheLeft) {
  TinyVocabulary vocabulary;
  const TokenId aa = vocabulary.merge("a", "a"), a4 = vocabulary.merge("aa", "aa");
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "aaa"), (Ids{aa, 'a'}));
  EXPECT_EQ(ids_of(*tokenizer, "aaaaaaa"), (Ids{a4, aa, 'a'}));
}

TEST(Tokenizer, MergesStayInsideWords) {
  TinyVocabulary vocabulary;
  vocabulary.merge("a", "1");
  const TokenId space_a = vocabulary.merge(" ", "a");
  EXPECT_EQ(ids_of(*load(vocabulary), "a1 a"), (Ids{'a', '1', space_a}));
}

TEST(Tokenizer, WholeWordsGoFirstWhereTheModelIgnoresMerges) {
  TinyVocabulary vocabulary;
  vocabulary.merge("b", "c");
  const TokenId abc = vocabulary.add("abc");  // no rule makes it
  EXPECT_EQ(ids_of(*load(vocabulary), "abc"), (Ids{'a', 256}));
  for (const char* pre : {"llama-bpe", "lfm2"}) {
    EXPECT_EQ(ids_of(*load(vocabulary, {.pre = pre}), "abc"), Ids{abc}) << pre;
  }
  EXPECT_EQ(ids_of(*load(vocabulary, {.pre = "dbrx"}), "abc"), (Ids{'a', 256}));
}

// --- special tokens and provenance ---

TEST(Tokenizer, SpecialTokensOnlyInTemplateText) {
  TinyVocabulary vocabulary;
  const TokenId end = vocabulary.add("<|end|>", TokenKind::control);
  const TokenId tool = vocabulary.add("<tool>", TokenKind::user_defined);
  const TokenId unknown = vocabulary.add("<unk>", TokenKind::unknown);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "a<|end|><tool>b<unk>", kTemplate),
            (Ids{'a', end, tool, 'b', unknown}));
  const std::string spelled = "<|end|><tool><unk>";
  EXPECT_EQ(ids_of(*tokenizer, spelled, kContent), bytes_as_ids(spelled));
}

TEST(Tokenizer, ALookAlikeAssembledAcrossABorderIsNotSpecial) {
  TinyVocabulary vocabulary;
  const TokenId end = vocabulary.add("<|end|>", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  const std::string spelled = "<|end|>";
  for (size_t cut = 1; cut < spelled.size(); ++cut) {
    SpanText text(spelled.substr(0, cut), kTemplate);
    text.append(spelled.substr(cut), kContent);
    EXPECT_EQ(encode(*tokenizer, text).ids, bytes_as_ids(spelled)) << cut;
    SpanText other(spelled.substr(0, cut), kContent);
    other.append(spelled.substr(cut), kTemplate);
    EXPECT_EQ(encode(*tokenizer, other).ids, bytes_as_ids(spelled)) << cut;
    SpanText whole(spelled.substr(0, cut), kTemplate);
    whole.append(spelled.substr(cut), kTemplate);  // one unbroken run
    EXPECT_EQ(encode(*tokenizer, whole).ids, Ids{end}) << cut;
  }
  EXPECT_EQ(
      encode(*tokenizer, spans({{"<|end", kTemplate}, {"x", kContent}, {"|>", kTemplate}})).ids,
      bytes_as_ids("<|endx|>"));
}

TEST(Tokenizer, TheEarliestSpecialWinsThenTheLongest) {
  TinyVocabulary vocabulary;
  const TokenId a = vocabulary.add("<a>", TokenKind::control),
                ab = vocabulary.add("<a><b>", TokenKind::control);
  const TokenId b = vocabulary.add("<b>", TokenKind::control);
  const TokenId early = vocabulary.add("xy|", TokenKind::control);
  vocabulary.add("y||||||", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "<a><b><a><a><b", kTemplate), (Ids{ab, a, a, '<', 'b'}));
  EXPECT_EQ(ids_of(*tokenizer, "<b><a><b>", kTemplate), (Ids{b, ab}));
  EXPECT_EQ(ids_of(*tokenizer, "xy||||||", kTemplate), (Ids{early, '|', '|', '|', '|', '|'}));
}

TEST(Tokenizer, ASpecialInsideTheStartOfALongerOneIsFound) {
  TinyVocabulary vocabulary;
  const TokenId a = vocabulary.add("<a>", TokenKind::control);
  const TokenId longer = vocabulary.add("x<a>b", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "y<a>b", kTemplate), (Ids{'y', a, 'b'}));
  EXPECT_EQ(ids_of(*tokenizer, "x<a>b<a>c", kTemplate), (Ids{longer, a, 'c'}));
  EXPECT_EQ(ids_of(*tokenizer, "x<a>c", kTemplate), (Ids{'x', a, 'c'}));
}

TEST(Tokenizer, OrdinaryTextIsJoinedAcrossBorders) {
  TinyVocabulary vocabulary;
  const TokenId ab = vocabulary.merge("a", "b"), abc = vocabulary.merge("ab", "c");
  const TokenId end = vocabulary.add("<e>", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(encode(*tokenizer, spans({{"a", kTemplate}, {"b", kContent}, {"c", kTemplate}})).ids,
            Ids{abc});
  // A special token between the pieces separates them.
  EXPECT_EQ(encode(*tokenizer, spans({{"ab<e>", kTemplate}, {"c", kContent}})).ids,
            (Ids{ab, end, 'c'}));
}

TEST(Tokenizer, NoMergeMakesASpecialToken) {
  TinyVocabulary vocabulary;
  const TokenId st = vocabulary.merge("s", "t");
  const TokenId stop = vocabulary.merge("st", "op");
  vocabulary.kinds.back() = int32_t(TokenKind::control);
  vocabulary.add("op");
  const auto tokenizer = load(vocabulary);
  EXPECT_TRUE(has_note(*tokenizer, "1 merge rules involve special tokens"));
  EXPECT_EQ(ids_of(*tokenizer, "stop", kContent), (Ids{st, 'o', 'p'}));
  EXPECT_EQ(ids_of(*tokenizer, "stop", kTemplate), Ids{stop});
}

TEST(Tokenizer, NoWholeWordLookUpMakesASpecialToken) {
  TinyVocabulary vocabulary;
  vocabulary.pre = "llama-bpe";
  const TokenId control = vocabulary.add("stop", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "stop", kContent), bytes_as_ids("stop"));
  EXPECT_EQ(ids_of(*tokenizer, "stop", kTemplate), Ids{control});
}

TEST(Tokenizer, UserDefinedPlainTextIsNoMarkup) {
  TinyVocabulary vocabulary;
  const TokenId spaces = vocabulary.add("   ", TokenKind::user_defined);
  const TokenId letter = vocabulary.add("\u00f5", TokenKind::user_defined);
  const TokenId sign = vocabulary.add("\u00f7", TokenKind::user_defined);
  vocabulary.add("[x]", TokenKind::user_defined);
  vocabulary.add("\u25c1think\u25b7", TokenKind::user_defined);
  const auto tokenizer = load(vocabulary);
  const std::string text = "a   \u00f5\u00f7";
  for (const Origin origin : {kTemplate, kContent}) {
    EXPECT_EQ(ids_of(*tokenizer, text, origin), (Ids{'a', spaces, letter, sign}));
  }
  EXPECT_EQ(encode(*tokenizer, spans({{" ", kTemplate}, {"  ", kContent}})).ids, Ids{spaces});
  EXPECT_EQ(ids_of(*tokenizer, "[x]\u25c1think\u25b7"), bytes_as_ids("[x]\u25c1think\u25b7"));
}

// --- what a file asks to add ---

struct Additions {
  bool bos, eos;
};

TinyVocabulary with_ends(Additions add) {
  TinyVocabulary vocabulary;
  const auto bos = uint32_t(vocabulary.add("<s>", TokenKind::control));
  const auto eos = uint32_t(vocabulary.add("<e>", TokenKind::control));
  vocabulary.more = [=](gguf::Writer& out) {
    out.set_uint("tokenizer.ggml.bos_token_id", bos);
    out.set_uint("tokenizer.ggml.eos_token_id", eos);
    out.set_bool("tokenizer.ggml.add_bos_token", add.bos);
    out.set_bool("tokenizer.ggml.add_eos_token", add.eos);
  };
  return vocabulary;
}

TEST(Tokenizer, AddsBosAndEosAsTheFileSays) {
  const TokenId bos = 256, eos = 257;
  EXPECT_EQ(ids_of(*load(with_ends({true, true})), "a", kContent, true), (Ids{bos, 'a', eos}));
  EXPECT_EQ(ids_of(*load(with_ends({true, true})), "a", kContent, false), Ids{'a'});
  EXPECT_EQ(ids_of(*load(with_ends({true, false})), "a", kContent, true), (Ids{bos, 'a'}));
  EXPECT_EQ(ids_of(*load(with_ends({false, true})), "a", kContent, true), (Ids{'a', eos}));
  EXPECT_EQ(ids_of(*load(with_ends({false, false})), "a", kContent, true), Ids{'a'});
  EXPECT_EQ(ids_of(*load(with_ends({true, true})), "", kContent, true), (Ids{bos, eos}));
}

TEST(Tokenizer, AddsNoSecondBosOrEos) {
  const TokenId bos = 256, eos = 257;
  const auto tokenizer = load(with_ends({true, true}));
  EXPECT_EQ(ids_of(*tokenizer, "<s>a<e>", kTemplate, true), (Ids{bos, 'a', eos}));
  EXPECT_EQ(ids_of(*tokenizer, "<s><s>a", kTemplate, true), (Ids{bos, bos, 'a', eos}));
  EXPECT_EQ(ids_of(*tokenizer, "a<s>", kTemplate, true), (Ids{bos, 'a', bos, eos}));
  // What only looks like one does not count.
  EXPECT_EQ(ids_of(*tokenizer, "<s>", kContent, true), (Ids{bos, '<', 's', '>', eos}));
}

TEST(Tokenizer, BosByDefaultNeedsABos) {
  TinyVocabulary vocabulary = with_ends({false, false});
  vocabulary.pre = "llama-bpe";
  vocabulary.more = [](gguf::Writer& out) { out.set_uint("tokenizer.ggml.bos_token_id", 256); };
  EXPECT_TRUE(load(vocabulary)->add_bos());
  vocabulary.more = nullptr;
  EXPECT_FALSE(load(vocabulary)->add_bos());
  vocabulary.pre = "qwen2";
  vocabulary.more = [](gguf::Writer& out) { out.set_uint("tokenizer.ggml.bos_token_id", 256); };
  EXPECT_FALSE(load(vocabulary)->add_bos());
}

TEST(Tokenizer, AddsASpaceBeforeOrdinaryTextOnly) {
  TinyVocabulary vocabulary = with_ends({false, false});
  const TokenId space_a = vocabulary.merge(" ", "a");
  vocabulary.more = [](gguf::Writer& out) {
    out.set_bool("tokenizer.ggml.add_space_prefix", true);
  };
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "a"), Ids{space_a});
  EXPECT_EQ(ids_of(*tokenizer, " a"), Ids{space_a});
  EXPECT_EQ(ids_of(*tokenizer, ""), Ids{});
  EXPECT_EQ(ids_of(*tokenizer, "<s>a", kTemplate),
            (Ids{256, 'a'}));  // no space after an added token
  EXPECT_EQ(ids_of(*tokenizer, "a<s>a", kTemplate), (Ids{space_a, 256, 'a'}));
}

// --- bytes that are no text, and text without a token ---

TEST(Tokenizer, EachInvalidByteIsReadAsAReplacementCharacter) {
  const auto tokenizer = load({});
  const struct {
    const char* text;
    const char* read;
    size_t invalid;
  } cases[] = {{"a\xff"
                "b",
                "a\ufffd"
                "b",
                1},
               {"\xe2\x82", "\ufffd\ufffd", 2},
               {"\xe2\x82\xac\xc3", "\u20ac\ufffd", 1},
               {"\xc0\xaf", "\ufffd\ufffd", 2},
               {"\xed\xa0\x80", "\ufffd\ufffd\ufffd", 3},
               {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd", 4},
               {"\xf0\x9f\x98\xf0\x9f\x98\x80", "\ufffd\ufffd\ufffd\U0001f600", 3}};
  for (const auto& c : cases) {
    const Encoding encoding = encode(*tokenizer, SpanText(c.text, kContent));
    EXPECT_EQ(encoding.ids, bytes_as_ids(c.read)) << c.read;
    EXPECT_EQ(encoding.invalid_bytes, c.invalid) << c.read;
  }
  EXPECT_EQ(encode(*tokenizer, SpanText("\u00e9", kContent)).invalid_bytes, 0u);
}

TEST(Tokenizer, InvalidBytesKeepTheBordersInPlace) {
  TinyVocabulary vocabulary;
  const TokenId end = vocabulary.add("<e>", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  Ids expected = bytes_as_ids("\ufffd<e>");
  expected.push_back(end);
  for (const TokenId id : bytes_as_ids("\ufffd<e>")) expected.push_back(id);
  const Encoding encoding =
      encode(*tokenizer, spans({{"\xff<e>", kContent}, {"<e>", kTemplate}, {"\xe2<e>", kContent}}));
  EXPECT_EQ(encoding.ids, expected);
  EXPECT_EQ(encoding.invalid_bytes, 2u);
  // A character whose bytes come from both sides of a border is a character.
  const Encoding joined =
      encode(*tokenizer, spans({{"\xe2\x82", kContent}, {"\xac<e>", kTemplate}}));
  expected = bytes_as_ids("\u20ac");
  expected.push_back(end);
  EXPECT_EQ(joined.ids, expected);
  EXPECT_EQ(joined.invalid_bytes, 0u);
}

TEST(Tokenizer, AnInvalidByteIsOfTheOriginItCameFrom) {
  TinyVocabulary vocabulary;
  const TokenId special = vocabulary.add("<\ufffd>", TokenKind::control);
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "<\xff>", kTemplate), Ids{special});
  EXPECT_EQ(encode(*tokenizer, spans({{"<", kTemplate}, {"\xff", kContent}, {">", kTemplate}})).ids,
            bytes_as_ids("<\ufffd>"));
}

TinyVocabulary without_byte_q() {
  TinyVocabulary vocabulary;
  vocabulary.merge("a", "b");
  vocabulary.tokens['q'] = "qqq";  // another token in its place
  return vocabulary;
}

TEST(Tokenizer, AByteWithoutATokenIsLeftOutAndCounted) {
  const Encoding encoding = encode(*load(without_byte_q()), SpanText("xqaqbq", kContent));
  EXPECT_EQ(encoding.ids, (Ids{'x', 256}));
  EXPECT_EQ(encoding.left_out_bytes, 3u);
}

TEST(Tokenizer, OrBecomesTheUnknownTokenIfThereIsOne) {
  TinyVocabulary vocabulary = without_byte_q();
  const TokenId unknown = vocabulary.add("<unk>", TokenKind::unknown);
  vocabulary.more = [=](gguf::Writer& out) {
    out.set_uint("tokenizer.ggml.unknown_token_id", uint32_t(unknown));
  };
  const Encoding encoding = encode(*load(vocabulary), SpanText("xqaqb", kContent));
  EXPECT_EQ(encoding.ids, (Ids{'x', unknown, 'a', unknown, 'b'}));
  EXPECT_EQ(encoding.left_out_bytes, 0u);
  // A control token never stands for text, even if the file calls it the unknown token.
  vocabulary.kinds.back() = int32_t(TokenKind::control);
  EXPECT_EQ(encode(*load(vocabulary), SpanText("xq", kContent)).ids, Ids{'x'});
}

// --- files that are wrong ---

struct BadFile {
  const char* name;
  std::function<void(TinyVocabulary&)> spoil;
  ErrorCode code;
  const char* message_part;
};

void PrintTo(const BadFile& file, std::ostream* out) {
  *out << file.name;
}

void set_uint(TinyVocabulary& v, const char* key, uint32_t value) {
  v.more = [=](gguf::Writer& out) { out.set_uint(key, value); };
}
void set_bool(TinyVocabulary& v, const char* key) {
  v.more = [=](gguf::Writer& out) { out.set_bool(key, true); };
}

const BadFile bad_files[] = {
    {"duplicate", [](auto& v) { v.add("a"); }, ErrorCode::malformed,
     "tokens 97 and 256 are both 'a'"},
    {"duplicate_special",
     [](auto& v) {
       v.add("<x>", TokenKind::control);
       v.add("<x>", TokenKind::user_defined);
     },
     ErrorCode::malformed, "tokens 256 and 257"},
    {"merge_without_space", [](auto& v) { v.merges.push_back("ab"); }, ErrorCode::malformed,
     "rule 0 is not"},
    {"merge_of_three", [](auto& v) { v.merges.push_back("a b c"); }, ErrorCode::malformed,
     "rule 0 is not"},
    {"merge_half_empty", [](auto& v) { v.merges.push_back("a "); }, ErrorCode::malformed,
     "rule 0 is not"},
    {"merge_other_half_empty", [](auto& v) { v.merges.push_back(" a"); }, ErrorCode::malformed,
     "rule 0 is not"},
    {"merge_empty", [](auto& v) { v.merges.push_back(""); }, ErrorCode::malformed, "rule 0 is not"},
    {"merge_unknown_result", [](auto& v) { v.merges.push_back("a b"); }, ErrorCode::malformed,
     "'ab' is not in the vocabulary"},
    {"merge_unknown_part",
     [](auto& v) {
       v.add("abc");
       v.merges.push_back("ab c");
     },
     ErrorCode::malformed, "'ab' is not in the vocabulary"},
    {"merge_outside_alphabet", [](auto& v) { v.merges.push_back("\u6f22 a"); },
     ErrorCode::malformed, "is not in the vocabulary"},
    {"merge_twice",
     [](auto& v) {
       v.merge("a", "b");
       v.merges.push_back(v.merges.back());
     },
     ErrorCode::malformed, "rules 0 and 1 are the same"},
    {"too_few_types", [](auto& v) { v.kinds.pop_back(); }, ErrorCode::malformed,
     "255 types for 256 tokens"},
    {"unknown_type", [](auto& v) { v.kinds[7] = 9; }, ErrorCode::malformed,
     "token 7 has the unknown type 9"},
    {"negative_type", [](auto& v) { v.kinds[7] = -1; }, ErrorCode::malformed,
     "token 7 has the unknown type -1"},
    {"long_duplicate",
     [](auto& v) {
       v.add(std::string(60'000, 'x'));
       v.add(std::string(60'000, 'x'));
     },
     ErrorCode::malformed, "tokens 256 and 257 are both 'xxx"},
    {"long_merge", [](auto& v) { v.merges.push_back(std::string(60'000, 'x')); },
     ErrorCode::malformed, "rule 0 is not"},
    {"long_pre", [](auto& v) { v.pre = std::string(60'000, 'x'); }, ErrorCode::unsupported, "'xxx"},
    {"no_tokens",
     [](auto& v) {
       v.tokens.clear();
       v.kinds.clear();
     },
     ErrorCode::malformed, "tokenizer.ggml.tokens"},
    {"huge_token", [](auto& v) { v.add(std::string(70'000, 'x')); }, ErrorCode::malformed,
     "token 256 is 70000 bytes long"},
    {"bos_outside", [](auto& v) { set_uint(v, "tokenizer.ggml.bos_token_id", 256); },
     ErrorCode::malformed,
     "tokenizer.ggml.bos_token_id: token 256 is outside the vocabulary of 256"},
    {"eos_outside", [](auto& v) { set_uint(v, "tokenizer.ggml.eos_token_id", 4'000'000'000); },
     ErrorCode::malformed, "tokenizer.ggml.eos_token_id: token 4000000000"},
    {"eot_outside", [](auto& v) { set_uint(v, "tokenizer.ggml.eot_token_id", 256); },
     ErrorCode::malformed, "tokenizer.ggml.eot_token_id"},
    {"unknown_outside", [](auto& v) { set_uint(v, "tokenizer.ggml.unknown_token_id", 256); },
     ErrorCode::malformed, "tokenizer.ggml.unknown_token_id"},
    {"bos_wanted_but_none", [](auto& v) { set_bool(v, "tokenizer.ggml.add_bos_token"); },
     ErrorCode::malformed,
     "tokenizer.ggml.add_bos_token: true, but tokenizer.ggml.bos_token_id is missing"},
    {"eos_wanted_but_none", [](auto& v) { set_bool(v, "tokenizer.ggml.add_eos_token"); },
     ErrorCode::malformed, "tokenizer.ggml.eos_token_id is missing"},
    {"unknown_pre", [](auto& v) { v.pre = "klingon"; }, ErrorCode::unsupported,
     "tokenizer.ggml.pre: unknown pre-tokenizer 'klingon'; if one of these has the same rules, "
     "choose it with "
     "--pre: default, gpt-2"},
};

class BadTokenizerFile : public testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizerFile, IsAnErrorThatSaysWhatIsWrong) {
  TinyVocabulary vocabulary;
  GetParam().spoil(vocabulary);
  const auto loaded = vocabulary.load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, GetParam().code) << loaded.error().text();
  EXPECT_NE(loaded.error().text().find(GetParam().message_part), std::string::npos)
      << loaded.error().text();
  EXPECT_LT(loaded.error().text().size(), 1500u);
}

std::string bad_file_name(const testing::TestParamInfo<BadFile>& file) {
  return file.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, BadTokenizerFile, testing::ValuesIn(bad_files), bad_file_name);

TEST(Tokenizer, OtherTokenizerModelsAreRefusedByName) {
  gguf::Writer out;
  out.set_string("tokenizer.ggml.model", "llama");
  const auto bytes = out.bytes();
  ASSERT_TRUE(bytes);
  const auto file = gguf::File::from_bytes(*bytes);
  ASSERT_TRUE(file);
  const auto loaded = Tokenizer::from_gguf(**file);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::unsupported);
  EXPECT_NE(loaded.error().text().find("'llama'"), std::string::npos) << loaded.error().text();
}

TEST(Tokenizer, MissingKeysAreNamed) {
  const std::string prefix = "tokenizer.ggml.";
  std::string missing;
  for (const char* key : {"model", "tokens", "merges"}) {
    gguf::Writer out;
    if (key != std::string("model")) out.set_string(prefix + "model", "gpt2");
    if (key != std::string("tokens")) out.set_strings(prefix + "tokens", {"a"});
    if (key != std::string("merges")) out.set_strings(prefix + "merges", {});
    const auto bytes = out.bytes();
    ASSERT_TRUE(bytes);
    const auto file = gguf::File::from_bytes(*bytes);
    ASSERT_TRUE(file);
    const auto loaded = Tokenizer::from_gguf(**file);
    ASSERT_FALSE(loaded) << key;
    EXPECT_NE(loaded.error().text().find(prefix + key), std::string::npos) << loaded.error().text();
  }
}

TEST(Tokenizer, AMissingPreTokenizerIsTheDefaultAndSaidSo) {
  TinyVocabulary vocabulary;
  vocabulary.pre.clear();
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer->pre_tokenizer(), "default");
  EXPECT_TRUE(has_note(*tokenizer, "tokenizer.ggml.pre is missing"));
  vocabulary.pre = "default";
  EXPECT_TRUE(load(vocabulary)->notes().empty());
}

TEST(Tokenizer, ThePreTokenizerCanBeChosen) {
  TinyVocabulary vocabulary;
  vocabulary.pre = "klingon";
  const auto tokenizer = load(vocabulary, {.pre = "smollm"});
  EXPECT_EQ(tokenizer->pre_tokenizer(), "smollm");
  EXPECT_TRUE(tokenizer->notes().empty());
  const auto refused = vocabulary.load({.pre = "romulan"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("--pre: unknown pre-tokenizer 'romulan'"),
            std::string::npos);
}

TEST(Tokenizer, TextBeyondTheLimitIsAnError) {
  const auto encoding = load({})->encode(SpanText(std::string((64u << 20) + 1, 'a'), kContent));
  ASSERT_FALSE(encoding);
  EXPECT_EQ(encoding.error().code, ErrorCode::invalid_argument);
}

// --- the vocabulary ---

TEST(Tokenizer, TokensBySpellingAndById) {
  TinyVocabulary vocabulary;
  const TokenId word = vocabulary.merge(" ", "a");
  const TokenId control = vocabulary.add("<|x|>", TokenKind::control);
  const TokenId odd =
      vocabulary.add("\u6f22", TokenKind::normal);  // outside the byte alphabet: verbatim
  const TokenId empty = vocabulary.add("");
  vocabulary.add("");  // several may be empty; no text is one
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer->token_bytes(word), " a");
  EXPECT_EQ(tokenizer->token_bytes(control), "<|x|>");
  EXPECT_EQ(tokenizer->token_bytes(odd), "\u6f22");
  EXPECT_EQ(tokenizer->token_bytes(empty), "");
  for (const TokenId outside : {-1, int32_t(vocabulary.tokens.size()), INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(tokenizer->token_bytes(outside), "");
    EXPECT_EQ(tokenizer->token_kind(outside), TokenKind::unused);
    EXPECT_FALSE(tokenizer->is_end_of_generation(outside));
  }
  EXPECT_EQ(tokenizer->token_kind(control), TokenKind::control);
  EXPECT_EQ(tokenizer->find_token("\u0120a"), word);
  EXPECT_EQ(tokenizer->find_token("<|x|>"), control);
  EXPECT_EQ(tokenizer->find_token("\u6f22"), odd);
  EXPECT_EQ(tokenizer->find_token(" a"), std::nullopt);
  EXPECT_EQ(tokenizer->find_token(""), std::nullopt);
  EXPECT_EQ(ids_of(*tokenizer, "\u6f22"), bytes_as_ids("\u6f22"));
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->token_bytes(byte), std::string(1, static_cast<char>(byte)));
  }
}

TEST(Tokenizer, EndsAreTheFilesAndTheKnownSpellings) {
  TinyVocabulary vocabulary;
  const TokenId eos = vocabulary.add("<stop>", TokenKind::control);
  const TokenId eot = vocabulary.add("<turn>", TokenKind::control);
  const TokenId im_end = vocabulary.add("<|im_end|>", TokenKind::control);
  const TokenId eot_id = vocabulary.add("<|eot_id|>", TokenKind::user_defined);
  const TokenId start = vocabulary.add("<|im_start|>", TokenKind::control);
  vocabulary.more = [=](gguf::Writer& out) {
    out.set_uint("tokenizer.ggml.eos_token_id", uint32_t(eos));
    out.set_uint("tokenizer.ggml.eot_token_id", uint32_t(eot));
    out.set_uint("tokenizer.ggml.bos_token_id", uint32_t(start));
  };
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer->end_of_generation(), (Ids{eos, eot, im_end, eot_id}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(im_end));
  EXPECT_FALSE(tokenizer->is_end_of_generation(start));
  EXPECT_EQ(tokenizer->eos(), eos);
  EXPECT_EQ(tokenizer->bos(), start);
}

TEST(Tokenizer, AnEndInsideATurnIsNoEnd) {
  TinyVocabulary vocabulary;
  vocabulary.add("<|end|>", TokenKind::control);
  EXPECT_EQ(load(vocabulary)->end_of_generation(), Ids{256});
  const TokenId back = vocabulary.add("<|return|>", TokenKind::control);
  const TokenId call = vocabulary.add("<|call|>", TokenKind::control);
  EXPECT_EQ(load(vocabulary)->end_of_generation(), (Ids{back, call}));
}

TEST(Tokenizer, AnEndTypedNormalIsAControlTokenUnlessTextCanBeIt) {
  TinyVocabulary vocabulary;
  const TokenId end = vocabulary.add("<|endoftext|>");
  vocabulary.merge("<", "/");
  vocabulary.merge("</", "s");
  const TokenId strike = vocabulary.merge("</s", ">");  // learnt from HTML, as Qwen's is
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer->end_of_generation(), Ids{end});
  EXPECT_EQ(tokenizer->token_kind(end), TokenKind::control);
  EXPECT_TRUE(has_note(*tokenizer, "<|endoftext|>"));
  EXPECT_EQ(tokenizer->token_kind(strike), TokenKind::normal);
  EXPECT_EQ(ids_of(*tokenizer, "<|endoftext|></s>", kTemplate), (Ids{end, 257, 's', '>'}));
}

TEST(Tokenizer, WithoutTypesTheNamedTokensAreSpecial) {
  TinyVocabulary vocabulary;
  const TokenId bos = vocabulary.add("<start>"), other = vocabulary.add("<other>");
  vocabulary.kinds.clear();
  vocabulary.more = [=](gguf::Writer& out) {
    out.set_uint("tokenizer.ggml.bos_token_id", uint32_t(bos));
    out.set_uint("tokenizer.ggml.eos_token_id", ',');  // nonsense, as old converters wrote it
  };
  const auto tokenizer = load(vocabulary);
  EXPECT_TRUE(has_note(*tokenizer, "tokenizer.ggml.token_type is missing"));
  EXPECT_EQ(tokenizer->token_kind(bos), TokenKind::control);
  EXPECT_EQ(tokenizer->token_kind(other), TokenKind::normal);
  EXPECT_EQ(ids_of(*tokenizer, "<start>,", kTemplate), (Ids{bos, ','}));
}

TEST(Tokenizer, ATokenMadeControlIsNoWholeWordEither) {
  TinyVocabulary vocabulary;
  vocabulary.pre = "llama-bpe";
  const TokenId bos = vocabulary.add("start");
  vocabulary.kinds.clear();
  vocabulary.more = [=](gguf::Writer& out) {
    out.set_uint("tokenizer.ggml.bos_token_id", uint32_t(bos));
  };
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(ids_of(*tokenizer, "start", kContent), bytes_as_ids("start"));
  EXPECT_EQ(ids_of(*tokenizer, "start", kTemplate), Ids{bos});
}

// --- words ---

std::vector<std::string> words(std::string_view pre, std::string_view text) {
  const auto splitter = PreTokenizer::create(*find_pre_tokenizer(pre));
  const auto ends = splitter->split(text);
  std::vector<std::string> out;
  size_t begin = 0;
  for (const size_t end : *ends) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, SplitsAsTheRulesSay) {
  EXPECT_EQ(words("gpt-2", "I'LL don't 12345  x"),
            (Words{"I", "'", "LL", " don", "'t", " 12345", " ", " x"}));
  EXPECT_EQ(words("llama-bpe", "I'LL 12345  x"), (Words{"I", "'LL", " ", "123", "45", " ", " x"}));
  EXPECT_EQ(words("qwen2", "x 123"), (Words{"x", " ", "1", "2", "3"}));
  EXPECT_EQ(words("smollm", "a 12"), (Words{"a", " ", "1", "2"}));
  EXPECT_EQ(words("default", "a+b 12345"), (Words{"a", "+", "b", " ", "123", "45"}));
  EXPECT_EQ(words("lfm2", "!\n\n  \n x"), (Words{"!\n\n", "  \n", " x"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesWhiteSpace) {
  for (const char* space : {"\t", "\v", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029",
                            "\u202f", "\u205f", "\u3000"}) {
    const std::string text = std::string(space) + space + "!";
    EXPECT_EQ(words("gpt-2", text), (Words{space, space, "!"})) << text;
  }
  for (const char* other : {"\u180e", "\u200b", "\u2060", "\ufeff", "\x1c", "\x1f"}) {
    const std::string text = std::string(other) + other + "!";
    EXPECT_EQ(words("gpt-2", text), Words{text}) << text;
  }
}

TEST(PreTokenizer, LettersAndNumbersOfNewerUnicode) {
  EXPECT_EQ(words("gpt-2", "\U000323af\U0002ebf0!"), (Words{"\U000323af\U0002ebf0", "!"}));
  EXPECT_EQ(words("smollm", "\U0001e5f1\U0001e5f2"), (Words{"\U0001e5f1", "\U0001e5f2"}));
}

TEST(PreTokenizer, EveryNameHasAWorkingRule) {
  const std::string text = "Hello, w\u00f6rld 123456!\r\n\t  \u6f22\u5b57 'S <|x|> \u0301\u180e ";
  const std::string names = pre_tokenizer_names();
  size_t n = 0;
  for (size_t begin = 0; begin < names.size(); ++n) {
    const size_t end = std::min(names.find(", ", begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    ASSERT_NE(find_pre_tokenizer(name), nullptr) << name;
    std::string joined;
    for (const std::string& word : words(name, text)) {
      EXPECT_FALSE(word.empty()) << name;
      joined += word;
    }
    EXPECT_EQ(joined, text) << name;
    begin = end + 2;
  }
  EXPECT_GT(n, 40u);
  for (const char* name :
       {"gpt-2", "llama-bpe", "smollm", "qwen2", "lfm2", "refact", "dbrx", "default"}) {
    EXPECT_NE(find_pre_tokenizer(name), nullptr) << name;
  }
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
}

}  // namespace
}  // namespace cera::text
