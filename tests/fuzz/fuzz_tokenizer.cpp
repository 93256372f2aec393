// A vocabulary and a text with borders, both made from the input. Loading refuses the vocabulary or
// encoding keeps its promises: ids inside the vocabulary, no control token out of content, the text
// back from the ids.

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace cera::text {
namespace {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    const auto taken = take(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  std::string_view take(size_t n) {
    n = std::min(n, rest_.size());
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

TinyVocabulary make_vocabulary(Input& in) {
  static const char* const rules[] = {"default", "gpt-2",       "llama-bpe", "qwen2",
                                      "smollm",  "qwen35",      "falcon",    "deepseek-coder",
                                      "lfm2",    "deepseek-v3", "nonsense",  ""};
  TinyVocabulary vocabulary;
  vocabulary.pre = rules[in.byte() % std::size(rules)];
  const uint8_t shape = in.byte();
  if (shape & 1) vocabulary.tokens.erase(vocabulary.tokens.begin() + in.byte());
  vocabulary.kinds.resize(vocabulary.tokens.size());
  for (int n = in.byte() % 32; n > 0; --n) {
    const uint8_t what = in.byte();
    const std::string bytes(in.take(what >> 4));
    const TokenKind kinds[] = {TokenKind::control, TokenKind::user_defined, TokenKind::unknown,
                               TokenKind::normal};
    if (what & 8) {
      vocabulary.add(what & 4 ? bytes : spell(bytes), kinds[what & 3]);
    } else if (what & 4) {
      vocabulary.merges.push_back(bytes);
    } else {
      // A rule over two tokens there are; what it makes is added unless it is there already.
      const std::string left = vocabulary.tokens[in.byte() % vocabulary.tokens.size()];
      const std::string right = vocabulary.tokens[in.byte() % vocabulary.tokens.size()];
      vocabulary.merges.push_back(left + " " + right);
      if (std::count(vocabulary.tokens.begin(), vocabulary.tokens.end(), left + right) == 0) {
        vocabulary.add(left + right);
      }
    }
  }
  if (shape & 2) vocabulary.kinds.clear();
  const uint8_t keys = in.byte();
  const uint32_t ids[] = {in.byte() * 2u, in.byte() * 2u, in.byte() * 2u};
  vocabulary.more = [=](gguf::Writer& out) {
    if (keys & 1) out.set_uint("tokenizer.ggml.bos_token_id", ids[0]);
    if (keys & 2) out.set_uint("tokenizer.ggml.eos_token_id", ids[1]);
    if (keys & 4) out.set_uint("tokenizer.ggml.unknown_token_id", ids[2]);
    if (keys & 8) out.set_bool("tokenizer.ggml.add_bos_token", keys & 16);
    if (keys & 32) out.set_bool("tokenizer.ggml.add_eos_token", true);
    if (keys & 64) out.set_bool("tokenizer.ggml.add_space_prefix", true);
  };
  return vocabulary;
}

std::string readable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = utf8_sequence_bytes(text);
    out += n ? text.substr(0, n) : "\ufffd";
    text.remove_prefix(n ? n : 1);
  }
  return out;
}

void check(const std::shared_ptr<const Tokenizer>& tokenizer, const SpanText& text, bool may_add) {
  const auto encoding = tokenizer->encode(text, {.add_special = may_add});
  CERA_ASSERT(encoding.has_value());
  Detokenizer detokenizer(tokenizer, true);
  std::string bytes, shown;
  bool unknown = false;
  for (const TokenId id : encoding->ids) {
    CERA_ASSERT(id >= 0 && size_t(id) < tokenizer->vocab_size());
    unknown = unknown || tokenizer->token_kind(id) == TokenKind::unknown;
    bytes += tokenizer->token_bytes(id);
    const std::string piece = detokenizer.push(id);
    CERA_ASSERT(is_valid_utf8(piece));
    shown += piece;
  }
  shown += detokenizer.finish();
  if (may_add || unknown || encoding->left_out_bytes > 0) return;
  const std::string read = readable(text.str());
  CERA_ASSERT(bytes == read || bytes == " " + read);
  CERA_ASSERT(shown == bytes);
}

}  // namespace
}  // namespace cera::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cera::text;
  Input in(data, size);
  const TinyVocabulary vocabulary = make_vocabulary(in);
  const auto tokenizer = vocabulary.load();
  if (!tokenizer) {
    CERA_ASSERT(!tokenizer.error().message.empty() && tokenizer.error().text().size() < 2000);
    return 0;
  }
  SpanText text;
  while (!in.empty()) {
    const uint8_t piece = in.byte();
    text.append(in.take(piece >> 1), piece & 1 ? Origin::content : Origin::template_text);
  }
  check(*tokenizer, text, false);
  check(*tokenizer, text, true);

  // The same bytes as content: no control token comes of them, and borders do not matter.
  const SpanText content(text.str(), Origin::content);
  check(*tokenizer, content, false);
  const auto ids = (*tokenizer)->encode(content)->ids;
  for (const TokenId id : ids) CERA_ASSERT((*tokenizer)->token_kind(id) != TokenKind::control);
  return 0;
}
