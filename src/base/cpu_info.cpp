#include "base/cpu_info.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cera {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(std::move(part));
  return parts;
}

std::string trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

template <class T>
bool parse(const std::string& text, T& value) {
  const std::string trimmed = trim(text);
  const char* const end = trimmed.data() + trimmed.size();
  const auto [stop, error] = std::from_chars(trimmed.data(), end, value);
  return error == std::errc() && stop == end;
}

/// "0-2,5" -> {0, 1, 2, 5}. Malformed parts and absurd ranges are skipped.
std::vector<uint32_t> parse_cpu_list(const std::string& text) {
  constexpr uint32_t max_cpus = 1 << 16;
  std::vector<uint32_t> cpus;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    uint32_t first = 0, last = 0;
    if (!parse(part.substr(0, dash), first)) continue;
    if (dash == std::string::npos) {
      last = first;
    } else if (!parse(part.substr(dash + 1), last)) {
      continue;
    }
    if (last >= max_cpus) continue;
    for (uint32_t cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

/// The value of "key : value" in a file of such lines.
std::string field(const std::string& text, std::string_view key) {
  for (const std::string& line : lines_of(text)) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(line.substr(0, colon)) == key)
      return trim(line.substr(colon + 1));
  }
  return {};
}

std::vector<uint32_t> allowed_cpus(const std::string& root) {
  for (const char* path : {"proc/thread-self/status", "proc/self/status"}) {
    auto cpus = parse_cpu_list(field(read_text(root + path), "Cpus_allowed_list"));
    if (!cpus.empty()) return cpus;
  }
  std::vector<uint32_t> cpus;
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
#endif
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

uint32_t count_physical_cores(const std::string& root, const std::vector<uint32_t>& cpus) {
  std::set<std::pair<int, int>> cores;
  for (const uint32_t cpu : cpus) {
    const std::string folder =
        root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    int package = 0, core = 0;
    if (!parse(read_text(folder + "core_id"), core)) core = -1 - int(cpu);  // unknown: its own
    if (!parse(read_text(folder + "physical_package_id"), package)) package = 0;
    cores.emplace(package, core);
  }
  return uint32_t(cores.size());
}

// ---- cgroups ----

/// Where a hierarchy is mounted, and which of its folders is the mount's root.
struct Mount {
  std::string root, point;
};

bool has_item(const std::string& list, std::string_view item) {
  const auto items = split(list, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

/// Finds the cgroup v2 mount, or the v1 mount of the cpu controller, in /proc/self/mountinfo.
Mount find_mount(const std::string& root, bool v2) {
  for (const std::string& line : lines_of(read_text(root + "proc/self/mountinfo"))) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.empty()) continue;
    const bool match = v2 ? right[0] == "cgroup2"
                          : right[0] == "cgroup" && right.size() > 2 && has_item(right[2], "cpu");
    if (match) return {left[3], left[4]};
  }
  return v2 ? Mount{"/", "/sys/fs/cgroup"} : Mount{"/", "/sys/fs/cgroup/cpu"};
}

/// Cores allowed by one v2 folder ("max 100000" or "150000 100000"); 0 = no limit.
double quota_v2(const std::string& folder) {
  const auto parts = split(trim(read_text(folder + "/cpu.max")), ' ');
  double quota = 0, period = 0;
  if (parts.size() != 2 || !parse(parts[0], quota) || !parse(parts[1], period)) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

double quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  if (!parse(read_text(folder + "/cpu.cfs_quota_us"), quota)) return 0;
  if (!parse(read_text(folder + "/cpu.cfs_period_us"), period)) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

/// The smallest quota of the process's own folder and all folders above it up to the mount.
double smallest_quota(const std::string& root, const Mount& mount, std::string path, bool v2) {
  // A container may see its own folder as the mount's root, or a path outside of its namespace
  // ("/..").
  if (mount.root != "/" && path.starts_with(mount.root)) path.erase(0, mount.root.size());
  if (path.find("..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  const std::string base = root + mount.point.substr(mount.point.starts_with('/') ? 1 : 0);
  double smallest = 0;
  for (;;) {
    const double quota = v2 ? quota_v2(base + path) : quota_v1(base + path);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    if (path.empty()) return smallest;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

double cgroup_quota(const std::string& root) {
  double smallest = 0;
  for (const std::string& line : lines_of(read_text(root + "proc/self/cgroup"))) {
    // "hierarchy:controllers:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !has_item(controllers, "cpu")) continue;
    const double quota = smallest_quota(root, find_mount(root, v2), line.substr(second + 1), v2);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

// ---- instruction sets ----

struct Feature {
  std::string_view name;
  bool present;
};

#if defined(__x86_64__)
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

/// The register state that the operating system saves and restores.
uint64_t saved_state() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

std::vector<Feature> detect_features() {
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const auto bit = [](uint32_t word, int index) { return (word >> index & 1) != 0; };
  const uint64_t state = bit(one.c, 27) ? saved_state() : 0;
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = ymm && (state & 0xe0) == 0xe0;
  return {
      {"avx2", ymm && bit(seven.b, 5)},
      {"fma", ymm && bit(one.c, 12)},
      {"f16c", ymm && bit(one.c, 29)},
      {"avx_vnni", ymm && bit(seven_one.a, 4)},
      {"avx512f", zmm && bit(seven.b, 16)},
      {"avx512dq", zmm && bit(seven.b, 17)},
      {"avx512bw", zmm && bit(seven.b, 30)},
      {"avx512vl", zmm && bit(seven.b, 31)},
      {"avx512_vbmi", zmm && bit(seven.c, 1)},
      {"avx512_vnni", zmm && bit(seven.c, 11)},
      {"avx512_bf16", zmm && bit(seven_one.a, 5)},
  };
}
#else
std::vector<Feature> detect_features() {
  return {};
}
#endif

CpuTier tier_of(const std::vector<Feature>& features) {
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
      return std::any_of(features.begin(), features.end(),
                         [&](const Feature& f) { return f.name == name && f.present; });
    });
  };
  if (!has({"avx2", "fma", "f16c"})) return CpuTier::scalar;
  return has({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vbmi", "avx512_vnni"})
             ? CpuTier::avx512
             : CpuTier::avx2;
}

}  // namespace

std::string_view tier_name(CpuTier tier) {
  switch (tier) {
    case CpuTier::scalar:
      return "scalar";
    case CpuTier::avx2:
      return "avx2";
    case CpuTier::avx512:
      return "avx512";
  }
  return "unknown";
}

CpuInfo read_cpu_info(const std::string& root_folder) {
  const std::string root = root_folder.ends_with('/') ? root_folder : root_folder + '/';
  CpuInfo info{};
  const auto features = detect_features();
  info.best_tier = tier_of(features);
  for (const Feature& feature : features) {
    if (!feature.present) continue;
    if (!info.features.empty()) info.features += ' ';
    info.features += feature.name;
  }
  info.model_name = field(read_text(root + "proc/cpuinfo"), "model name");
  const auto allowed = allowed_cpus(root);
  info.affinity_cores = uint32_t(allowed.size());
  info.logical_cores =
      uint32_t(parse_cpu_list(trim(read_text(root + "sys/devices/system/cpu/online"))).size());
  if (info.logical_cores == 0)
    info.logical_cores = uint32_t(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  info.physical_cores = count_physical_cores(root, allowed);
  info.cgroup_quota_cores = cgroup_quota(root);
  return info;
}

Result<CpuTier> choose_tier(const CpuInfo& info, const char* environment_value) {
  if (environment_value == nullptr || *environment_value == '\0') return info.best_tier;
  const std::string_view wanted = environment_value;
  for (const CpuTier tier : {CpuTier::scalar, CpuTier::avx2, CpuTier::avx512}) {
    if (wanted != tier_name(tier)) continue;
    if (tier > info.best_tier)
      return fail(ErrorCode::unsupported, "CERA_CPU_TIER",
                  "this machine does not have the tier '{}'; its best is '{}'", wanted,
                  tier_name(info.best_tier));
    return tier;
  }
  return fail(ErrorCode::invalid_argument, "CERA_CPU_TIER",
              "unknown tier '{}'; use scalar, avx2 or avx512, or unset it", wanted);
}

ThreadChoice choose_threads(const CpuInfo& info, uint32_t requested) {
  if (requested != 0) return {requested, fmt::format("{}: as requested", requested)};
  double limit = std::min(info.affinity_cores, info.physical_cores);
  if (info.cgroup_quota_cores > 0) limit = std::min(limit, info.cgroup_quota_cores);
  const uint32_t threads = std::max(1u, uint32_t(std::floor(limit)));
  const std::string quota = info.cgroup_quota_cores > 0
                                ? fmt::format("cgroup quota {:.2f} cores", info.cgroup_quota_cores)
                                : std::string("no cgroup quota");
  return {threads, fmt::format("{}: {} physical cores, affinity {}, {}", threads,
                               info.physical_cores, info.affinity_cores, quota)};
}

}  // namespace cera
