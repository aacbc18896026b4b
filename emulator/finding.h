#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/dim3.h"

/// What the emulator says about a kernel that is wrong. The interpreter reports occurrences (run/reporter.h), a launch
/// hands them out as findings, ordered by place:
///
///   shared_race: read of shared memory at offset 128 and a write by lane 3 of warp 0 are not ordered at softmax.cu:31
///   (PTX line 210: ld.shared.f32 %f7, [%r4];), block (0,0,0) thread (35,0,0), 96 times
///
/// A finding is no error of the launch: the kernel goes on, so that one run shows all its defects. It names the
/// smallest block and thread that it happened to, so that reports do not depend on how blocks were scheduled. The
/// profiler refuses a kernel that has any.
namespace stitch::emulator {

/// What is checked while a kernel runs. Each can be switched off on its own (Checks).
enum class Detector : std::uint8_t {
  out_of_bounds,        ///< access outside every buffer, shared or local variable, or the parameter block
  misaligned,           ///< address not a multiple of the access size
  uninitialised_read,   ///< of memory that nobody wrote; a register never written that is stored, addresses or decides
  shared_race,          ///< two lanes touch a byte of shared memory, one writes, and no synchronisation orders them
  global_race,          ///< two blocks touch a byte of global memory, one writes, and nothing orders them
  tensor_race,          ///< two operations touch a word of tensor memory, one writes, and nothing orders them
  redundant_write,      ///< an unordered write of a value that another one of the same block left there
  missing_fence,        ///< a race that would be none with a fence: of memory, of a proxy, of tcgen05
  divergent_barrier,    ///< a barrier that some threads of the warp or block cannot reach, or with a wrong count
  deadlock,             ///< every warp waits, or spins on memory that nobody left can change
  async_before_wait,    ///< what an asynchronous copy, wgmma or tcgen05 still uses, before it was waited for
  read_only_violation,  ///< a write to a read-only buffer, ld.global.nc of bytes that the same launch writes
  cluster_lifetime,     ///< another block's shared memory used before that block is known to run, or after its exit
  invalid_use,          ///< what PTX leaves undefined: wrong lane masks, mbarrier misuse, source lanes that are off
  trap,                 ///< trap instruction or failed device assertion
};
inline constexpr std::size_t detector_count = static_cast<std::size_t>(Detector::trap) + 1;

std::string_view to_string(Detector detector);

/// A set of detectors.
class Checks {
 public:
  static constexpr Checks all() { return Checks((1U << detector_count) - 1); }
  static constexpr Checks none() { return Checks(0); }

  [[nodiscard]] constexpr Checks with(Detector detector) const { return Checks(bits_ | bit(detector)); }
  [[nodiscard]] constexpr Checks without(Detector detector) const { return Checks(bits_ & ~bit(detector)); }
  [[nodiscard]] constexpr bool has(Detector detector) const { return (bits_ & bit(detector)) != 0; }
  bool operator==(const Checks&) const = default;

 private:
  explicit constexpr Checks(std::uint32_t bits) : bits_(bits) {}
  static constexpr std::uint32_t bit(Detector detector) { return 1U << static_cast<unsigned>(detector); }
  std::uint32_t bits_;
};

/// Where in a kernel's execution something was found.
struct FindingPlace {
  std::uint32_t ptx_line = 0;  ///< 1-based
  std::string ptx_text;        ///< that line, trimmed
  std::string source_file;     ///< from .loc, empty without line information
  std::uint32_t source_line = 0;
  Dim3 block;                 ///< blockIdx
  Dim3 thread;                ///< threadIdx; for whole-warp findings its first active lane
  std::uint64_t ordinal = 0;  ///< linear block index × threads per block + linear thread index

  bool operator==(const FindingPlace&) const = default;
};

/// One defect. Findings of the same detector at the same instruction are merged: `count` says how often it happened,
/// place and message belong to the occurrence with the smallest block and thread.
struct Finding {
  Detector detector = Detector::out_of_bounds;
  std::string message;
  FindingPlace place;
  std::uint64_t count = 1;

  bool operator==(const Finding&) const = default;
};

/// "shared_race: … at softmax.cu:31 (PTX line 210: ld.shared.f32 …), block (0,0,0) thread (3,0,0), 96 times".
std::string to_text(const Finding& finding);

}  // namespace stitch::emulator
