#include "costmodel/analytical.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stitch::costmodel {
namespace {

/// Rival limits of one phase, µs; the largest decides.
struct PhaseTime {
  double dram = 0, l2 = 0, shared = 0, issue = 0, integer = 0, f64 = 0, special = 0, latency = 0;

  [[nodiscard]] std::array<std::pair<const char*, double>, 8> parts() const {
    return {{{"dram", dram},
             {"l2", l2},
             {"L1 and shared memory", shared},
             {"issue", issue},
             {"integer unit", integer},
             {"f64 unit", f64},
             {"special functions", special},
             {"latency", latency}}};
  }
  [[nodiscard]] std::pair<const char*, double> binding() const {
    const auto all = parts();
    return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  /// The limits overlap imperfectly: a part of what is not binding shows.
  [[nodiscard]] double total(double overlap) const {
    // The same instructions are issued and executed: of these limits one shows.
    const double execution = std::max({issue, integer, f64});
    const double most = binding().second;
    return most + overlap * (dram + l2 + shared + execution + special + latency - most);
  }
};

/// Cycles that a group's tile takes even if it has its SM to itself, or each block of a cluster that shares the tile.
double lone_tile_cycles(const GroupFeatures& f, const KernelQuantities& kernel, const DeviceSpec& device,
                        const AnalyticalConstants& constants) {
  const double blocks = std::max<double>(1, f.tiles * kernel.cluster);
  const double bytes = std::max(f.dram_read_bytes + f.dram_write_bytes, f.l2_bytes) / blocks;
  double cycles = std::max({f.latency_cycles, bytes / constants.alone_bytes_per_clock, f.instructions / blocks / 4});
  const double in_flight = f.bytes_in_flight * f.threads;
  if (in_flight > 0) cycles = std::max(cycles, f.dram_read_bytes / blocks / in_flight * device.dram_latency);
  return cycles;
}

PhaseTime phase_time(const PhaseQuantities& phase, const KernelQuantities& kernel, const DeviceSpec& device,
                     const AnalyticalConstants& constants) {
  const int resident = kernel.resident;
  const bool alone = phase.alone();
  const double alone_bandwidth = constants.alone_bytes_per_clock * device.clock_hz;
  const double sms = alone ? 1 : device.sm_count;
  const double blocks = alone ? 1 : std::min<std::int64_t>(kernel.blocks, phase.tiles * kernel.cluster);
  const double slots = sms * resident;
  // Blocks that run side by side, and how often a full set of them is needed.
  const double tiles = phase.tiles * kernel.cluster;
  const double concurrent = std::min(blocks, slots);
  const double waves = std::ceil(tiles / std::max(1.0, concurrent));
  const double busy_sms = std::min(sms, concurrent);
  const double quantisation = waves / std::max(1e-9, tiles / std::max(1.0, concurrent));
  const double us_per_cycle = 1e6 / device.clock_hz;

  PhaseTime time;
  double latency = 0, flight = 0, weight = 0;
  for (const GroupFeatures& f : phase.groups) {
    time.l2 += f.l2_bytes / (alone ? alone_bandwidth : device.l2_bandwidth) * 1e6;
    // L1 and shared memory are one: what warps ask for passes through it, whether it is found there or not.
    time.shared += (f.shared_bytes + f.sector_bytes) / (device.shared_bytes_per_clock * busy_sms) * us_per_cycle;
    time.issue += f.instructions / (4 * busy_sms) * us_per_cycle;
    time.integer += f.integer_instructions * 32 / (device.int32_lanes_per_sm * busy_sms) * us_per_cycle;
    time.f64 += f.f64_instructions * 32 / (device.fp64_lanes_per_sm * busy_sms) * us_per_cycle;
    time.special += f.special_instructions * 32 / (device.special_lanes_per_sm * busy_sms) * us_per_cycle;
    const double share = f.tiles / std::max<double>(1, phase.tiles);
    latency += f.latency_cycles * share;
    const double bytes = f.dram_read_bytes + 1;
    flight += f.bytes_in_flight * f.threads * bytes;
    weight += bytes;
  }
  // Little's law: what is in flight on an SM, over the latency of device memory, bounds its bandwidth. Loads are not
  // outstanding all the time within a tile; other blocks fill the gaps where an SM holds more than one. That depends on
  // what an SM can hold, not on how many blocks there are: more work must never be predicted to take less time.
  const double blocks_per_sm = std::min<double>(resident, std::max(1.0, concurrent / sms));
  const double duty = std::min(1.0, constants.duty_alone + constants.duty_further * (resident - 1));
  const double in_flight = flight / weight * blocks_per_sm * duty;
  const double reachable = device.reachable_bandwidth();
  double bandwidth = std::min(reachable, busy_sms * in_flight * device.clock_hz / device.dram_latency);
  if (in_flight <= 0) bandwidth = reachable;
  // Of a DRAM row that is opened only so many bytes are asked for.
  if (kernel.slabs > 1) bandwidth *= kernel.run_bytes / (kernel.run_bytes + constants.row_bytes);
  if (alone) bandwidth = std::min(bandwidth, alone_bandwidth);
  // A cold start is assumed; what an earlier phase has left in L2 comes from there.
  const double dram = std::max(0.0, phase.bytes() - phase.found_in_l2(constants.l2_kept * device.l2_bytes));
  time.dram = dram / std::max(bandwidth, 1.0) * 1e6;
  // Groups side by side share the machine, but none ends before its own tile has: a block that has a whole tensor to
  // itself keeps the kernel waiting however little the others have to do.
  double longest = 0;
  if (phase.groups.size() > 1) {
    for (const GroupFeatures& f : phase.groups)
      longest = std::max(longest, lone_tile_cycles(f, kernel, device, constants));
  }
  time.latency = std::max(waves * latency, longest) * us_per_cycle;
  for (double* throughput : {&time.l2, &time.shared, &time.issue, &time.integer, &time.f64, &time.special})
    *throughput *= std::min(quantisation, constants.most_stretch);
  time.dram *= std::min(quantisation, constants.most_dram_stretch);
  // The blocks of a cluster stand in one GPC together, and what is left of its SMs stays idle.
  if (kernel.cluster > 1) {
    for (double* throughput :
         {&time.dram, &time.l2, &time.shared, &time.issue, &time.integer, &time.f64, &time.special})
      *throughput *= 1 + constants.cluster_idle;
  }
  time.dram *= constants.dram;
  time.l2 *= constants.l2;
  time.shared *= constants.shared;
  time.issue *= constants.issue;
  time.integer *= constants.integer;
  time.f64 *= constants.f64;
  time.special *= constants.special;
  time.latency *= constants.latency;
  return time;
}

/// What stands before a phase, µs; none before the first, and none where one block is left anyway.
double entry_us(PhaseEntry entry, const DeviceSpec& device, const AnalyticalConstants& constants) {
  const double barrier = device.grid_barrier_us * constants.barrier;
  switch (entry) {
    case PhaseEntry::barrier: return barrier;
    case PhaseEntry::last_block:
    case PhaseEntry::gate:
    case PhaseEntry::open: return constants.last_block * barrier;  // to the one block, and from it to all
    case PhaseEntry::launch:
    case PhaseEntry::same_block:
    case PhaseEntry::each_block: break;
  }
  return 0;
}

/// Its name among a score's terms; empty where it takes nothing.
std::string_view name_of(PhaseEntry entry) {
  switch (entry) {
    case PhaseEntry::barrier: return "grid barrier";
    case PhaseEntry::last_block: return "last block";
    case PhaseEntry::gate: return "gate";
    case PhaseEntry::open: return "gate opens";
    case PhaseEntry::launch:
    case PhaseEntry::same_block:
    case PhaseEntry::each_block: break;
  }
  return {};
}

/// Ramp-up and drain of the grid: the first loads and the last stores meet an empty machine.
double ramp_us(const DeviceSpec& device, const AnalyticalConstants& constants) {
  return constants.ramp_latencies * device.dram_latency / device.clock_hz * 1e6;
}

}  // namespace

double analytical_us(const KernelQuantities& kernel, const DeviceSpec& device, const AnalyticalConstants& constants) {
  double slab = 0;
  for (const PhaseQuantities& phase : kernel.phases) {
    slab += entry_us(phase.entry, device, constants);
    slab += phase_time(phase, kernel, device, constants).total(constants.overlap);
  }
  return device.launch_us * constants.launch + kernel.slabs * (slab + ramp_us(device, constants));
}

search::Score explain_analytical(const KernelQuantities& kernel, const DeviceSpec& device,
                                 const AnalyticalConstants& constants) {
  search::Score score;
  double most = device.launch_us * constants.launch;
  score.terms.push_back({"launch", most});
  score.binding = "launch";
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    const PhaseQuantities& phase = kernel.phases[p];
    const std::string prefix = kernel.phases.size() > 1 ? fmt::format("phase {}: ", p) : "";
    if (const std::string_view name = name_of(phase.entry); !name.empty())
      score.terms.push_back({std::string(name), kernel.slabs * entry_us(phase.entry, device, constants)});
    const PhaseTime time = phase_time(phase, kernel, device, constants);
    for (const auto& [name, us] : time.parts()) {
      if (us > 0)
        score.terms.push_back({prefix + name, kernel.slabs * us});  // most kernels have no use for some of the units
    }
    if (kernel.slabs * time.binding().second > most) {
      most = kernel.slabs * time.binding().second;
      score.binding = prefix + time.binding().first;
    }
  }
  score.terms.push_back({"ramp-up and drain", kernel.slabs * ramp_us(device, constants)});
  score.us = analytical_us(kernel, device, constants);
  return score;
}

double AnalyticalScorer::predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  return analytical_us(kernel_quantities(graph, program, device_), device_, constants_);
}

search::Score AnalyticalScorer::explain(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  return explain_analytical(kernel_quantities(graph, program, device_), device_, constants_);
}

}  // namespace stitch::costmodel
