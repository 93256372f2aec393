#pragma once
// A backend runs Plans. Nothing above this interface knows an instruction set or a device.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/plan.h"
#include "ops/step.h"

namespace cera {

enum class KvType : uint8_t { f16, f32 };

struct StateSize {
  uint32_t n_pages = 0;  // of kPageCells cells each, shared by all sequences
  uint32_t n_slots = 1;  // sequences alive at once (recurrent state)
  KvType kv_type = KvType::f16;
};

/// Memory of keys, values and recurrent state, owned by the backend's device. The session decides
/// which page and slot belongs to whom. Not thread-safe; not used while a step that names it runs.
class StateMemory {
 public:
  virtual ~StateMemory() = default;
  virtual const StateSize& size() const = 0;
  /// Fills cells [first_cell, kPageCells) of a page with zeros, in all layers: before reuse, and
  /// after a truncate, so that what a masked cell holds is always finite.
  virtual void clear_page(uint32_t page, uint32_t first_cell) = 0;
  virtual void copy_page(uint32_t from, uint32_t to) = 0;
  virtual void copy_slot(uint32_t from, uint32_t to) = 0;
  /// The convolution columns that cell `next_cell` of this slot needs, in a layout shared by all
  /// backends: for each conv layer, [taps - 1][width] f32, oldest first (zeros before cell 0).
  virtual size_t snapshot_bytes() const = 0;
  virtual void save_snapshot(uint32_t slot, uint32_t next_cell, std::span<std::byte> to) const = 0;
  virtual void load_snapshot(uint32_t slot, uint32_t next_cell,
                             std::span<const std::byte> from) = 0;
  virtual size_t bytes() const = 0;  // reserved, all layers
};

struct ExecutableOptions {
  uint32_t max_rows = 512;   // rows in one step
  uint32_t max_outputs = 1;  // rows with wants_output in one step
};

/// Time and placement of one op, for `bench --explain` and profiling.
struct OpProfile {
  std::string name;    // "linear blk.3.ffn_down Q6_K"
  std::string kernel;  // "avx2 gemm int8/256"
  uint64_t nanoseconds = 0;
  uint64_t calls = 0;
};

/// A Plan made ready for a device: kernels chosen, memory allocated. One step at a time.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs one step to its end. rows.size() in [1, max_rows]. No allocation.
  virtual Result<void> submit(const Step& step, StateMemory& state) = 0;
  /// [number of outputs of the last step, vocab], valid until the next submit.
  virtual std::span<const float> logits() const = 0;
  virtual size_t bytes() const = 0;  // activation and scratch memory
  /// One entry per op of the plan; times are kept only after set_profiling(true).
  virtual std::vector<OpProfile> profile() const = 0;
  virtual void set_profiling(bool on) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu (avx2, 2 threads)"
  /// Whether this op can run, or the reason why not, naming op and type.
  virtual Result<void> supports(const Op& op) const = 0;
  /// The plan (and the weights it points at) must outlive the executable. Errors name layer, op and
  /// type.
  virtual Result<std::unique_ptr<Executable>> prepare(const Plan& plan,
                                                      const ExecutableOptions& options) = 0;
  virtual Result<std::unique_ptr<StateMemory>> make_state(const StateSpec& spec,
                                                          const StateSize& size) = 0;
};

}  // namespace cera
