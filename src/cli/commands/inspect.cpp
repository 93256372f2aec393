#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options.h"
#include "cli/output.h"

namespace cera::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownElements = 8;  // of an array
constexpr size_t kShownBytes = 200;   // of a string in the text form
constexpr int kMaxShownDepth = 2;     // of arrays of arrays

ordered_json to_json(const gguf::Array& array, int depth);

ordered_json to_json(const std::shared_ptr<const gguf::Array>& array, int depth) {
  return to_json(*array, depth + 1);
}
template <class T>
ordered_json to_json(const T& value, int) {
  return value;
}

/// The first elements, and how many there are.
ordered_json to_json(const gguf::Array& array, int depth) {
  ordered_json first = ordered_json::array();
  std::visit(
      [&](const auto& values) {
        for (size_t i = 0; i < std::min(values.size(), kShownElements) && depth < kMaxShownDepth;
             ++i)
          first.push_back(
              to_json(typename std::decay_t<decltype(values)>::value_type(values[i]), depth));
      },
      array.values);
  return {{"array_of", gguf::value_type_name(array.element_type)},
          {"size", array.size()},
          {"first", first}};
}

ordered_json to_json(const gguf::Entry& entry) {
  return std::visit([](const auto& value) { return to_json(value, 0); }, entry.value);
}

std::string dump(const ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

/// The first kShownBytes or a little less, without half a character at the end.
std::string beginning(const std::string& text) {
  size_t n = kShownBytes;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0u) == 0x80u) --n;
  return text.substr(0, n);
}

double mib(uint64_t bytes) {
  return double(bytes) / (1 << 20);
}

/// What running the file takes: where each op goes, and memory.
ordered_json describe_engine(Engine& engine) {
  Runner& runner = engine.runner();
  ordered_json ops = ordered_json::array();
  for (const OpProfile& op : runner.executable().profile())
    ops.push_back({{"op", op.name}, {"kernel", op.kernel}});
  const Plan& plan = engine.model().plan();
  const uint64_t weights = engine.model().file().size_bytes();
  const uint64_t state = runner.state().bytes(), activations = runner.executable().bytes();
  return {{"backend", runner.backend().name()},
          {"context_size", engine.context_size()},
          {"trained_context", engine.model().config().context_length},
          {"memory_bytes",
           {{"weights", weights},
            {"kv_per_token", kv_bytes(plan.state, runner.options().kv_type, 1)},
            {"state", state},
            {"activations", activations},
            {"total", weights + state + activations}}},
          {"ops", std::move(ops)}};
}

std::string engine_text(const ordered_json& e) {
  const ordered_json& m = e["memory_bytes"];
  std::string out = fmt::format(
      "\nrun on {}, context {} (trained {}):\n"
      "  weights     {:10.1f} MiB (mapped)\n"
      "  state       {:10.1f} MiB ({:.1f} KiB of keys and values per token)\n"
      "  activations {:10.1f} MiB\n"
      "  total       {:10.1f} MiB\n"
      "\nops:\n",
      e["backend"].get<std::string>(), e["context_size"].get<uint64_t>(),
      e["trained_context"].get<uint64_t>(), mib(m["weights"]), mib(m["state"]),
      double(m["kv_per_token"].get<uint64_t>()) / 1024, mib(m["activations"]), mib(m["total"]));
  for (const ordered_json& op : e["ops"])
    out += fmt::format("  {:<50} {}\n", one_line(op["op"].get<std::string>()),
                       op["kernel"].get<std::string>());
  return out;
}

struct Inspect {
  explicit Inspect(CLI::App& app) : model(app) { app.add_flag("--json", json, "One JSON object"); }

  Result<void> run() const {
    CERA_CHECK(check_device(model.engine().device));
    CERA_TRY(const auto file, gguf::File::open(model.path(), {.metadata_only = true}));
    ordered_json out = describe_file(*file);
    // A file that cannot run can still be looked at.
    if (auto engine = Engine::open(model.engine()))
      out["run"] = describe_engine(**engine);
    else if (engine.error().code == ErrorCode::invalid_argument)
      return std::unexpected(std::move(engine).error());
    else
      out["cannot_run"] = engine.error().text();
    return write_stdout(json ? dump(out, 2) + "\n" : to_text(out));
  }

  static ordered_json describe_file(const gguf::File& file) {
    ordered_json metadata = ordered_json::object(), tensors = ordered_json::array();
    for (const auto& [key, entry] : file.metadata()) metadata[key] = to_json(entry);
    std::map<std::string, std::pair<uint64_t, uint64_t>> by_type;  // count, bytes
    for (const gguf::TensorInfo& t : file.tensors()) {
      const std::string type(gguf_type_name(t.type_id));
      tensors.push_back(
          {{"name", t.name}, {"type", type}, {"shape", t.dimensions}, {"bytes", t.size_bytes}});
      ++by_type[type].first;
      by_type[type].second += t.size_bytes;
    }
    ordered_json types = ordered_json::object();
    for (const auto& [type, sum] : by_type)
      types[type] = {{"tensors", sum.first}, {"bytes", sum.second}};
    return {{"path", file.path()},           {"gguf_version", file.version()},
            {"bytes", file.size_bytes()},    {"metadata", std::move(metadata)},
            {"tensors", std::move(tensors)}, {"types", std::move(types)}};
  }

  static std::string to_text(const ordered_json& out) {
    std::string text = fmt::format("{}: GGUF {}, {:.1f} MiB\n\nmetadata:\n",
                                   one_line(out["path"].get<std::string>()),
                                   out["gguf_version"].get<uint64_t>(), mib(out["bytes"]));
    for (const auto& [key, value] : out["metadata"].items()) {
      std::string shown = dump(value);
      if (shown.size() > kShownBytes) shown = beginning(shown) + "...";
      text += fmt::format("  {:<45} {}\n", one_line(key), one_line(shown));
    }
    text += "\ntensors:\n";
    for (const ordered_json& t : out["tensors"])
      text += fmt::format("  {:<40} {:<6} {}\n", one_line(t["name"].get<std::string>()),
                          t["type"].get<std::string>(),
                          fmt::join(t["shape"].get<std::vector<uint64_t>>(), " x "));
    text += "\ntypes:\n";
    for (const auto& [type, sum] : out["types"].items())
      text += fmt::format("  {:<6} {:5} tensors {:10.1f} MiB\n", type,
                          sum["tensors"].get<uint64_t>(), mib(sum["bytes"]));
    if (out.contains("run")) return text + engine_text(out["run"]);
    return text + fmt::format("\ncannot run: {}\n", one_line(out["cannot_run"].get<std::string>()));
  }

  ModelOptions model;
  bool json = false;
};

}  // namespace

Command make_inspect(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("inspect", "Show metadata, tensors, placement and memory of a model");
  auto command = std::make_shared<Inspect>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
