#include "base/cpu_info.h"

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

namespace cera {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like the root of a file system.
class FakeRoot {
 public:
  FakeRoot() {
    path_ = fs::temp_directory_path() / ("cera_cpu_info_" + std::to_string(std::random_device{}()));
    fs::create_directories(path_);
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Imaginary 9000\nflags\t: fpu\n");
    write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    write("sys/devices/system/cpu/online", "0-7\n");
    for (int cpu = 0; cpu < 8; ++cpu) set_core(cpu, 0, cpu / 2);
  }
  ~FakeRoot() { fs::remove_all(path_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  void set_core(int cpu, int package, int core) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(folder + "core_id", std::to_string(core) + "\n");
    write(folder + "physical_package_id", std::to_string(package) + "\n");
  }
  void mount_v2(const std::string& mount_root = "/") {
    write("proc/self/mountinfo",
          "22 1 8:1 / / rw - ext4 /dev/root rw\n"
          "30 22 0:26 " +
              mount_root + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void mount_v1() {
    write("proc/self/mountinfo",
          "31 22 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
          "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
          "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  }
  CpuInfo read() const { return read_cpu_info(path_.string()); }

 private:
  fs::path path_;
};

TEST(CpuInfo, CoresAndName) {
  FakeRoot root;
  const CpuInfo info = root.read();
  EXPECT_EQ(info.model_name, "Imaginary 9000");
  EXPECT_EQ(info.logical_cores, 8u);
  EXPECT_EQ(info.affinity_cores, 8u);
  EXPECT_EQ(info.physical_cores, 4u);
  EXPECT_EQ(info.cgroup_quota_cores, 0);
}

TEST(CpuInfo, PhysicalCoresAreCountedAmongTheAllowedOnes) {
  FakeRoot root;
  root.write("proc/self/status", "Cpus_allowed_list:\t0-1,4,6-7\n");
  const CpuInfo info = root.read();
  EXPECT_EQ(info.affinity_cores, 5u);
  EXPECT_EQ(info.physical_cores, 3u);
  EXPECT_EQ(info.logical_cores, 8u);
}

TEST(CpuInfo, EqualCoreNumbersOfTwoPackagesAreTwoCores) {
  FakeRoot root;
  for (int cpu = 0; cpu < 8; ++cpu) root.set_core(cpu, cpu / 4, cpu % 2);
  EXPECT_EQ(root.read().physical_cores, 4u);
}

TEST(CpuInfo, TheThreadsOwnMaskComesFirst) {
  FakeRoot root;
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t3\n");
  EXPECT_EQ(root.read().affinity_cores, 1u);
}

TEST(CpuInfo, MalformedListsAreSkipped) {
  FakeRoot root;
  root.write("proc/self/status", "Cpus_allowed_list:\tx,2,9-z,0-99999999999,4294967295,3-1\n");
  EXPECT_EQ(root.read().affinity_cores, 1u);
}

TEST(CpuInfo, WithoutTopologyEveryCpuIsACore) {
  FakeRoot root;
  root.write("proc/self/status", "Cpus_allowed_list:\t8-10\n");
  EXPECT_EQ(root.read().physical_cores, 3u);
}

TEST(CpuInfo, CgroupV2TakesTheSmallestOfTheChain) {
  FakeRoot root;
  root.mount_v2();
  root.write("proc/self/cgroup", "0::/a.slice/b.scope\n");
  root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(root.read().cgroup_quota_cores, 0);
  root.write("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 1.5);
  root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 1.5);
  root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 0.5);
}

TEST(CpuInfo, CgroupV2InAContainer) {
  FakeRoot root;
  // Its own folder is the root of the mount ...
  root.mount_v2("/docker/abc");
  root.write("proc/self/cgroup", "0::/docker/abc\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 2);
  // ... or the process was moved outside of its namespace.
  root.mount_v2();
  root.write("proc/self/cgroup", "0::/../other\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 2);
}

TEST(CpuInfo, CgroupV1) {
  FakeRoot root;
  root.mount_v1();
  root.write("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/x/y\n0::/\n");
  const std::string base = "sys/fs/cgroup/cpu,cpuacct/";
  root.write(base + "x/y/cpu.cfs_quota_us", "-1\n");
  root.write(base + "x/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.read().cgroup_quota_cores, 0);
  root.write(base + "x/cpu.cfs_quota_us", "250000\n");
  root.write(base + "x/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(root.read().cgroup_quota_cores, 2.5);
}

TEST(CpuInfo, GarbageInQuotaFilesIsNoQuota) {
  FakeRoot root;
  root.mount_v2();
  root.write("proc/self/cgroup", "nonsense\n0::/a\n");
  for (const char* text : {"", "100000", "a b", "0 0", "-5 100000", "1 2 3"}) {
    root.write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(root.read().cgroup_quota_cores, 0) << text;
  }
}

TEST(CpuInfo, ThisMachine) {
  const CpuInfo info = read_cpu_info();
  EXPECT_GE(info.logical_cores, 1u);
  EXPECT_GE(info.affinity_cores, 1u);
  EXPECT_GE(info.physical_cores, 1u);
  EXPECT_LE(info.physical_cores, info.affinity_cores);
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(info.features.find("avx2") != std::string::npos, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(info.features.find("avx512f") != std::string::npos,
            __builtin_cpu_supports("avx512f") != 0);
#endif
}

TEST(CpuTierChoice, EnvironmentOnlyLowers) {
  CpuInfo info{};
  info.best_tier = CpuTier::avx2;
  EXPECT_EQ(choose_tier(info, nullptr).value(), CpuTier::avx2);
  EXPECT_EQ(choose_tier(info, "").value(), CpuTier::avx2);
  EXPECT_EQ(choose_tier(info, "scalar").value(), CpuTier::scalar);
  EXPECT_EQ(choose_tier(info, "avx2").value(), CpuTier::avx2);
  info.best_tier = CpuTier::scalar;
  const auto above = choose_tier(info, "avx2");
  ASSERT_FALSE(above.has_value());
  EXPECT_EQ(above.error().code, ErrorCode::unsupported);
  EXPECT_NE(above.error().text().find("avx2"), std::string::npos);
  const auto unknown = choose_tier(info, "avx9");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(unknown.error().text().find("avx9"), std::string::npos);
}

TEST(ThreadChoice, TheSmallestLimitRoundedDown) {
  CpuInfo info{};
  info.physical_cores = 8;
  info.affinity_cores = 16;
  EXPECT_EQ(choose_threads(info, 0).threads, 8u);
  info.cgroup_quota_cores = 3.7;
  EXPECT_EQ(choose_threads(info, 0).threads, 3u);
  EXPECT_NE(choose_threads(info, 0).why.find("3.70"), std::string::npos);
  info.cgroup_quota_cores = 0.2;
  EXPECT_EQ(choose_threads(info, 0).threads, 1u);
  info.affinity_cores = 1;
  info.cgroup_quota_cores = 0;
  EXPECT_EQ(choose_threads(info, 0).threads, 1u);
  EXPECT_EQ(choose_threads(info, 5).threads, 5u);
  EXPECT_NE(choose_threads(info, 5).why.find("requested"), std::string::npos);
}

}  // namespace
}  // namespace cera
