#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a launch counts: instructions by class, sectors of global memory, wavefronts of shared memory, barriers and
/// copies, named as a profiler names them.
///
///   report.counters.global_loads.sectors_per_request();                   // 4 where 32 lanes read adjacent floats
///   report.counters.of(InstructionClass::special_function).lanes;
///   for (const NamedCounter& counter : named_counters()) …                // those that are single numbers
///
/// Each host thread's interpreter counts for itself, the launch adds up. Read by the profiler's verification and
/// `stitch verify`, by the golden kernels' counts.txt (as to_text prints it), and by tests of coalescing and spills.
/// There is no time in it.
namespace stitch::emulator {

/// What an instruction keeps busy; the classes by which a profiler groups issued instructions.
enum class InstructionClass : std::uint8_t {
  integer,           ///< integer arithmetic, logic, shifts, integer compare and select
  f32,               ///< f32 arithmetic and compare
  f64,               ///< f64 arithmetic and compare
  f16,               ///< f16, bf16 and their packed forms
  special_function,  ///< ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt and the divisions
  conversion,        ///< cvt
  move,              ///< mov, cvta, special registers, loads of kernel parameters
  global_load,
  global_store,
  shared_load,   ///< includes ldmatrix and another block's shared memory
  shared_store,  ///< includes stmatrix
  local_load,
  local_store,
  async_copy,  ///< cp.async, cp.async.bulk and their commits and waits
  atomic,      ///< atom, red on any space
  shuffle,     ///< shfl, vote, match, redux, activemask, elect
  barrier,     ///< bar, barrier.cluster, mbarrier, fences, bar.warp.sync
  tensor,      ///< mma, wgmma, tcgen05 (but its commit, wait and fence)
  control,     ///< branches, calls, exit, nanosleep, hints
};
inline constexpr std::size_t instruction_class_count = static_cast<std::size_t>(InstructionClass::control) + 1;

std::string_view to_string(InstructionClass kind);

/// How often instructions of one class were issued.
struct InstructionCount {
  std::uint64_t warps = 0;  ///< warp instructions, also those whose every lane was predicated off
  std::uint64_t lanes = 0;  ///< lanes that executed

  bool operator==(const InstructionCount&) const = default;
};

/// Traffic of one kind (loads or stores) on global memory. A request is one warp instruction that has active lanes; a
/// sector is an aligned run of 32 bytes, counted once per request however many lanes touch it. Asynchronous copies
/// count as the loads and stores they perform.
struct GlobalTraffic {
  std::uint64_t requests = 0;
  std::uint64_t sectors = 0;
  std::uint64_t unique_sectors = 0;  ///< distinct over the launch: what a perfect cache would move
  std::uint64_t l2_sectors = 0;  ///< of `sectors`, those that L2 sees: loads that L1Cache does not catch, all stores

  [[nodiscard]] double sectors_per_request() const {
    return requests == 0 ? 0 : static_cast<double>(sectors) / requests;
  }
  GlobalTraffic& operator+=(const GlobalTraffic& other) {
    requests += other.requests;
    sectors += other.sectors;
    unique_sectors += other.unique_sectors;
    l2_sectors += other.l2_sectors;
    return *this;
  }
  bool operator==(const GlobalTraffic&) const = default;
};

/// Traffic of one buffer; buffers that were not touched are left out of a report.
struct BufferTraffic {
  std::uint32_t buffer = 0;  ///< Buffer::id
  std::string name;
  GlobalTraffic loads;
  GlobalTraffic stores;

  bool operator==(const BufferTraffic&) const = default;
};

/// Events of a launch, as a profiler would count them. Sums over the blocks that were run; independent of the number
/// of host threads except for instructions inside loops that wait for other blocks.
struct Counters {
  std::array<InstructionCount, instruction_class_count> instructions{};

  GlobalTraffic global_loads;
  GlobalTraffic global_stores;
  std::uint64_t global_atomics = 0;         ///< lanes of atom and red on global memory
  std::uint64_t global_atomic_sectors = 0;  ///< sectors per request, summed

  /// A shared-memory request takes one wavefront when no two lanes want different words of a bank (32 banks of 4
  /// bytes); 8-byte lanes are served as two half-warps, 16-byte lanes as four quarters. What exceeds that minimum is
  /// `shared_extra_wavefronts`: bank conflicts.
  std::uint64_t shared_load_requests = 0;
  std::uint64_t shared_store_requests = 0;
  std::uint64_t shared_wavefronts = 0;
  std::uint64_t shared_extra_wavefronts = 0;
  std::uint64_t shared_atomics = 0;               ///< lanes
  std::uint64_t distributed_shared_requests = 0;  ///< of the above, to another block of the cluster

  std::uint64_t local_load_lanes = 0;  ///< lane accesses: spills and indexed local arrays
  std::uint64_t local_store_lanes = 0;

  std::uint64_t block_barriers = 0;    ///< completed barriers, counted once per block
  std::uint64_t cluster_barriers = 0;  ///< completed barriers, counted once per cluster
  std::uint64_t warp_barriers = 0;     ///< bar.warp.sync executed by a warp

  std::uint64_t async_copy_bytes = 0;  ///< cp.async: bytes read from global memory
  std::uint64_t bulk_copy_bytes = 0;   ///< cp.async.bulk and cp.reduce.async.bulk: bytes moved

  std::uint64_t blocks = 0;  ///< blocks that were run

  [[nodiscard]] const InstructionCount& of(InstructionClass kind) const {
    return instructions[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] InstructionCount total() const;

  Counters& operator+=(const Counters& other);
  bool operator==(const Counters&) const = default;
};

/// A counter that is a single number, by its name in texts and documents.
struct NamedCounter {
  std::string_view name;
  std::uint64_t Counters::*value;
};
std::span<const NamedCounter> named_counters();

/// One counter per line, zero counters left out: for logs and golden files.
std::string to_text(const Counters& counters);
std::string to_text(const std::vector<BufferTraffic>& buffers);

}  // namespace stitch::emulator
