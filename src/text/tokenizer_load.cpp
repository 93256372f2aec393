#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "gguf/cursor.h"
#include "text/tokenizer_bpe.h"

namespace cera::text {
namespace {

using Notes = std::vector<std::string>;

// Spellings by which vocabularies mark the end of a text or a turn, where the file has no key that
// says so.
constexpr std::string_view end_spellings[] = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>",
    "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<end_of_turn>", "<end_of_utterance>",
    "</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>", "[e~[",
    // Code models end a file with the start of the next one.
    "<|file_sep|>", "<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<REPO>", "<reponame>",
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};

Result<std::optional<TokenId>> find_id(const gguf::File& file, std::string_view name,
                                       size_t n_tokens) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  CERA_TRY(const std::optional<uint64_t> id, file.find_uint(key));
  if (!id) return std::nullopt;
  if (*id >= n_tokens) {
    return fail(ErrorCode::malformed, key, "token {} is outside the vocabulary of {}", *id,
                n_tokens);
  }
  return TokenId(*id);
}

/// Entries that are control tokens in all but their type: no merge makes them, and they spell a
/// known end, or the file has no types and its keys name them.
void fix_kinds(BpeTokenizerParts& parts, bool has_kinds,
               std::span<const std::optional<TokenId>> named) {
  Vocabulary& vocabulary = parts.vocabulary;
  std::vector<TokenId> suspects;
  for (const std::string_view spelling : end_spellings) {
    if (const auto id = vocabulary.find_spelling(spelling)) suspects.push_back(*id);
  }
  if (!has_kinds) {
    parts.notes.emplace_back(
        "tokenizer.ggml.token_type is missing: only the tokens that the file names or that spell a "
        "known end "
        "are special");
    for (const auto& id : named) {
      if (id) suspects.push_back(*id);
    }
  }
  for (const TokenId id : suspects) {
    const bool ordinary = vocabulary.kind(id) == TokenKind::normal;
    if (!ordinary || parts.bpe.is_merge_result(id) || vocabulary.bytes(id).size() < 2) continue;
    vocabulary.make_control(id);
    parts.notes.push_back(
        fmt::format("token {} {} is used as a control token, whatever its type says", id,
                    gguf::quoted(vocabulary.bytes(id))));
  }
}

