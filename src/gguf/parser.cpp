#include "gguf/parser.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/checked.h"
#include "base/utf8.h"
#include "gguf/cursor.h"
#include "gguf/values.h"

namespace cera::gguf {
namespace {

// Smallest encodings: key length, one byte of key, type, value; name length, one byte of name,
// rank, one dimension, type, offset.
constexpr uint64_t smallest_entry_bytes = 8 + 1 + 4 + 1;
constexpr uint64_t smallest_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;
// Generous sizes of what one of them costs in memory, without its text.
constexpr uint64_t entry_cost = 192, tensor_cost = 256;

struct Header {
  uint32_t version;
  uint64_t n_tensors, n_entries;
};

Result<Header> read_header(Cursor& in) {
  const std::string& label = in.label();
  if (in.left() < 4 || std::memcmp(in.take(4), "GGUF", 4) != 0)
    return fail(ErrorCode::malformed, label, "is not a GGUF file (it does not start with 'GGUF')");
  CERA_TRY(const uint32_t version, in.read<uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0)
    return fail(
        ErrorCode::unsupported, label,
        "is a big-endian GGUF file; convert it to little-endian (gguf_convert_endian.py little)");
  if (version == 1)
    return fail(ErrorCode::unsupported, label,
                "is GGUF version 1, which is obsolete; versions 2 and 3 can be read: convert the "
                "model anew");
  if (version != 2 && version != 3)
    return fail(ErrorCode::unsupported, label, "has GGUF version {}; versions 2 and 3 can be read",
                version);
  CERA_TRY(const uint64_t n_tensors, in.read<uint64_t>("the number of tensors"));
  CERA_TRY(const uint64_t n_entries, in.read<uint64_t>("the number of metadata entries"));
  if (n_entries > in.left() / smallest_entry_bytes)
    return in.malformed("{} metadata entries cannot fit into the {} bytes after the header",
                        n_entries, in.left());
  if (n_tensors > in.left() / smallest_tensor_bytes)
    return in.malformed("{} tensors cannot fit into the {} bytes after the header", n_tensors,
                        in.left());
  return Header{version, n_tensors, n_entries};
}

/// Bytes of the file: charge for them before keeping a copy.
Result<std::string_view> read_name(Cursor& in, std::string_view what) {
  const uint64_t at = in.at();
  CERA_TRY(const std::string_view name, in.read_string(what));
  if (auto ok = check_name(name, what); !ok)
    return in.malformed("{} at byte {}", ok.error().message, at);
  return name;
}

Result<void> read_entries(Cursor& in, uint64_t n, Part& part) {
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = in.at();
    CERA_TRY(const std::string_view key, read_name(in, "metadata key"));
    const std::string what = "metadata key " + quoted(key);
    CERA_CHECK(in.charge(entry_cost + key.size(), what));
    CERA_TRY(Entry entry, read_entry(in, what));
    if (!part.metadata.try_emplace(std::string(key), std::move(entry)).second)
      return in.malformed("{} at byte {} appears twice", what, at);
  }
  return {};
}

Result<uint64_t> read_alignment(const Cursor& in, const Part& part) {
  const auto found = part.metadata.find(alignment_key);
  if (found == part.metadata.end()) return default_alignment;
  uint64_t alignment = 0;
  if (const auto* u = std::get_if<uint64_t>(&found->second.value)) {
    alignment = *u;
  } else if (const auto* i = std::get_if<int64_t>(&found->second.value)) {
    alignment = *i < 0 ? 0 : uint64_t(*i);
  } else {
    return in.malformed("metadata key '{}' is of type {}; an integer is needed", alignment_key,
                        value_type_name(found->second.type));
  }
  if (!is_valid_alignment(alignment))
    return in.malformed("metadata key '{}' is {}; a power of two from {} to {} is needed",
                        alignment_key, alignment, smallest_alignment, largest_alignment);
  return alignment;
}

/// The tensor with its offset relative to the start of the data.
Result<TensorInfo> read_tensor(Cursor& in) {
  const uint64_t at = in.at();
  TensorInfo tensor;
  CERA_TRY(const std::string_view name, read_name(in, "tensor name"));
  const std::string what = "tensor " + quoted(name);
  CERA_CHECK(in.charge(name.size(), what));
  tensor.name = name;
  CERA_TRY(const uint32_t rank, in.read<uint32_t>(what));
  if (rank < 1 || rank > 4)
    return in.malformed("{} at byte {} has {} dimensions; 1 to 4 are possible", what, at, rank);
  tensor.dimensions.resize(rank);
  for (uint64_t& dimension : tensor.dimensions) {
    CERA_TRY(dimension, in.read<uint64_t>(what));
  }
  CERA_TRY(tensor.type_id, in.read<uint32_t>(what));
  CERA_TRY(tensor.file_offset, in.read<uint64_t>(what));
  auto size = tensor_size(tensor.type_id, tensor.dimensions);
  if (!size) return in.malformed("{} at byte {} {}", what, at, size.error().message);
  tensor.size_bytes = size->bytes;
  return tensor;
}

/// Turns relative offsets into places in the file, all inside it.
Result<void> place_tensors(const Cursor& in, std::span<const std::byte> bytes, uint64_t alignment,
                           Part& part) {
  const uint64_t data_start = round_up(in.at(), alignment);
  for (TensorInfo& tensor : part.tensors) {
    const uint64_t offset = tensor.file_offset;
    if (offset % alignment != 0)
      return in.malformed("tensor {} has offset {}, which is not a multiple of the alignment {}",
                          quoted(tensor.name), offset, alignment);
    const auto start = checked_add(data_start, offset);
    const auto end = start ? checked_add(*start, tensor.size_bytes) : std::nullopt;
    if (!end || *end > bytes.size())
      return in.malformed(
          "tensor {} has {} bytes at offset {} of the data, which starts at byte {}: beyond the "
          "end of the "
          "file at byte {}; the file is damaged or incomplete",
          quoted(tensor.name), tensor.size_bytes, offset, data_start, bytes.size());
    tensor.file_offset = *start;
    tensor.data = bytes.data() + *start;
  }
  return {};
}

Result<void> refuse_overlaps(const Cursor& in, const Part& part) {
  std::vector<uint32_t> order(part.tensors.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto& tensors = part.tensors;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return tensors[a].file_offset < tensors[b].file_offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &before = tensors[order[i - 1]], &after = tensors[order[i]];
    if (after.file_offset - before.file_offset < before.size_bytes)
      return in.malformed("tensors {} and {} overlap at byte {}", quoted(before.name),
                          quoted(after.name), after.file_offset);
  }
  return {};
}

}  // namespace

