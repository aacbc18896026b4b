#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "profiler/measure/timed_device.h"

// The microbenchmarks behind profiler/measure/calibration.h, ready to be launched. What each leaves behind shows that
// it did its work; the tests look at it on the emulated device.
namespace stitch::profiler {

/// CUDA C++ of all of them.
std::string_view calibration_source();

/// Compiles them. Errors: those of the compiler.
Result<codegen::CompiledKernel> compile_calibration(codegen::Compiler& compiler, const std::string& architecture);

/// Cycles by the SM's clock, of one block of one launch each, as kernels write them: word 0 counts them, the others are
/// a ring. Starts as zeros.
inline constexpr std::int64_t cycle_ring_words = 1024;

/// One benchmark with buffers of its own. The buffers live as long as the session.
struct CalibrationRun {
  PlannedLaunch launch;
  BufferHandle results;  ///< what it computes, to be checked
  BufferHandle cycles;   ///< ring; id -1 where it is timed from outside
};

/// Makes runs on one session. Errors of all: those of the session's load and allocate.
class CalibrationKernels {
 public:
  /// `compiled` is compile_calibration's. Both must outlive it.
  CalibrationKernels(Session& session, const codegen::CompiledKernel& compiled)
      : session_(session), compiled_(compiled) {}

  /// results = a copy of `bytes` (a multiple of 32 KiB), 16 bytes an access, four in flight a thread.
  Result<CalibrationRun> copy(std::int64_t bytes);
  /// Reads from L2 in `turns` of l2_turn_bytes a block, around and around `bytes` (a power of two). results: a sum per
  /// thread, u32.
  static constexpr std::int64_t l2_turn_bytes = std::int64_t{1024} * 4 * 16;
  Result<CalibrationRun> l2_read(std::int64_t bytes, std::int64_t turns, std::int64_t blocks);
  /// Reads 16 bytes of shared memory per thread (1024 a block) and round. results: a sum per thread, u32.
  Result<CalibrationRun> shared_read(std::int64_t rounds, std::int64_t blocks);
  /// Follows a chain of addresses, one line of 128 bytes to the next in the order of a full-period congruence, `steps`
  /// times after `before` steps that do not count. `lines` is a power of two. results: the address where it ended, u64.
  /// The chain is laid by a launch.
  Result<CalibrationRun> chase(std::int64_t lines, std::int64_t before, std::int64_t steps);
  /// The same in shared memory, 512 words. results: the index where it ended, u32.
  Result<CalibrationRun> shared_chase(std::int64_t steps);
  /// Adds one to results[0], u32, by a single thread.
  Result<CalibrationRun> tiny();
  /// `rounds` block barriers of 256 threads. results: rounds, u32 per block.
  Result<CalibrationRun> block_barrier(std::int64_t rounds, std::int64_t blocks);
  /// `rounds` grid barriers of 256 threads a block. results: one counter, u32, whose uppermost bit changes in every
  /// round; its others are 0 again.
  Result<CalibrationRun> grid_barrier(std::int64_t rounds, std::int64_t blocks);
  /// Waits until the SM's clock has gone on by `cycles`. results: 1, u32.
  Result<CalibrationRun> spin(std::int64_t cycles);

 private:
  Result<KernelHandle> load(const char* entry);
  Result<BufferHandle> zeros(const char* name, std::int64_t bytes);

  Session& session_;
  const codegen::CompiledKernel& compiled_;
};

/// Where a chase of `steps` steps from line 0 ends.
std::int64_t chase_end(std::int64_t lines, std::int64_t steps);

}  // namespace stitch::profiler
