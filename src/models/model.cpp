#include "models/model.h"

#include "models/config.h"
#include "models/registry.h"

namespace cera {

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<const gguf::File> file) {
  CERA_TRY(const auto kind, file->find_string("general.type"));
  if (kind && *kind != "model")
    return fail(ErrorCode::unsupported, file->path(),
                "metadata key 'general.type' is \"{}\": this file is not a language model", *kind);
  CERA_TRY(const auto name, file->get_string("general.architecture"));
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr)
    return fail(ErrorCode::unsupported, file->path(),
                "metadata key 'general.architecture' is \"{}\"; this build runs {}", name,
                fmt::join(architectures(), ", "));

  if (!file->tensors().empty() && file->tensors().front().data == nullptr)
    return fail(ErrorCode::invalid_argument, file->path(),
                "was opened for its metadata only; a model needs the tensors too");
  KeyReader keys(*file, name);
  CERA_TRY(ModelConfig config, read_config(keys));
  config.architecture = name;
  ModelReader reader(std::move(file), std::move(config), keys);
  architecture->build(reader);
  return reader.finish();
}

std::vector<std::string> Model::architectures() {
  std::vector<std::string> names;
  for (const Architecture& architecture : all_architectures())
    names.emplace_back(architecture.name);
  return names;
}

}  // namespace cera
