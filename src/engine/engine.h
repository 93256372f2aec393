#pragma once
// Opens a model file for use: what the command line (and later the C ABI) stands on.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "session/session.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace cera {

inline constexpr uint32_t kDefaultContextSize = 4096;
inline constexpr uint32_t kMinContextSize = 8;

struct EngineOptions {
  std::string model_path = {};
  std::string device = "auto";  // auto | cpu; gpu[:N|:NAME] is refused, this build has none
  uint32_t n_threads = 0;       // 0: choose_threads decides
  uint32_t context_size = 0;    // 0: kDefaultContextSize, or less if the model was trained for less
  uint32_t n_sequences = 1;
  uint32_t max_rows = 512;  // prefill chunk
  uint32_t max_outputs = 1;
  KvType kv_type = KvType::f16;
  bool use_mmap = true;
  std::optional<std::string> pre_tokenizer = {};  // overrides tokenizer.ggml.pre
  std::optional<std::string> chat_template = {};  // Jinja source; overrides tokenizer.chat_template
};

/// Token ids of a prompt.
struct Prompt {
  std::vector<text::TokenId> ids;
  size_t invalid_bytes = 0;  // of UTF-8, each read as U+FFFD
};

/// How the processor is used.
struct CpuSetup {
  CpuInfo info;
  CpuTier tier = CpuTier::scalar;
  ThreadChoice threads;
};

/// Reads the machine, CERA_CPU_TIER and the number of threads wanted (0: automatic).
Result<CpuSetup> choose_cpu(uint32_t n_threads);

/// "auto" and "cpu" are fine; a GPU is `unsupported`, anything else `invalid_argument`.
Result<void> check_device(std::string_view device);

/// Sessions may be used from one thread at a time. Things the user should hear about go to log().
class Engine {
 public:
  /// Settings that cannot work are refused (invalid_argument) before weights are read: a context
  /// below kMinContextSize, above what the model was trained for, or larger than the memory of the
  /// machine.
  static Result<std::shared_ptr<Engine>> open(const EngineOptions& options);

  const Model& model() const { return runner_->model(); }
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return tokenizer_; }
  Runner& runner() { return *runner_; }
  const CpuSetup& cpu() const { return cpu_; }
  uint32_t context_size() const { return runner_->options().context_size; }

  Result<Session> new_session(const std::atomic<bool>* cancel = nullptr);

  bool has_chat_template() const { return chat_template_source_.has_value(); }
  /// A raw prompt is template text: special tokens are parsed, and BOS goes first when the file
  /// says so.
  Result<Prompt> encode_raw(std::string_view text) const;
  /// messages: an array of {role, content}. Rendered with the generation prompt; as in transformers
  /// the template alone decides about BOS. Errors of the template carry line and column.
  Result<Prompt> encode_chat(nlohmann::ordered_json messages,
                             nlohmann::ordered_json arguments) const;

 private:
  Engine() = default;

  CpuSetup cpu_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::optional<std::string> chat_template_source_;
  std::shared_ptr<Runner> runner_;
};

}  // namespace cera
