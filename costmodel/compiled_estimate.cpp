#include "costmodel/compiled_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/analytical.h"
#include "costmodel/exchange_count.h"
#include "costmodel/sweep_count.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

/// Further apart than this, machine code and schedule do not speak of the same work: a path that is seldom taken, a
/// loop that runs another number of times.
constexpr double most_apart = 4;
/// Bytes that the code loads over those that the schedule does: beyond it there are two ways to load the same (the
/// vector and the elements of a tail), of which a thread takes one.
constexpr double most_loads = 1.25;

/// Warps that execute a group's tiles, one after the other.
double warps_of(const GroupFeatures& group, const KernelQuantities& kernel) {
  return group.tiles * kernel.cluster * std::ceil(kernel.threads / 32.0);
}

/// Bytes that a lane loads from device memory in a tile.
double loaded_bytes(const GroupFeatures& group, const KernelQuantities& kernel) {
  return group.load_lane_bytes / warps_of(group, kernel);
}

/// Bytes of a lane to and from local memory in one tile of a group.
void add_local_traffic(GroupFeatures& group, double lane_bytes, const KernelQuantities& kernel,
                       std::int64_t block_shared_bytes, const DeviceSpec& device) {
  // L1 is what shared memory leaves of the SM; it is read and written through the same pipe. What does not fit passes
  // through to L2. A byte that is spilled is stored and loaded, so that the frame is half of the traffic.
  const double frame = lane_bytes / 2 * kernel.threads * kernel.resident;
  const double room = std::max(0.0, static_cast<double>(device.shared_per_sm) -
                                        (block_shared_bytes + device.shared_reserved_per_block) * kernel.resident);
  const double bytes = warps_of(group, kernel) * 32 * lane_bytes;
  group.shared_bytes += bytes;
  group.l2_bytes += bytes * (frame > room ? 1 - room / frame : 0);
}

/// Spills by ptxas's count of their bytes in the code, executed once a tile and turn, which is the least, or as often
/// as the machine code's loops have them. Groups share them by their instructions.
void add_spills(KernelQuantities& kernel, const CompiledFacts& compiled, const DeviceSpec& device) {
  if (compiled.spill_bytes <= 0) return;
  const auto of_warp = [&](const GroupFeatures& group) { return group.instructions / warps_of(group, kernel); };
  double all = 0;
  int groups = 0;
  for (const PhaseQuantities& phase : kernel.phases) {
    for (const GroupFeatures& group : phase.groups) {
      all += of_warp(group);
      ++groups;
    }
  }
  for (PhaseQuantities& phase : kernel.phases) {
    for (GroupFeatures& group : phase.groups) {
      const double share = all > 0 ? of_warp(group) / all : 1.0 / groups;
      double times = kernel.turns;
      if (compiled.machine_code != nullptr && kernel.turns == 1)
        times = local_trips(*compiled.machine_code, loaded_bytes(group, kernel), group.iterations);
      const double bytes = compiled.spill_bytes * share * times;
      add_local_traffic(group, bytes, kernel, compiled.shared_bytes, device);
      const double accesses = bytes / 4;  // registers of 4 bytes
      group.instructions += warps_of(group, kernel) * accesses;
      group.latency_cycles += accesses * cycles_of_instruction(kernel.threads);
    }
  }
}

void apply(const WarpWork& work, const MachineCodeFeatures& code, KernelQuantities& kernel,
           const CompiledFacts& compiled, const DeviceSpec& device) {
  GroupFeatures& group = kernel.phases.front().groups.front();
  const double warps_of_block = std::ceil(kernel.threads / 32.0);
  // A scheduler fills one warp's stalls with the others that it has, and no more than that.
  const double blocks_of_sm =
      std::min<double>(kernel.resident, std::max(1.0, static_cast<double>(kernel.blocks) / device.sm_count));
  const double scheduled = std::max(1.0, blocks_of_sm * warps_of_block / 4);
  const double planned = group.instructions / warps_of(group, kernel);
  group.instructions = warps_of(group, kernel) * std::max(work.instructions, work.stall_cycles / scheduled);
  for (double* unit : {&group.integer_instructions, &group.f64_instructions}) *unit *= work.instructions / planned;
  // A tile ends with the last of its block's warps, between whose instructions the others' are issued.
  group.latency_cycles = work.cycles + (std::ceil(warps_of_block / 4) - 1) * work.instructions;
  add_barrier_cycles(group, kernel.threads, device);
  add_local_traffic(group, work.local_bytes, kernel, compiled.shared_bytes, device);
  if (code.bytes_before_wait > 0 && group.bytes_in_flight > 0 && group.load_lane_bytes > 0) {
    // Lanes that ask for the same element have it in flight once.
    const double distinct =
        std::clamp((group.requested_bytes - group.dram_write_bytes) / (32 * group.load_lane_bytes), 1.0 / 32, 1.0);
    group.bytes_in_flight = distinct * std::min<double>(code.bytes_before_wait, loaded_bytes(group, kernel));
  }
}

