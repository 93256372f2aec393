#pragma once
// Log-probabilities of a text under a model, in the file format of llama-perplexity's
// --kl-divergence-base:
//
//   "_logits_"  int32 n_ctx  int32 n_vocab  int32 n_chunks  int32 tokens[n_chunks * n_ctx]
//   then for each chunk and each scored position (n_ctx - 1 - n_ctx / 2 of them) one row of uint16:
//   f32 scale, f32 lowest; n_vocab codes; one of padding when n_vocab is odd
//
// log p(token) = lowest + scale * code. What lies more than 16 below the largest logit is stored as
// that: code 0, log p near -16 or less.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace cera {

/// One scored position, as stored.
class StoredRow {
 public:
  explicit StoredRow(std::span<const std::byte> bytes);
  float log_p(size_t token) const { return lowest_ + scale_ * float(code(token)); }
  uint16_t code(size_t token) const;
  float scale() const { return scale_; }
  /// Whether the value says no more than "below about -16".
  bool clipped(size_t token) const;

 private:
  std::span<const std::byte> codes_;
  float scale_, lowest_;
};

/// A file that has been checked against its own size.
class LogitsFile {
 public:
  static Result<LogitsFile> open(const std::string& path);

  uint32_t n_ctx() const { return n_ctx_; }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_chunks() const { return n_chunks_; }
  std::vector<text::TokenId> tokens() const;  // n_chunks * n_ctx
  StoredRow row(uint32_t chunk, uint32_t position) const;

 private:
  MappedFile file_;
  uint32_t n_ctx_ = 0, n_vocab_ = 0, n_chunks_ = 0;
  size_t rows_offset_ = 0, row_bytes_ = 0;
};

/// Writes the same format row by row.
class LogitsFileWriter {
 public:
  Result<void> open(const std::string& path, uint32_t n_ctx, uint32_t n_vocab,
                    std::span<const text::TokenId> tokens);
  /// log_sum_exp: of logits - max
  void add_row(std::span<const float> logits, float max, double log_sum_exp);
  Result<void> close();

 private:
  std::string path_;
  std::ofstream out_;
  std::vector<uint16_t> row_;
};

/// Scored positions of one chunk: the second half, but for the last token, which has nothing after
/// it.
inline uint32_t scored_positions(uint32_t n_ctx) {
  return n_ctx - 1 - n_ctx / 2;
}

}  // namespace cera
