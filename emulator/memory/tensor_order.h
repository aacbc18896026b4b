#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/memory/unit_clock.h"

namespace stitch::emulator {

/// How a warp touches tensor memory: by tcgen05.ld or .st, which complete by tcgen05.wait, or through the tensor core
/// (mma, cp, shift), whose operations are in order among themselves and complete by tcgen05.commit. Freeing columns
/// (dealloc) is no asynchronous operation.
enum class TensorAccess : std::uint8_t { none, load, store, core, free };

/// Who touched a cell of tensor memory, and when.
struct TensorStamp {
  std::uint32_t time = 0;   ///< 0: nobody did
  std::uint16_t agent = 0;  ///< the warp that issued it
  TensorAccess access = TensorAccess::none;

  [[nodiscard]] bool exists() const { return access != TensorAccess::none; }
};

enum class TensorVerdict : std::uint8_t {
  ordered,
  unfenced,    ///< a tcgen05.fence is missing before or after the synchronisation
  incomplete,  ///< the earlier operation was issued before, but nobody waited for its completion
  unordered,   ///< nothing orders the two
};

/// The order of operations on tensor memory (PTX ISA, "Memory Consistency Model for 5th generation of TensorCore
/// operations"): an earlier one happened before a later one of another thread when it is complete (or both are the
/// tensor core's), a tcgen05.fence::before_thread_sync follows it, threads synchronise, if only by relaxed operations,
/// and a tcgen05.fence::after_thread_sync precedes the later one. tcgen05.commit is a fence of the first kind. Times
/// and agents are those of the unit's clock.
///
/// Between two operations of a warp's tensor core nothing is asked for, also for the pairs of which the ISA says
/// nothing (mma before cp): CUTLASS's block-scaled kernels rely on it.
class TensorOrder {
 public:
  explicit TensorOrder(std::uint32_t agents) : progress_(agents) {}

  /// tcgen05.wait::ld or ::st by a warp, at the clock's time.
  void wait(std::uint32_t agent, bool stores, std::uint32_t now);
  /// tcgen05.fence::before_thread_sync; a commit has its own way (UnitClock::tensor_agent).
  void fence_before(std::uint32_t agent, std::uint32_t now);
  /// tcgen05.fence::after_thread_sync: what the warp knows by now orders its later operations.
  void fence_after(std::uint32_t agent, const UnitClock& clock);
  /// What a relaxed operation tells the warp: times by agent.
  void observe(std::uint32_t agent, std::span<const std::uint32_t> times);
  /// What a relaxed operation of the warp tells others.
  [[nodiscard]] std::vector<std::uint32_t> told_by(std::uint32_t agent, const UnitClock& clock) const;

  /// Whether `earlier` happened before what the warp `me` does now.
  [[nodiscard]] TensorVerdict verdict(std::uint32_t me, TensorAccess access, TensorStamp earlier,
                                      const UnitClock& clock) const;

 private:
  struct Progress {
    std::vector<std::uint32_t> load_waits;  ///< times, ascending
    std::vector<std::uint32_t> store_waits;
    std::vector<std::uint32_t> fences;
    std::vector<std::uint32_t> observed;  ///< by agent; empty before the first relaxed synchronisation
    std::vector<std::uint32_t> ordered;   ///< known at the latest fence::after_thread_sync
  };
  [[nodiscard]] TensorVerdict of_own(std::uint32_t me, bool core, TensorStamp earlier, const UnitClock& clock) const;
  [[nodiscard]] TensorVerdict of_core(std::uint32_t me, bool core, TensorStamp earlier, const UnitClock& clock) const;
  [[nodiscard]] std::uint32_t known(std::uint32_t me, std::uint32_t other, const UnitClock& clock) const;
  [[nodiscard]] std::uint32_t ordered(std::uint32_t me, std::uint32_t other) const;

  std::vector<Progress> progress_;  ///< by agent
};

}  // namespace stitch::emulator
