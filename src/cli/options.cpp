#include "cli/options.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

namespace cera::cli {
namespace {

constexpr size_t kMaxTextBytes = size_t(256) << 20;
constexpr uint32_t kMaxThreads = 1024;

/// "42=-1.5", "42=-inf"
Result<LogitBias> parse_bias(const std::string& text) {
  LogitBias bias{};
  const char* end = text.data() + text.size();
  const auto [after_id, id_error] = std::from_chars(text.data(), end, bias.token);
  if (id_error == std::errc() && after_id != end && *after_id == '=') {
    const auto [after, error] = std::from_chars(after_id + 1, end, bias.bias);
    if (error == std::errc() && after == end) return bias;
  }
  return fail(ErrorCode::invalid_argument, "--logit-bias",
              "'{}' is not of the form TOKEN_ID=BIAS, for example 42=-1.5 or 42=-inf", text);
}

}  // namespace

ModelOptions::ModelOptions(CLI::App& app) {
  app.add_option("-m,--model", engine_.model_path, "GGUF file (of a split one: its first part)")
      ->required();
  app.add_option("--device", engine_.device, "auto, cpu, gpu, gpu:N or gpu:NAME")
      ->capture_default_str();
  app.add_option("--threads", engine_.n_threads, "CPU threads (default: what the machine grants)")
      ->check(CLI::Range(1u, kMaxThreads));
  app.add_option(
         "--context-size", engine_.context_size,
         "Tokens of prompt and output together (default: 4096, or less if the model was trained "
         "for less)")
      ->check(CLI::Range(kMinContextSize, std::numeric_limits<uint32_t>::max()));
  const std::map<std::string, KvType> kv_types = {{"f16", KvType::f16}, {"f32", KvType::f32}};
  app.add_option("--kv-type", engine_.kv_type,
                 "Type of stored keys and values: f16 (default) or f32")
      ->transform(CLI::CheckedTransformer(kv_types, CLI::ignore_case).description(""));
  app.add_flag_callback(
      "--no-mmap", [this] { engine_.use_mmap = false; },
      "Read the file into memory instead of mapping it");
  app.add_option("--pre-tokenizer", engine_.pre_tokenizer,
                 "Use this pre-tokenizer, whatever the file says");
}

SamplingOptions::SamplingOptions(CLI::App& app) {
  const auto number = [&](const char* name, auto& value, const char* what) {
    app.add_option(name, value, what)->capture_default_str();
  };
  number("--temperature", options_.temperature, "0 takes the most likely token always");
  number("--top-k", options_.top_k, "Choose among the K most likely tokens; 0 is off");
  number("--top-p", options_.top_p,
         "... among the most likely that reach this probability; 1 is off");
  number("--min-p", options_.min_p,
         "... among those at least this likely, relative to the first; 0 is off");
  number("--repetition-penalty", options_.repetition_penalty, "Above 1 discourages repetition");
  number("--frequency-penalty", options_.frequency_penalty, "Subtracted per occurrence of a token");
  number("--presence-penalty", options_.presence_penalty, "Subtracted when a token has occurred");
  number("--penalty-window", options_.penalty_window, "Tokens that penalties look back; 0 is all");
  app.add_option("--logit-bias", biases_, "TOKEN_ID=BIAS, repeatable")->allow_extra_args(false);
  // CLI11 would read -1 as the largest number, and cut larger ones down to it.
  const auto fits = [](const std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size()
               ? std::string()
               : "'" + text + "' is not a whole number from 0 to 2^64 - 1";
  };
  app.add_option("--seed", options_.seed, "Of the random numbers (default: a fresh one, printed)")
      ->check(CLI::Validator(fits, ""));
}

Result<SamplerOptions> SamplingOptions::get() const {
  SamplerOptions options = options_;
  for (const std::string& text : biases_) {
    CERA_TRY(const LogitBias bias, parse_bias(text));
    options.logit_bias.push_back(bias);
  }
  CERA_CHECK(validate(options));
  return options;
}

TextSource::TextSource(CLI::App& app, const std::string& flag, const std::string& what)
    : names_(flag.substr(0, flag.find(',')) + " TEXT, --file PATH or -") {
  CLI::Option* text = app.add_option(flag, text_, what);
  CLI::Option* file =
      app.add_option("--file", path_, "Read it from a file, byte for byte")->excludes(text);
  app.add_option("stdin", dash_, "- reads it from standard input")
      ->check(CLI::IsMember({"-"}).description(""))
      ->type_name("-")
      ->excludes(text)
      ->excludes(file);
}

Result<std::string> TextSource::read() const {
  if (text_) return *text_;
  if (path_) return read_text(*path_);
  if (dash_) return read_text("-");
  return fail(ErrorCode::invalid_argument, "", "no text given; use {}", names_);
}

Result<std::string> read_text(const std::string& path) {
  struct Close {
    void operator()(std::FILE* f) const {
      if (f != stdin) std::fclose(f);
    }
  };
  const std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin
                                                           : std::fopen(path.c_str(), "rb"));
  if (!file)
    return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, path, "cannot open: {}",
                std::strerror(errno));
  std::string text;
  char block[1 << 16];
  while (const size_t n = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, n);
    if (text.size() > kMaxTextBytes)
      return fail(ErrorCode::unsupported, path, "more than {} MiB of text", kMaxTextBytes >> 20);
  }
  if (std::ferror(file.get()))
    return fail(ErrorCode::io, path, "cannot read: {}", std::strerror(errno));
  return text;
}

void report_invalid_bytes(size_t n) {
  if (n > 0)
    fmt::print(stderr, "warning: {} byte{} of the text {} not valid UTF-8, read as U+FFFD\n", n,
               n == 1 ? "" : "s", n == 1 ? "is" : "are");
}

}  // namespace cera::cli
