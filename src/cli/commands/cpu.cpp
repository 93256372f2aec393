#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/output.h"
#include "engine/engine.h"

namespace cera::cli {
namespace {

struct Cpu {
  explicit Cpu(CLI::App& app) {
    app.add_option("--threads", threads, "What would be used if this were asked for")
        ->check(CLI::Range(1u, 1024u));
    app.add_flag("--json", json, "One JSON object");
  }

  Result<void> run() const {
    CERA_TRY(const CpuSetup cpu, choose_cpu(threads));
    const std::string quota = cpu.info.cgroup_quota_cores > 0
                                  ? fmt::format("{:.2f} cores", cpu.info.cgroup_quota_cores)
                                  : std::string("none");
    if (json)
      return write_stdout(
          nlohmann::ordered_json{{"tier", tier_name(cpu.tier)},
                                 {"best_tier", tier_name(cpu.info.best_tier)},
                                 {"features", cpu.info.features},
                                 {"model", cpu.info.model_name},
                                 {"logical_cores", cpu.info.logical_cores},
                                 {"physical_cores", cpu.info.physical_cores},
                                 {"affinity_cores", cpu.info.affinity_cores},
                                 {"cgroup_quota_cores", cpu.info.cgroup_quota_cores},
                                 {"threads", cpu.threads.threads},
                                 {"why", cpu.threads.why}}
              .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
    return write_stdout(
        fmt::format("model:    {}\n"
                    "tier:     {} (best here: {})\n"
                    "features: {}\n"
                    "cores:    {} logical, {} physical, {} in the affinity mask\n"
                    "cgroup:   quota {}\n"
                    "threads:  {}\n",
                    one_line(cpu.info.model_name), tier_name(cpu.tier),
                    tier_name(cpu.info.best_tier), cpu.info.features, cpu.info.logical_cores,
                    cpu.info.physical_cores, cpu.info.affinity_cores, quota, cpu.threads.why));
  }

  uint32_t threads = 0;
  bool json = false;
};

}  // namespace

Command make_cpu(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("cpu", "Show what the processor offers and what would be used");
  auto command = std::make_shared<Cpu>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
