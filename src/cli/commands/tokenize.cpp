#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/options.h"
#include "cli/output.h"

namespace cera::cli {
namespace {

struct Tokenize {
  explicit Tokenize(CLI::App& app) : source(app, "-t,--text", "The text") {
    app.add_option("-m,--model", path, "GGUF file")->required();
    app.add_option("--pre-tokenizer", pre_tokenizer,
                   "Use this pre-tokenizer, whatever the file says");
    app.add_flag("--special", special, "Parse special tokens and add BOS and EOS as the file says");
  }

  Result<void> run() const {
    CERA_TRY(std::string text, source.read());
    CERA_TRY(const auto file, gguf::File::open(path, {.metadata_only = true}));
    CERA_TRY(const auto tokenizer, text::Tokenizer::from_gguf(*file, {.pre = pre_tokenizer}));
    for (const std::string& note : tokenizer->notes()) log(LogLevel::warning, note);
    const auto origin = special ? text::Origin::template_text : text::Origin::content;
    CERA_TRY(const text::Encoding encoding,
             tokenizer->encode(text::SpanText(std::move(text), origin), {.add_special = special}));
    report_invalid_bytes(encoding.invalid_bytes);
    return write_stdout(fmt::format("[{}]\n", fmt::join(encoding.ids, ", ")));
  }

  TextSource source;
  std::string path;
  std::optional<std::string> pre_tokenizer;
  bool special = false;
};

}  // namespace

Command make_tokenize(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("tokenize", "Print the token ids of a text as a JSON list");
  auto command = std::make_shared<Tokenize>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
