#pragma once
// Options that several commands share.

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "engine/engine.h"

namespace cera::cli {

/// -m, --device, --threads, --context-size ...
class ModelOptions {
 public:
  explicit ModelOptions(CLI::App& app);
  ModelOptions(const ModelOptions&) = delete;  // the app points into it
  ModelOptions& operator=(const ModelOptions&) = delete;
  const std::string& path() const { return engine_.model_path; }
  const EngineOptions& engine() const { return engine_; }

 private:
  EngineOptions engine_;
};

/// --temperature, --top-k ... --seed
class SamplingOptions {
 public:
  explicit SamplingOptions(CLI::App& app);
  /// With ranges checked.
  Result<SamplerOptions> get() const;

 private:
  SamplerOptions options_;
  std::vector<std::string> biases_;  // "ID=BIAS"
};

/// A text from an option, a file or standard input: exactly one of them.
class TextSource {
 public:
  /// flag: "-p,--prompt"
  TextSource(CLI::App& app, const std::string& flag, const std::string& what);
  /// The bytes as they are.
  Result<std::string> read() const;

 private:
  std::optional<std::string> text_, path_, dash_;
  std::string names_;
};

/// The whole file; "-" is standard input. At most kMaxTextBytes.
Result<std::string> read_text(const std::string& path);

/// Says on stderr how many bytes were not UTF-8, when there are any.
void report_invalid_bytes(size_t n);

}  // namespace cera::cli
