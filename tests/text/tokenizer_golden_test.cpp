// Ids over real vocabularies: those that two other implementations agree on (golden/, see
// make_goldens.py there), and the pairs of texts and ids that come with llama.cpp's vocabulary
// files.

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/tokenizer_files.h"

namespace cera::text {
namespace {

using Ids = std::vector<TokenId>;
const std::filesystem::path golden_folder =
    std::filesystem::path(CERA_SOURCE_DIR) / "tests/text/golden";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::map<std::string, std::string> golden_texts() {
  std::map<std::string, std::string> texts;
  const auto entries = nlohmann::json::parse(read_file(golden_folder / "texts.json"));
  for (const auto& [name, entry] : entries.items()) {
    texts[name] = entry.contains("hex") ? from_hex(entry["hex"]) : entry["text"].get<std::string>();
  }
  return texts;
}

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder / "ids")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class GoldenIds : public testing::TestWithParam<std::string> {};

TEST_P(GoldenIds, AreOurs) {
  const auto golden =
      nlohmann::json::parse(read_file(golden_folder / "ids" / (GetParam() + ".json")));
  const auto folder = golden["place"] == "models" ? models_folder() : peer_models_folder();
  const auto path = folder / golden["file"].get<std::string>();
  CERA_NEEDS_FILE(path);
  TokenizerOptions options;
  if (golden["pre"] != "") options.pre = golden["pre"].get<std::string>();
  const auto tokenizer = load_tokenizer(path, options);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();

  const auto texts = golden_texts();
  EXPECT_GE(texts.size(), 200u);
  EXPECT_EQ(golden["ids"].size(), texts.size());
  for (const auto& [name, text] : texts) {
    const auto& entry = golden["ids"][name];
    const auto& content = entry.contains("content") ? entry["content"] : entry["template"];
    const auto as_template = (*tokenizer)->encode(SpanText(text, Origin::template_text));
    const auto as_content = (*tokenizer)->encode(SpanText(text, Origin::content));
    ASSERT_TRUE(as_template && as_content) << name;
    EXPECT_EQ(as_template->ids, entry["template"].get<Ids>())
        << name << ": " << text.substr(0, 200);
    EXPECT_EQ(as_content->ids, content.get<Ids>()) << name << ", content: " << text.substr(0, 200);
    EXPECT_EQ(as_content->invalid_bytes > 0, name.starts_with("invalid/")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenIds, testing::ValuesIn(golden_cases()), test_name);

class VocabularyPairs : public testing::TestWithParam<std::string> {};

TEST_P(VocabularyPairs, GiveTheirIds) {
  const auto path = peer_models_folder() / ("ggml-vocab-" + GetParam() + ".gguf");
  const auto texts_path = path.string() + ".inp", ids_path = path.string() + ".out";
  CERA_NEEDS_FILE(path);
  CERA_NEEDS_FILE(texts_path);
  CERA_NEEDS_FILE(ids_path);
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();

  const std::string texts = read_file(texts_path), separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(read_file(ids_path));
  size_t n = 0;
  for (size_t begin = 0; begin < texts.size(); ++n) {
    const size_t end = std::min(texts.find(separator, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    begin = end + separator.size();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << "more texts than ids";
    std::istringstream numbers(line);
    const Ids expected{std::istream_iterator<TokenId>(numbers), {}};
    const auto encoding = (*tokenizer)->encode(SpanText(text, Origin::template_text));
    ASSERT_TRUE(encoding);
    EXPECT_EQ(encoding->ids, expected) << n << ": " << text;
  }
  EXPECT_GT(n, 30u);
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyPairs,
                         testing::Values("gpt-2", "llama-bpe", "qwen2", "qwen35", "refact",
                                         "starcoder", "command-r", "mpt", "falcon",
                                         "deepseek-coder"),
                         test_name);

/// Keys of real files as we read them.
TEST(RealVocabulary, Smollm2) {
  const auto path = models_folder() / "smollm2.gguf";
  CERA_NEEDS_FILE(path);
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(t.pre_tokenizer(), "smollm");
  EXPECT_EQ(t.bos(), t.find_token("<|im_start|>"));
  EXPECT_EQ(t.eos(), t.find_token("<|im_end|>"));
  EXPECT_FALSE(t.add_bos());
  EXPECT_TRUE(t.notes().empty()) << t.notes()[0];
  EXPECT_TRUE(t.is_end_of_generation(*t.find_token("<|im_end|>")));
  EXPECT_TRUE(t.is_end_of_generation(*t.find_token("<|endoftext|>")));
  EXPECT_FALSE(t.is_end_of_generation(*t.find_token("<|im_start|>")));
  // Its "unknown" token is <|endoftext|>, which must not come out of text that has no token.
  const auto encoding = t.encode(SpanText("a\x04", Origin::content));
  ASSERT_TRUE(encoding);
  EXPECT_EQ(encoding->ids, Ids{*t.find_token("a")});
  EXPECT_EQ(encoding->left_out_bytes, 1u);
}

TEST(RealVocabulary, Qwen05) {
  const auto path = models_folder() / "qwen05.gguf";
  CERA_NEEDS_FILE(path);
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(t.pre_tokenizer(), "qwen2");
  EXPECT_FALSE(t.add_bos());
  for (const char* end : {"<|im_end|>", "<|endoftext|>", "<|file_sep|>"}) {
    ASSERT_TRUE(t.find_token(end)) << end;
    EXPECT_TRUE(t.is_end_of_generation(*t.find_token(end))) << end;
  }
  EXPECT_EQ(t.token_kind(*t.find_token("<tool_call>")), TokenKind::user_defined);
  EXPECT_FALSE(t.is_end_of_generation(*t.find_token("</s>")));  // an ordinary token here
}

}  // namespace
}  // namespace cera::text
