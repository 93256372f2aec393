#pragma once
// Text to token ids and back. Byte-level BPE (tokenizer.ggml.model = "gpt2").

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/gguf.h"
#include "text/span_text.h"

namespace cera::text {

using TokenId = int32_t;

/// tokenizer.ggml.token_type
enum class TokenKind : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct TokenizerOptions {
  std::optional<std::string> pre;  // overrides tokenizer.ggml.pre
};

struct EncodeOptions {
  bool add_special = false;  // BOS/EOS as the file's add_bos_token/add_eos_token say
};

struct Encoding {
  std::vector<TokenId> ids;
  size_t invalid_bytes = 0;  // each was read as U+FFFD; callers report it
  /// Valid text that the vocabulary has no token for (smollm2: some control characters). A token of
  /// type `unknown` stands for each such byte if the file names one; otherwise they are left out;
  /// callers report it.
  size_t left_out_bytes = 0;
};

/// Immutable after construction; safe to use from any thread.
class Tokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const gguf::File& file,
                                                            const TokenizerOptions& options = {});
  virtual ~Tokenizer() = default;

  /// Special tokens (control, unknown and user-defined) are recognised inside unbroken
  /// template_text runs only: the earliest first, the longest at equal starts. Ordinary text
  /// between them is pre-tokenized jointly across run borders. No content ever becomes a control
  /// token. User-defined tokens that are plain text (white space, letters, digits, or one
  /// character) are no markup and are recognised everywhere. With add_special no BOS is added to
  /// text that begins with one, and no EOS to text that ends with one. Nothing is normalised (GGUF
  /// does not say how): Qwen's own tokenizer would first compose to NFC. Errors: more than 64 MiB
  /// of text; no memory.
  virtual Result<Encoding> encode(const SpanText& text,
                                  const EncodeOptions& options = {}) const = 0;

  virtual size_t vocab_size() const = 0;
  /// The bytes that a token stands for in the output; control tokens give their spelling. Empty for
  /// an id outside the vocabulary.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  virtual TokenKind token_kind(TokenId id) const = 0;
  /// The id whose vocabulary entry spells exactly this (as stored: specials such as "<|im_end|>").
  virtual std::optional<TokenId> find_token(std::string_view spelling) const = 0;

  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool add_bos() const = 0;
  virtual bool add_eos() const = 0;
  /// Every token that ends generation: eos, eot, eom of the file and the vocabulary's known end
  /// spellings. Sorted, unique.
  virtual const std::vector<TokenId>& end_of_generation() const = 0;
  bool is_end_of_generation(TokenId id) const;

  virtual const std::string& pre_tokenizer() const = 0;
  /// Things the user should hear about once ("tokenizer.ggml.pre is missing, using 'default'").
  virtual const std::vector<std::string>& notes() const = 0;
};

/// Ids to text, never half a code point. Invalid UTF-8 comes out as U+FFFD. One per stream.
class Detokenizer {
 public:
  /// show_special: control tokens are printed as their spelling instead of being left out.
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool show_special = false);
  /// The text that has become complete by this token; may be empty.
  std::string push(TokenId id);
  /// What is still held back, with a dangling tail as U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool show_special_;
  std::string pending_;
};

}  // namespace cera::text
