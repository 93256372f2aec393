#include "models/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/log.h"

namespace cera {
namespace {

/// Tables that old converters stored and everybody recomputes.
constexpr std::string_view kHarmlessEndings[] = {".attn_rot_embd", ".attn_rot_embd.weight",
                                                 ".rotary_emb.inv_freq"};

bool is_harmless(std::string_view tensor) {
  return std::ranges::any_of(kHarmlessEndings,
                             [&](auto ending) { return tensor.ends_with(ending); });
}

/// "blk.12.attn_q.weight" -> 12
std::optional<uint32_t> block_of(std::string_view tensor) {
  if (!tensor.starts_with("blk.")) return std::nullopt;
  uint32_t block = 0;
  const auto parsed = std::from_chars(tensor.data() + 4, tensor.data() + tensor.size(), block);
  if (parsed.ec != std::errc()) return std::nullopt;
  return block;
}

/// "[64, 32]"; trailing ones say nothing about the shape.
template <class Dimensions>
std::string shape_text(const Dimensions& dimensions) {
  return fmt::format("[{}]", fmt::join(dimensions, ", "));
}

bool same_shape(const std::vector<uint64_t>& actual, const std::vector<uint32_t>& wanted) {
  const size_t rank = std::max(actual.size(), wanted.size());
  for (size_t i = 0; i < rank; ++i) {
    const uint64_t a = i < actual.size() ? actual[i] : 1;
    const uint64_t w = i < wanted.size() ? wanted[i] : 1;
    if (a != w) return false;
  }
  return true;
}

}  // namespace

ModelReader::ModelReader(std::shared_ptr<const gguf::File> file, ModelConfig config,
                         KeyReader& keys)
    : model_(std::make_shared<Model>()), keys_(keys), plan_(config.n_vocab) {
  model_->file_ = std::move(file);
  model_->config_ = std::move(config);
  check_types();
}

void ModelReader::begin_layer(uint32_t index) {
  layer_ = int32_t(index);
  plan_.layer(layer_);
}

void ModelReader::end_layers() {
  layer_ = -1;
  plan_.layer(-1);
}

std::string ModelReader::full_name(std::string_view tensor) const {
  return layer_ < 0 ? std::string(tensor) : fmt::format("blk.{}.{}", layer_, tensor);
}

void ModelReader::mistake(ErrorCode code, std::string message) {
  mistakes_.push_back(Error{code, std::move(message), model_->file_->path()});
}

bool ModelReader::has(std::string_view tensor) const {
  return model_->file_->find_tensor(full_name(tensor)) != nullptr;
}

/// The tensor if it is there and right; otherwise the mistake is noted.
const gguf::TensorInfo* ModelReader::find(std::string_view tensor,
                                          const std::vector<uint32_t>& dimensions) {
  const std::string name = full_name(tensor);
  const gguf::TensorInfo* info = model_->file_->find_tensor(name);
  if (info == nullptr) {
    mistake(ErrorCode::not_found, fmt::format("tensor '{}' is missing", name));
    return nullptr;
  }
  used_.insert(name);
  if (!same_shape(info->dimensions, dimensions)) {
    mistake(ErrorCode::malformed,
            fmt::format("tensor '{}' has the shape {}, but the metadata of the model needs {}",
                        name, shape_text(info->dimensions), shape_text(dimensions)));
    return nullptr;
  }
  if (find_type(info->type_id) == nullptr) return nullptr;  // noted by check_types
  return info;
}

Weight ModelReader::matrix(std::string_view tensor, uint32_t n_rows, uint32_t n_cols) {
  Weight weight{.name = full_name(tensor),
                .data = nullptr,
                .type = TensorType::f32,
                .n_rows = n_rows,
                .n_cols = n_cols,
                .row_bytes = 0};
  if (const gguf::TensorInfo* info = find(tensor, {n_cols, n_rows})) {
    weight.data = info->data;
    weight.type = TensorType(info->type_id);
    const TypeInfo& type = type_info(weight.type);
    weight.row_bytes = size_t(n_cols / type.block_size) * type.block_bytes;
  }
  return weight;
}

Vector ModelReader::vector(std::string_view tensor, std::vector<uint32_t> dimensions) {
  uint64_t size = 1;
  for (const uint32_t n : dimensions) size *= n;
  const gguf::TensorInfo* info = find(tensor, dimensions);
  if (info == nullptr) return {};
  std::vector<float>& values = model_->vectors_.emplace_back(size);
  type_info(TensorType(info->type_id)).unpack(info->data, values.data(), values.size());
  return values;
}

Vector ModelReader::optional_vector(std::string_view tensor, uint32_t size) {
  return has(tensor) ? vector(tensor, {size}) : Vector();
}

NormSpec ModelReader::norm(std::string_view tensor, uint32_t width) {
  return NormSpec{.gain = vector(tensor, {width}), .eps = config().norm_eps};
}

uint32_t ModelReader::rope(RopePairs pairs) {
  const auto rope_config = read_rope_config(keys_, config().head_dim, config().context_length);
  if (!rope_config) {
    mistakes_.push_back(rope_config.error());
    return plan_.add_rope({});
  }
  const Vector factors = optional_vector("rope_freqs.weight", rope_config->n_dims / 2);
  const bool usable =
      std::ranges::all_of(factors, [](float f) { return std::isfinite(f) && f > 0; });
  if (!usable) {
    mistake(ErrorCode::malformed, "tensor 'rope_freqs.weight' should hold positive numbers");
    return plan_.add_rope({});
  }
  return plan_.add_rope(make_rope(*rope_config, pairs, factors));
}

uint32_t ModelReader::uint(std::string_view key) {
  const auto value = keys_.uint(key);
  if (value) return *value;
  mistakes_.push_back(value.error());
  return 0;
}

/// Names every type that cannot run at once, so that nobody meets them one by one.
void ModelReader::check_types() {
  struct Use {
    size_t count = 0;
    std::string first;
  };
  std::map<uint32_t, Use> unknown;
  for (const gguf::TensorInfo& tensor : model_->file_->tensors()) {
    if (find_type(tensor.type_id) != nullptr || is_harmless(tensor.name)) continue;
    Use& use = unknown[tensor.type_id];
    if (use.count++ == 0) use.first = tensor.name;
  }
  if (unknown.empty()) return;
  std::vector<std::string> uses, known;
  for (const auto& [type, use] : unknown)
    uses.push_back(fmt::format("{} ({} tensors, the first is '{}')", gguf_type_name(type),
                               use.count, use.first));
  for (const TypeInfo& type : all_types()) known.emplace_back(type.name);
  mistake(ErrorCode::unsupported,
          fmt::format("tensor types that this build does not run: {}; it runs {}",
                      fmt::join(uses, ", "), fmt::join(known, ", ")));
}

void ModelReader::check_unused() {
  std::vector<std::string_view> unused;
  for (const gguf::TensorInfo& tensor : model_->file_->tensors()) {
    if (used_.contains(tensor.name)) continue;
    if (is_harmless(tensor.name)) {
      log(LogLevel::warning, fmt::format("tensor '{}' is not used", tensor.name));
    } else {
      unused.push_back(tensor.name);
    }
  }
  if (unused.empty()) return;
  const auto block = block_of(unused.front());
  const std::string why =
      block && *block >= config().n_layers
          ? fmt::format("it is beyond metadata key '{}', which says {}",
                        keys_.full_name("block_count"), config().n_layers)
          : fmt::format("architecture \"{}\" has no such tensor", config().architecture);
  const std::string more =
      unused.size() > 1 ? fmt::format(" ({} more are not used either)", unused.size() - 1) : "";
  mistake(ErrorCode::unsupported,
          fmt::format("tensor '{}' would be ignored: {}{}", unused.front(), why, more));
}

Result<std::shared_ptr<const Model>> ModelReader::finish() {
  if (mistakes_.empty()) check_unused();
  if (!mistakes_.empty()) {
    Error first = mistakes_.front();
    if (mistakes_.size() > 1)
      first.message += fmt::format(" ({} more mistakes)", mistakes_.size() - 1);
    return std::unexpected(std::move(first));
  }
  auto plan = plan_.finish();
  if (!plan) {
    const Error& error = plan.error();
    return fail(error.code, model_->file_->path(), "{}", error.text());
  }
  model_->plan_ = std::move(*plan);
  for (const std::string& key : keys_.unread())
    log(LogLevel::warning, fmt::format("metadata key '{}' is not used", key));
  return model_;
}

}  // namespace cera
