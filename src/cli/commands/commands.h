#pragma once
// One file per command. make_NAME declares its options under the parent and returns what runs it.

#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace cera::cli {

struct Command {
  CLI::App* app;
  std::function<Result<void>()> run;
};

Command make_run(CLI::App& parent);
Command make_tokenize(CLI::App& parent);
Command make_logits(CLI::App& parent);
Command make_perplexity(CLI::App& parent);
Command make_inspect(CLI::App& parent);
Command make_bench(CLI::App& parent);
Command make_cpu(CLI::App& parent);

inline std::vector<Command> make_commands(CLI::App& parent) {
  return {make_run(parent),     make_tokenize(parent), make_logits(parent), make_perplexity(parent),
          make_inspect(parent), make_bench(parent),    make_cpu(parent)};
}

}  // namespace cera::cli
