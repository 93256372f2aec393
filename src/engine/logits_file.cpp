#include "engine/logits_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/checked.h"

namespace cera {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr size_t kHeaderBytes = 8 + 3 * sizeof(int32_t);
constexpr size_t kRowHeaderBytes = 2 * sizeof(float);
constexpr float kClip = 16;  // logits further below the largest are not told apart

template <class T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

size_t row_bytes(uint32_t n_vocab) {
  return kRowHeaderBytes + round_up<size_t>(n_vocab, 2) * sizeof(uint16_t);
}

}  // namespace

StoredRow::StoredRow(std::span<const std::byte> bytes)
    : codes_(bytes.subspan(kRowHeaderBytes)),
      scale_(load<float>(bytes, 0)),
      lowest_(load<float>(bytes, sizeof(float))) {}

uint16_t StoredRow::code(size_t token) const {
  return load<uint16_t>(codes_, token * sizeof(uint16_t));
}

bool StoredRow::clipped(size_t token) const {
  constexpr float kRounding = 0.01f;
  return log_p(token) <= -kClip || (code(token) == 0 && lowest_ < -kClip + kRounding);
}

Result<LogitsFile> LogitsFile::open(const std::string& path) {
  LogitsFile result;
  CERA_TRY(result.file_, MappedFile::open(path));
  const auto bytes = result.file_.bytes();
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(
        ErrorCode::malformed, path,
        "not a file of log-probabilities; make one with llama-perplexity --kl-divergence-base");
  const int32_t n_ctx = load<int32_t>(bytes, 8), n_vocab = load<int32_t>(bytes, 12),
                n_chunks = load<int32_t>(bytes, 16);
  if (n_ctx < 4 || n_vocab < 1 || n_chunks < 1)
    return fail(ErrorCode::malformed, path,
                "impossible sizes: context {}, vocabulary {}, chunks {}", n_ctx, n_vocab, n_chunks);
  result.n_ctx_ = uint32_t(n_ctx);
  result.n_vocab_ = uint32_t(n_vocab);
  result.n_chunks_ = uint32_t(n_chunks);
  result.row_bytes_ = row_bytes(result.n_vocab_);
  // The products of two sizes stay below 2^62; what follows them is checked.
  const auto token_bytes =
      checked_mul<uint64_t>(uint64_t(n_ctx) * uint64_t(n_chunks), sizeof(int32_t));
  const auto all_rows = checked_mul<uint64_t>(uint64_t(n_chunks) * scored_positions(result.n_ctx_),
                                              result.row_bytes_);
  const auto rows_offset =
      token_bytes ? checked_add<uint64_t>(kHeaderBytes, *token_bytes) : token_bytes;
  const auto total = rows_offset && all_rows ? checked_add(*rows_offset, *all_rows) : std::nullopt;
  if (!total || bytes.size() < *total)
    return fail(ErrorCode::malformed, path,
                "{} bytes are too few for {} chunks of {} tokens; the file is "
                "cut short",
                bytes.size(), n_chunks, n_ctx);
  result.rows_offset_ = size_t(*rows_offset);
  return result;
}

std::vector<text::TokenId> LogitsFile::tokens() const {
  std::vector<text::TokenId> result(size_t(n_chunks_) * n_ctx_);
  std::memcpy(result.data(), file_.bytes().data() + kHeaderBytes, result.size() * sizeof(int32_t));
  return result;
}

StoredRow LogitsFile::row(uint32_t chunk, uint32_t position) const {
  const size_t index = size_t(chunk) * scored_positions(n_ctx_) + position;
  return StoredRow(file_.bytes().subspan(rows_offset_ + index * row_bytes_, row_bytes_));
}

Result<void> LogitsFileWriter::open(const std::string& path, uint32_t n_ctx, uint32_t n_vocab,
                                    std::span<const text::TokenId> tokens) {
  path_ = path;
  out_.open(path, std::ios::binary | std::ios::trunc);
  if (!out_) return fail(ErrorCode::io, path, "cannot open for writing");
  const int32_t sizes[3] = {int32_t(n_ctx), int32_t(n_vocab), int32_t(tokens.size() / n_ctx)};
  out_.write(kMagic.data(), kMagic.size());
  out_.write(reinterpret_cast<const char*>(sizes), sizeof sizes);
  out_.write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(tokens.size_bytes()));
  row_.resize(row_bytes(n_vocab) / sizeof(uint16_t));
  return {};
}

void LogitsFileWriter::add_row(std::span<const float> logits, float max, double log_sum_exp) {
  const float min = std::max(*std::min_element(logits.begin(), logits.end()), max - kClip);
  const float scale = (max - min) / 65535.0f;
  const float lowest = float(double(min - max) - log_sum_exp);
  std::memcpy(row_.data(), &scale, sizeof scale);
  std::memcpy(row_.data() + 2, &lowest, sizeof lowest);
  for (size_t i = 0; i < logits.size(); ++i) {
    const float code = scale > 0 ? std::nearbyint((logits[i] - min) / scale) : 0.0f;
    row_[4 + i] = uint16_t(std::clamp(code, 0.0f, 65535.0f));
  }
  out_.write(reinterpret_cast<const char*>(row_.data()),
             std::streamsize(row_.size() * sizeof(uint16_t)));
}

Result<void> LogitsFileWriter::close() {
  out_.close();
  if (!out_) return fail(ErrorCode::io, path_, "cannot write; is the disk full?");
  return {};
}

}  // namespace cera
