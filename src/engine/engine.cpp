#include "engine/engine.h"

#include <cstdlib>

#include <unistd.h>

#include "backends/cpu/cpu_backend.h"
#include "base/log.h"
#include "gguf/gguf.h"

namespace cera {
namespace {

using text::Origin;
using text::SpanText;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Result<uint32_t> choose_context(uint32_t wanted, const Model& model) {
  const uint32_t trained = model.config().context_length;
  if (wanted == 0) return std::min(kDefaultContextSize, trained);
  if (wanted > trained)
    return fail(ErrorCode::invalid_argument, "context size",
                "{} is more than the {} tokens that this model was trained for", wanted, trained);
  return wanted;
}

Result<void> check_memory(const EngineOptions& options, uint32_t context_size, const Plan& plan) {
  const uint64_t wanted =
      kv_bytes(plan.state, options.kv_type, uint64_t(context_size) * options.n_sequences);
  const uint64_t physical = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (wanted <= physical) return {};
  return fail(
      ErrorCode::invalid_argument, "context size",
      "{} tokens need {:.1f} GiB of keys and values, the machine has {:.1f} GiB; use a smaller one",
      context_size, double(wanted) / kGiB, double(physical) / kGiB);
}

}  // namespace

Result<CpuSetup> choose_cpu(uint32_t n_threads) {
  CpuSetup setup;
  setup.info = read_cpu_info();
  CERA_TRY(setup.tier, choose_tier(setup.info, std::getenv("CERA_CPU_TIER")));
  setup.threads = choose_threads(setup.info, n_threads);
  return setup;
}

Result<void> check_device(std::string_view device) {
  if (device == "auto" || device == "cpu") return {};
  if (device == "gpu" || device.starts_with("gpu:"))
    return fail(ErrorCode::unsupported, "device", "no GPU backend in this build; use --device cpu");
  return fail(ErrorCode::invalid_argument, "device",
              "unknown device '{}'; use auto, cpu, gpu, gpu:N or gpu:NAME", device);
}

Result<std::shared_ptr<Engine>> Engine::open(const EngineOptions& options) {
  CERA_CHECK(check_device(options.device));
  if (options.context_size != 0 && options.context_size < kMinContextSize)
    return fail(ErrorCode::invalid_argument, "context size", "{} is too small; use at least {}",
                options.context_size, kMinContextSize);
  std::shared_ptr<Engine> engine(new Engine);
  CERA_TRY(engine->cpu_, choose_cpu(options.n_threads));
  CERA_TRY(auto file, gguf::File::open(options.model_path, {.use_mmap = options.use_mmap}));
  CERA_TRY(auto model, Model::load(file));
  CERA_TRY(const uint32_t context_size, choose_context(options.context_size, *model));
  CERA_CHECK(check_memory(options, context_size, model->plan()));

  CERA_TRY(engine->tokenizer_, text::Tokenizer::from_gguf(*file, {.pre = options.pre_tokenizer}));
  for (const std::string& note : engine->tokenizer_->notes()) log(LogLevel::warning, note);
  if (engine->tokenizer_->vocab_size() != model->plan().vocab_size)
    return fail(ErrorCode::malformed, options.model_path,
                "the tokenizer has {} tokens, but the model's output has {}",
                engine->tokenizer_->vocab_size(), model->plan().vocab_size);
  engine->chat_template_source_ = options.chat_template;
  if (!engine->chat_template_source_) {
    CERA_TRY(const auto source, file->find_string("tokenizer.chat_template"));
    if (source) engine->chat_template_source_ = std::string(*source);
  }

  std::shared_ptr<Backend> backend =
      make_cpu_backend({.tier = engine->cpu_.tier, .n_threads = engine->cpu_.threads.threads});
  log(LogLevel::info, fmt::format("{}; threads {}", backend->name(), engine->cpu_.threads.why));
  CERA_TRY(engine->runner_, Runner::make(std::move(model), std::move(backend),
                                         {.context_size = context_size,
                                          .n_sequences = options.n_sequences,
                                          .max_rows = options.max_rows,
                                          .max_outputs = options.max_outputs,
                                          .kv_type = options.kv_type}));
  return engine;
}

Result<Session> Engine::new_session(const std::atomic<bool>* cancel) {
  return Session::make(runner_, tokenizer_, cancel);
}

Result<Prompt> Engine::encode_raw(std::string_view text) const {
  CERA_TRY(text::Encoding encoding,
           tokenizer_->encode(SpanText(std::string(text), Origin::template_text)));
  Prompt prompt{std::move(encoding.ids), encoding.invalid_bytes};
  const auto bos = tokenizer_->bos();
  const bool has_bos = !prompt.ids.empty() && bos == prompt.ids.front();
  if (tokenizer_->add_bos() && bos && !has_bos) prompt.ids.insert(prompt.ids.begin(), *bos);
  return prompt;
}

Result<Prompt> Engine::encode_chat(nlohmann::ordered_json messages,
                                   nlohmann::ordered_json arguments) const {
  if (!chat_template_source_)
    return fail(ErrorCode::not_found, "tokenizer.chat_template",
                "the model has no chat template; give one with --chat-template, or use --raw");
  CERA_TRY(const auto chat_template, text::ChatTemplate::parse(*chat_template_source_));
  const auto spelling = [&](std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer_->token_bytes(*id)) : std::string();
  };
  text::TemplateInputs inputs;
  inputs.messages = std::make_shared<const nlohmann::ordered_json>(std::move(messages));
  inputs.arguments = std::make_shared<const nlohmann::ordered_json>(std::move(arguments));
  inputs.bos_token = spelling(tokenizer_->bos());
  inputs.eos_token = spelling(tokenizer_->eos());
  CERA_TRY(const SpanText rendered, chat_template->render(inputs));
  CERA_TRY(text::Encoding encoding, tokenizer_->encode(rendered));
  return Prompt{std::move(encoding.ids), encoding.invalid_bytes};
}

}  // namespace cera
