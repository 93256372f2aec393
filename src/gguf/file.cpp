// Opening a file with its parts, and finding tensors. The typed getters are in getters.cpp.

#include "gguf/file_impl.h"

#include <algorithm>
#include <iterator>

#include "gguf/cursor.h"
#include "gguf/parser.h"
#include "gguf/split.h"

namespace cera::gguf {
namespace {

/// What one part says about the split it belongs to; absent keys give one part, number 0.
struct SplitKeys {
  uint64_t number = 0, count = 1;
  std::optional<uint64_t> n_tensors;
};

Result<std::optional<uint64_t>> split_key(const Part& part, std::string_view key,
                                          const std::string& path) {
  const auto found = part.metadata.find(key);
  if (found == part.metadata.end()) return std::nullopt;
  if (const auto* u = std::get_if<uint64_t>(&found->second.value)) return *u;
  const auto* i = std::get_if<int64_t>(&found->second.value);
  if (i && *i >= 0) return uint64_t(*i);
  return fail(ErrorCode::malformed, path, "metadata key '{}' is not an unsigned integer", key);
}

Result<SplitKeys> split_keys(const Part& part, const std::string& path) {
  CERA_TRY(const auto number, split_key(part, "split.no", path));
  CERA_TRY(const auto count, split_key(part, "split.count", path));
  CERA_TRY(const auto n_tensors, split_key(part, "split.tensors.count", path));
  SplitKeys keys{number.value_or(0), count.value_or(1), n_tensors};
  if (keys.count <= 1) return SplitKeys{};
  if (!number || !n_tensors)
    return fail(ErrorCode::malformed, path, "metadata has 'split.count' but no '{}'",
                number ? "split.tensors.count" : "split.no");
  if (keys.number >= keys.count)
    return fail(ErrorCode::malformed, path,
                "metadata key 'split.no' is {}, but 'split.count' is {}", keys.number, keys.count);
  return keys;
}

/// The file that was opened must be the first part and carry the name that leads to the others.
Result<void> check_first_part(const SplitKeys& keys, const std::optional<SplitName>& name,
                              const std::string& path) {
  if (keys.count == 1) {
    if (name && name->count > 1)
      return fail(ErrorCode::malformed, path,
                  "is named like part {} of {}, but its metadata has no 'split.count'",
                  name->number, name->count);
    return {};
  }
  const bool name_fits = name && name->count == keys.count && name->number == keys.number + 1;
  if (keys.number != 0)
    return fail(ErrorCode::invalid_argument, path,
                "is part {} of {} of a split model; open {} instead", keys.number + 1, keys.count,
                name_fits ? split_path(name->prefix, 1, keys.count) : "the first part");
  if (!name_fits)
    return fail(ErrorCode::invalid_argument, path,
                "is part 1 of {} of a split model; to find the others its name must end in '{}'",
                keys.count, split_path("", 1, keys.count));
  return {};
}

Result<Part> load_part(const std::string& path, const OpenOptions& options,
                       std::vector<MappedFile>& files) {
  CERA_TRY(MappedFile file, MappedFile::open(path, options.use_mmap));
  const uint64_t size = file.bytes().size();
  const uint64_t held = file.is_mapped() ? 0 : size;
  CERA_TRY(Part part, parse(file.bytes(), path, memory_budget(size) - held));
  files.push_back(std::move(file));
  return part;
}

Result<void> load_siblings(const SplitKeys& first, const SplitName& name,
                           const OpenOptions& options, Contents& contents) {
  for (uint64_t number = 2; number <= first.count; ++number) {
    const std::string path = split_path(name.prefix, number, first.count);
    auto part = load_part(path, options, contents.files);
    if (!part && part.error().code == ErrorCode::not_found)
      return fail(ErrorCode::not_found, contents.path, "part {} of {} is missing: there is no {}",
                  number, first.count, path);
    if (!part) return std::unexpected(std::move(part).error());
    CERA_TRY(const SplitKeys keys, split_keys(*part, path));
    if (keys.number != number - 1 || keys.count != first.count)
      return fail(ErrorCode::malformed, path,
                  "calls itself part {} of {}, but its name says {} of {}", keys.number + 1,
                  keys.count, number, first.count);
    contents.add_tensors(std::move(part->tensors));
  }
  if (contents.tensors.size() != *first.n_tensors)
    return fail(ErrorCode::malformed, contents.path,
                "the parts hold {} tensors, but 'split.tensors.count' is {}",
                contents.tensors.size(), *first.n_tensors);
  return {};
}

}  // namespace

void Contents::add_tensors(std::vector<TensorInfo> more) {
  const uint32_t file_index = n_parts++;
  for (TensorInfo& tensor : more) tensor.file_index = file_index;
  if (file_index == 0) {
    tensors = std::move(more);
  } else {
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  }
}

Result<void> Contents::index_names() {
  by_name.resize(tensors.size());
  for (uint32_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
  std::sort(by_name.begin(), by_name.end(),
            [this](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  const auto twice = std::adjacent_find(
      by_name.begin(), by_name.end(),
      [this](uint32_t a, uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twice == by_name.end()) return {};
  return fail(ErrorCode::malformed, path, "tensor {} appears twice", quoted(tensors[*twice].name));
}

Result<std::shared_ptr<const File>> File::open(const std::string& path, OpenOptions options) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  CERA_TRY(Part part, load_part(path, options, impl->files));
  CERA_TRY(const SplitKeys keys, split_keys(part, path));
  const auto name = parse_split_name(path);
  CERA_CHECK(check_first_part(keys, name, path));
  impl->version = part.version;
  impl->metadata = std::move(part.metadata);
  impl->add_tensors(std::move(part.tensors));
  if (keys.count > 1) CERA_CHECK(load_siblings(keys, *name, options, *impl));
  CERA_CHECK(impl->index_names());
  for (const MappedFile& file : impl->files) impl->size_bytes += file.bytes().size();
  if (options.metadata_only) {
    for (TensorInfo& tensor : impl->tensors) tensor.data = nullptr;
    impl->files.clear();
  }
  auto file = std::make_shared<File>();
  file->impl_ = std::move(impl);
  return file;
}

Result<std::shared_ptr<const File>> File::from_bytes(std::span<const std::byte> bytes,
                                                     std::string label) {
  auto impl = std::make_shared<Impl>();
  impl->path = std::move(label);
  CERA_TRY(Part part, parse(bytes, impl->path, memory_budget(bytes.size())));
  CERA_TRY(const SplitKeys keys, split_keys(part, impl->path));
  if (keys.count > 1)
    return fail(ErrorCode::unsupported, impl->path,
                "is part {} of {} of a split model, which can only be opened by path",
                keys.number + 1, keys.count);
  impl->version = part.version;
  impl->size_bytes = bytes.size();
  impl->metadata = std::move(part.metadata);
  impl->add_tensors(std::move(part.tensors));
  CERA_CHECK(impl->index_names());
  auto file = std::make_shared<File>();
  file->impl_ = std::move(impl);
  return file;
}

uint64_t TensorInfo::elements() const {
  uint64_t product = 1;  // cannot wrap: checked when the file was opened
  for (const uint64_t dimension : dimensions) product *= dimension;
  return product;
}

const std::string& File::path() const {
  return impl_->path;
}
uint32_t File::version() const {
  return impl_->version;
}
uint64_t File::size_bytes() const {
  return impl_->size_bytes;
}
const std::map<std::string, Entry, std::less<>>& File::metadata() const {
  return impl_->metadata;
}
std::span<const TensorInfo> File::tensors() const {
  return impl_->tensors;
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto& tensors = impl_->tensors;
  const auto found = std::lower_bound(
      impl_->by_name.begin(), impl_->by_name.end(), name,
      [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  if (found == impl_->by_name.end() || tensors[*found].name != name) return nullptr;
  return &tensors[*found];
}

}  // namespace cera::gguf
