#pragma once
// The tokenizer of "gpt2" models. Tokenizer::from_gguf makes one; tests may look inside.

#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_special.h"
#include "text/tokenizer_vocabulary.h"

namespace cera::text {

/// What loading decides and encoding needs; see tokenizer_load.cpp.
struct BpeTokenizerParts {
  Vocabulary vocabulary;
  BpeModel bpe;
  PreTokenizer pre_tokenizer;
  std::string pre_tokenizer_name;
  bool ignore_merges = false;
  SpecialMatcher specials;     // recognised in template text only
  SpecialMatcher plain_added;  // recognised everywhere, see tokenizer_load.cpp
  std::optional<TokenId> bos, eos, unknown;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  std::vector<TokenId> end_of_generation;
  std::vector<std::string> notes;
};

class BpeTokenizer final : public Tokenizer {
 public:
  static constexpr size_t max_text_bytes = 64u << 20;  // encoding takes up to 25 bytes per byte

  explicit BpeTokenizer(BpeTokenizerParts parts) : parts_(std::move(parts)) {}

  Result<Encoding> encode(const SpanText& text, const EncodeOptions& options) const override;
  size_t vocab_size() const override { return parts_.vocabulary.size(); }
  std::string_view token_bytes(TokenId id) const override;
  TokenKind token_kind(TokenId id) const override;
  std::optional<TokenId> find_token(std::string_view spelling) const override;
  std::optional<TokenId> bos() const override { return parts_.bos; }
  std::optional<TokenId> eos() const override { return parts_.eos; }
  bool add_bos() const override { return parts_.add_bos; }
  bool add_eos() const override { return parts_.add_eos; }
  const std::vector<TokenId>& end_of_generation() const override {
    return parts_.end_of_generation;
  }
  const std::string& pre_tokenizer() const override { return parts_.pre_tokenizer_name; }
  const std::vector<std::string>& notes() const override { return parts_.notes; }

 private:
  Result<void> encode_clean(const SpanText& text, const EncodeOptions& options,
                            Encoding& encoding) const;
  Result<void> encode_ordinary(std::string_view text, BpeMerger& merger,
                               std::vector<TokenId>& ids) const;
  Result<void> encode_words(std::string_view text, BpeMerger& merger,
                            std::vector<TokenId>& ids) const;

  BpeTokenizerParts parts_;
};

/// Reads and checks tokenizer.ggml.*.
Result<BpeTokenizerParts> load_bpe_tokenizer(const gguf::File& file,
                                             const TokenizerOptions& options);

}  // namespace cera::text