double us_with(KernelQuantities kernel, int resident, const CompiledFacts& compiled, const DeviceSpec& device,
               const AnalyticalConstants& constants) {
  kernel.resident = resident;
  const auto work = compiled.machine_code != nullptr ? warp_work(kernel, *compiled.machine_code) : std::nullopt;
  if (work)
    apply(*work, *compiled.machine_code, kernel, compiled, device);
  else
    add_spills(kernel, compiled, device);
  return analytical_us(kernel, device, constants);
}

}  // namespace

std::optional<WarpWork> warp_work(const KernelQuantities& kernel, const MachineCodeFeatures& code) {
  if (kernel.phases.size() != 1 || kernel.phases.front().groups.size() != 1 || kernel.turns > 1) return std::nullopt;
  const GroupFeatures& group = kernel.phases.front().groups.front();
  const MachineCodeFeatures::Hot& hot = code.loop;
  const double loaded = loaded_bytes(group, kernel);
  double further = 0;  // iterations of the hot loop besides the first
  if (group.iterations > 1 && hot.loop) {
    if (group.sweeps > 1 || hot.load_bytes == 0) return std::nullopt;
    // By bytes, since ptxas unrolls loops.
    further = std::clamp(loaded / hot.load_bytes, 1.0, group.iterations) - 1;
  } else {
    // A loop where the schedule has none goes around the tiles, or is no sweep's. One that the schedule has and the
    // code has not was unrolled. In both cases a tile is the code once. Clusters exchange through loads, too.
    const double exchanged = 4.0 * kernel.cluster * group.cluster_barriers;
    if (code.load_bytes > most_loads * (loaded + exchanged)) return std::nullopt;
  }
  const WarpWork work{code.instructions + further * hot.instructions, code.stall_cycles + further * hot.stall_cycles,
                      code.cycles + further * hot.cycles, code.local_bytes + further * hot.local_bytes};
  const double planned = group.instructions / warps_of(group, kernel);
  const bool same = work.instructions <= planned * most_apart && work.instructions >= planned / most_apart;
  return same ? std::optional(work) : std::nullopt;
}

double compiled_us(const KernelQuantities& kernel, const CompiledFacts& compiled, const DeviceSpec& device,
                   const AnalyticalConstants& constants) {
  int resident = kernel.resident;
  if (compiled.registers > 0) {
    resident = std::max(1, kernel::resident_blocks(kernel.threads, compiled.registers, compiled.shared_bytes, device));
  }
  // The formula stretches a last wave that is not full, by which a machine with room for fewer blocks can come out
  // ahead. That may speak for a schedule; a compiler that takes more registers than were planned earns nothing by it.
  // So what changes with the room is the least time that any room up to it gives.
  double us = 0, least = std::numeric_limits<double>::infinity(), least_planned = 0, least_compiled = 0;
  for (int room = 1; room <= std::max(resident, kernel.resident); ++room) {
    const double here = us_with(kernel, room, compiled, device, constants);
    least = std::min(least, here);
    if (room == kernel.resident) {
      us = here;
      least_planned = least;
    }
    if (room == resident) least_compiled = least;
  }
  return us * (least_compiled / least_planned);
}

double reranked_us(double predicted_us, const KernelQuantities& kernel, const CompiledFacts& compiled,
                   const DeviceSpec& device, const AnalyticalConstants& constants) {
  return predicted_us * (compiled_us(kernel, compiled, device, constants) / analytical_us(kernel, device, constants));
}

}  // namespace stitch::costmodel