uint64_t memory_budget(uint64_t file_bytes) {
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t fixed = uint64_t{64} << 20;
  return file_bytes > (most - fixed) / 4 ? most : 4 * file_bytes + fixed;
}

bool is_valid_alignment(uint64_t alignment) {
  return std::has_single_bit(alignment) && alignment >= smallest_alignment &&
         alignment <= largest_alignment;
}

Result<void> check_name(std::string_view name, std::string_view what) {
  if (name.empty()) return fail(ErrorCode::malformed, "", "an empty {}", what);
  if (name.size() > longest_name_bytes)
    return fail(ErrorCode::malformed, "", "a {} of {} bytes; {} are possible", what, name.size(),
                longest_name_bytes);
  if (!is_valid_utf8(name))
    return fail(ErrorCode::malformed, "", "{} {} is not UTF-8", what, quoted(name));
  return {};
}

Result<TensorSize> tensor_size(uint32_t type_id, std::span<const uint64_t> dimensions) {
  const auto shape = gguf_block_shape(type_id);
  if (!shape) return fail(ErrorCode::malformed, "", "has the unknown type id {}", type_id);
  std::optional<uint64_t> elements = 1;
  for (const uint64_t dimension : dimensions) {
    if (dimension == 0) return fail(ErrorCode::malformed, "", "has a dimension of 0");
    elements = checked_mul(*elements, dimension);
    if (!elements) return fail(ErrorCode::malformed, "", "has more than 2^64 elements");
  }
  if (dimensions[0] % shape->size != 0)
    return fail(ErrorCode::malformed, "",
                "has rows of {} elements, which {} cannot hold: not a multiple of {}",
                dimensions[0], gguf_type_name(type_id), shape->size);
  const auto bytes = checked_mul<uint64_t>(*elements / shape->size, shape->bytes);
  if (!bytes) return fail(ErrorCode::malformed, "", "has more than 2^64 bytes");
  return TensorSize{*elements, *bytes};
}

Result<Part> parse(std::span<const std::byte> bytes, const std::string& label,
                   uint64_t budget_bytes) {
  Cursor in(bytes, label, budget_bytes);
  CERA_TRY(const Header header, read_header(in));
  Part part;
  part.version = header.version;
  CERA_CHECK(read_entries(in, header.n_entries, part));
  CERA_TRY(const uint64_t alignment, read_alignment(in, part));
  CERA_CHECK(in.charge(header.n_tensors * tensor_cost, "the list of tensors"));
  part.tensors.reserve(header.n_tensors);
  for (uint64_t i = 0; i < header.n_tensors; ++i) {
    CERA_TRY(TensorInfo tensor, read_tensor(in));
    part.tensors.push_back(std::move(tensor));
  }
  CERA_CHECK(place_tensors(in, bytes, alignment, part));
  CERA_CHECK(refuse_overlaps(in, part));
  return part;
}

}  // namespace cera::gguf
