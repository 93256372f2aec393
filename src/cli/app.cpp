#include "cli/app.h"

#include <cstdio>
#include <exception>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace cera::cli {
namespace {

constexpr int kOk = 0, kRuntimeError = 1, kUsageError = 2, kInterrupted = 130;

/// "cera run", for hints.
std::string full_name(const CLI::App& root) {
  const auto chosen = root.get_subcommands();
  return chosen.empty() ? "cera" : "cera " + chosen.front()->get_name();
}

int report_usage(const CLI::App& root, const std::string& message) {
  print_error(message);
  fmt::print(stderr, "try: {} --help\n", full_name(root));
  return kUsageError;
}

int report(const CLI::App& root, const Error& error) {
  if (error.code == ErrorCode::cancelled) {
    print_error("interrupted");
    return kInterrupted;
  }
  if (error.code == ErrorCode::invalid_argument) return report_usage(root, error.text());
  print_error(error.text());
  return kRuntimeError;
}

void log_to_stderr(bool verbose) {
  set_log_sink([verbose](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning)
      fmt::print(stderr, "warning: {}\n", one_line(message));
    else if (verbose)
      fmt::print(stderr, "{}: {}\n", level == LogLevel::info ? "info" : "debug", one_line(message));
  });
}

int parse_and_run(int argc, char** argv) {
  CLI::App root("Runs language models from GGUF files.", "cera");
  root.set_version_flag("--version", "cera " CERA_VERSION, "Print the version and exit");
  root.require_subcommand(1);
  bool verbose = false;
  std::vector<Command> commands = make_commands(root);
  for (const Command& command : commands) {
    command.app->set_version_flag("--version", "cera " CERA_VERSION, "Print the version and exit");
    command.app->add_flag("-v,--verbose", verbose, "Say more on stderr");
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return root.exit(e);  // --help, --version
    return report_usage(root, e.what());
  }
  log_to_stderr(verbose);
  catch_interrupts();
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (auto done = command.run(); !done) return report(root, done.error());
    if (auto flushed = flush_stdout(); !flushed) return report(root, flushed.error());
  }
  return kOk;
}

}  // namespace

int run(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use a smaller --context-size or a smaller model");
  } catch (const std::exception& e) {
    print_error(fmt::format("internal error: {}", e.what()));
  }
  return kRuntimeError;
}

}  // namespace cera::cli