std::vector<TokenId> find_ends(const BpeTokenizerParts& parts,
                               std::span<const std::optional<TokenId>> named) {
  const Vocabulary& vocabulary = parts.vocabulary;
  const auto special = [&](std::string_view spelling) -> std::optional<TokenId> {
    const auto id = vocabulary.find_spelling(spelling);
    return id && vocabulary.is_added(*id) ? id : std::nullopt;
  };
  // Where a turn ends with <|return|> or <|call|> (<|flush|>, <|calls|>), <|end|> only ends one
  // message of it.
  const bool end_is_inner = (special("<|return|>") && special("<|call|>")) ||
                            (special("<|flush|>") && special("<|calls|>"));
  std::vector<TokenId> ends;
  for (const std::string_view spelling : end_spellings) {
    if (spelling == "<|end|>" && end_is_inner) continue;
    if (const auto id = special(spelling)) ends.push_back(*id);
  }
  for (const auto& id : named) {
    if (id) ends.push_back(*id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

/// Added tokens are of two sorts. Control, unknown and most user-defined tokens are markup: only
/// template text may contain them. But some vocabularies also add plain text: runs of spaces
/// (GPT-NeoX), letters (DeepSeek). Such user-defined tokens -- white space, letters and digits
/// only, or a single character -- can imitate no markup, and leaving them out of users' text would
/// change its ids for nothing.
Result<void> build_matchers(BpeTokenizerParts& parts) {
  CERA_TRY(const Regex plain, Regex::compile("^(?:[\\p{L}\\p{M}\\p{N}\\s]+|(?s:.))\\z"));
  Regex::Matcher matcher(plain);
  std::vector<TokenId> special, plain_added;
  for (size_t i = 0; i < parts.vocabulary.size(); ++i) {
    const auto id = TokenId(i);
    const std::string_view spelling = parts.vocabulary.bytes(id);
    if (!parts.vocabulary.is_added(id) || spelling.empty()) continue;
    bool is_plain = false;
    if (parts.vocabulary.kind(id) == TokenKind::user_defined && is_valid_utf8(spelling)) {
      CERA_TRY(const Regex::Match match, matcher.next(spelling, 0));
      is_plain = match.found;
    }
    (is_plain ? plain_added : special).push_back(id);
  }
  CERA_TRY(parts.specials, SpecialMatcher::build(parts.vocabulary, special));
  CERA_TRY(parts.plain_added, SpecialMatcher::build(parts.vocabulary, plain_added));
  return {};
}

Result<const PreTokenizerRule*> choose_rule(const gguf::File& file, const TokenizerOptions& options,
                                            Notes& notes) {
  const char* const key = "tokenizer.ggml.pre";
  std::string name = "default";
  if (options.pre) {
    name = *options.pre;
  } else {
    CERA_TRY(const auto stored, file.find_string(key));
    if (stored) {
      name = *stored;
    } else {
      notes.push_back(fmt::format(
          "{} is missing: using 'default'; if the text looks wrong, choose the model's with --pre",
          key));
    }
  }
  const PreTokenizerRule* rule = find_pre_tokenizer(name);
  if (!rule) {
    return fail(
        ErrorCode::unsupported, options.pre ? "--pre" : key,
        "unknown pre-tokenizer {}; if one of these has the same rules, choose it with --pre: {}",
        gguf::quoted(name), pre_tokenizer_names());
  }
  return rule;
}

/// add_bos and add_eos. What the file asks for must be possible; a mere default gives way.
Result<void> read_additions(const gguf::File& file, bool default_add_bos,
                            BpeTokenizerParts& parts) {
  CERA_TRY(const auto add_bos, file.find_bool("tokenizer.ggml.add_bos_token"));
  CERA_TRY(const auto add_eos, file.find_bool("tokenizer.ggml.add_eos_token"));
  CERA_TRY(const auto add_space, file.find_bool("tokenizer.ggml.add_space_prefix"));
  if (add_bos.value_or(false) && !parts.bos) {
    return fail(ErrorCode::malformed, "tokenizer.ggml.add_bos_token",
                "true, but tokenizer.ggml.bos_token_id is missing");
  }
  if (add_eos.value_or(false) && !parts.eos) {
    return fail(ErrorCode::malformed, "tokenizer.ggml.add_eos_token",
                "true, but tokenizer.ggml.eos_token_id is missing");
  }
  parts.add_bos = add_bos.value_or(default_add_bos && parts.bos.has_value());
  parts.add_eos = add_eos.value_or(false);
  parts.add_space_prefix = add_space.value_or(false);
  return {};
}

}  // namespace

Result<BpeTokenizerParts> load_bpe_tokenizer(const gguf::File& file,
                                             const TokenizerOptions& options) {
  CERA_TRY(const std::string_view model, file.get_string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return fail(ErrorCode::unsupported, "tokenizer.ggml.model",
                "the tokenizer model {} is not supported, only 'gpt2' (byte-level BPE) is",
                gguf::quoted(model));
  }
  BpeTokenizerParts parts;
  CERA_TRY(const PreTokenizerRule* rule, choose_rule(file, options, parts.notes));
  parts.pre_tokenizer_name = rule->name;
  parts.ignore_merges = rule->ignore_merges;
  CERA_TRY(parts.pre_tokenizer, PreTokenizer::create(*rule));

  CERA_TRY(const auto spellings, file.get_strings("tokenizer.ggml.tokens"));
  CERA_TRY(const auto merges, file.get_strings("tokenizer.ggml.merges"));
  std::vector<int64_t> kinds;
  const bool has_kinds = file.has("tokenizer.ggml.token_type");
  if (has_kinds) {
    CERA_TRY(kinds, file.get_int_array("tokenizer.ggml.token_type"));
    if (kinds.empty()) return fail(ErrorCode::malformed, "tokenizer.ggml.token_type", "is empty");
  }
  CERA_TRY(parts.vocabulary, Vocabulary::build(spellings, kinds));
  CERA_TRY(parts.bpe, BpeModel::build(merges, parts.vocabulary));
  if (parts.bpe.n_left_out() > 0) {
    parts.notes.push_back(fmt::format("{} merge rules involve special tokens and are not used",
                                      parts.bpe.n_left_out()));
  }

  const size_t n = parts.vocabulary.size();
  CERA_TRY(parts.bos, find_id(file, "bos", n));
  CERA_TRY(parts.eos, find_id(file, "eos", n));
  CERA_TRY(parts.unknown, find_id(file, "unknown", n));
  CERA_TRY(const auto eot, find_id(file, "eot", n));
  CERA_TRY(const auto eom, find_id(file, "eom", n));
  const std::optional<TokenId> named[] = {parts.eos, eot, eom, parts.bos};
  fix_kinds(parts, has_kinds, named);
  // Often the file names its end token as the unknown one; that must not come out of ordinary text.
  if (parts.unknown && parts.vocabulary.kind(*parts.unknown) != TokenKind::unknown)
    parts.unknown.reset();
  parts.end_of_generation = find_ends(parts, std::span(named).first(3));
  CERA_CHECK(build_matchers(parts));
  CERA_CHECK(read_additions(file, rule->add_bos, parts));
  return parts;
}

}  // namespace cera::text
