// Every case of the op table on the CPU: the bits of the scalar definitions in each tier, for
// several numbers of threads.

#include "backends/op_cases.h"

#include <gtest/gtest.h>

#include "backends/cpu_tiers.h"

namespace cera::tests {
namespace {

class OpCases : public ::testing::TestWithParam<OpCaseEntry> {};

TEST_P(OpCases, EqualTheDefinition) {
  const OpCase c = GetParam().make();
  std::vector<Outputs> expected;
  for (const TestSequence& s : c.sequences) {
    expected.push_back(Reference(c.plan, c.kv_type, s).run());
  }
  for (CpuTier tier : available_tiers()) {
    // These ops have no kernels of their own above avx2; the linear ones do, see linear_test.cpp.
    if (tier > CpuTier::avx2) continue;
    for (uint32_t n_threads : {1, 3}) {
      if (tier == CpuTier::scalar && n_threads == 1)
        continue;  // slow; the work is shared out alike
      const auto backend = make_cpu_backend({tier, n_threads});
      Harness harness(*backend, c.plan, c.kv_type, c.sequences, most_rows(c.schedule));
      harness.run(c.schedule);
      for (uint32_t s = 0; s < c.sequences.size(); ++s) {
        expect_outputs(harness.outputs(s), expected[s], 0,
                       fmt::format("{}, sequence {}", backend->name(), s));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpCases, ::testing::ValuesIn(op_cases()),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace cera::tests
