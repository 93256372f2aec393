// Which expressions each value of tokenizer.ggml.pre stands for. Expressions are the models'
// published ones (tokenizer.json); names, whole-word lookup and the default for BOS are those that
// llama.cpp's loader has.

#include "text/pre_tokenizer.h"

namespace cera::text {
namespace {

#define CERA_GPT2_WORDS \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CERA_WORDS_WITH_NUMBERS(numbers)                                \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

constexpr const char* gpt2_words[] = {CERA_GPT2_WORDS};
constexpr const char* single_digits_then_gpt2[] = {"\\p{N}", CERA_GPT2_WORDS};
constexpr const char* three_digits[] = {CERA_WORDS_WITH_NUMBERS("\\p{N}{1,3}")};
constexpr const char* one_digit[] = {CERA_WORDS_WITH_NUMBERS("\\p{N}")};
constexpr const char* one_digit_with_marks[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
constexpr const char* punctuation_first[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", CERA_GPT2_WORDS,
                                             "\\p{N}+", "[0-9][0-9][0-9]"};
constexpr const char* falcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", CERA_GPT2_WORDS, "[0-9][0-9][0-9]"};
constexpr const char* deepseek_coder[] = {
    "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"};
constexpr const char* deepseek_v3[] = {
    "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
     "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")};

constexpr PreTokenizerRule rules[] = {
    {"default", punctuation_first},
    {"gpt-2", gpt2_words},
    {"gpt2", gpt2_words},
    {"phi-2", gpt2_words},
    {"mpt", gpt2_words},
    {"olmo", gpt2_words},
    {"jais", gpt2_words},
    {"trillion", gpt2_words},
    {"granite-docling", gpt2_words},
    {"exaone4", gpt2_words},
    {"gigachat", gpt2_words},
    {"a.x-4.0", gpt2_words},
    {"mellum", gpt2_words},
    {"smollm", single_digits_then_gpt2},
    {"starcoder", single_digits_then_gpt2},
    {"refact", single_digits_then_gpt2},
    {"command-r", single_digits_then_gpt2},
    {"codeshell", single_digits_then_gpt2},
    {"exaone", single_digits_then_gpt2},
    {"minerva-7b", single_digits_then_gpt2},
    {"mellum2", single_digits_then_gpt2},
    {"llama-bpe", three_digits, true, true},
    {"llama3", three_digits, true, true},
    {"llama-v3", three_digits, true, true},
    {"falcon3", three_digits, true, true},
    {"falcon-h1", three_digits, true, true},
    {"pixtral", three_digits, true, true},
    {"midm-2.0", three_digits, true, true},
    {"lfm2", three_digits, true, true},
    {"dbrx", three_digits},
    {"smaug-bpe", three_digits},
    {"chatglm-bpe", three_digits},
    {"glm4", three_digits, true},
    {"glm5", three_digits, true},
    {"qwen2", one_digit},
    {"deepseek-r1-qwen", one_digit},
    {"kormo", one_digit},
    {"f2llmv2", one_digit},
    {"megrez", one_digit},
    {"stablelm2", one_digit},
    {"hunyuan", one_digit},
    {"solar-open", one_digit},
    {"grok-2", one_digit},
    {"qwen35", one_digit_with_marks},
    {"falcon", falcon},
    {"deepseek-coder", deepseek_coder},
    {"deepseek-v3", deepseek_v3},
    {"hunyuan-dense", deepseek_v3},
    {"joyai-llm", deepseek_v3},
};

#undef CERA_GPT2_WORDS
#undef CERA_WORDS_WITH_NUMBERS

}  // namespace

const PreTokenizerRule* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRule& rule : rules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const PreTokenizerRule& rule : rules) {
    if (!names.empty()) names += ", ";
    names += rule.name;
  }
  return names;
}

}  // namespace cera::text
