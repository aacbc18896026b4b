#include "costmodel/phase_time.h"

#include <algorithm>
#include <cmath>

#include "costmodel/bandwidth_share.h"
#include "costmodel/contraction/state_product_count.h"

namespace stitch::costmodel {
namespace {

constexpr int schedulers_of_sm = 4;

/// How a phase's tiles lie on the machine.
struct Placement {
  double sms = 0;         ///< that the phase may use
  double tiles = 0;       ///< blocks' worth: those of a cluster count each
  double concurrent = 0;  ///< blocks side by side
  double waves = 0;       ///< how often a full set of them is needed
  double stretch = 1;     ///< of a last wave that is not full

  /// SMs that have something to do.
  [[nodiscard]] double busy_sms() const { return std::min(sms, concurrent); }
  /// Blocks of the SM that has most, over the mean: some SMs have one more where all blocks are resident at once.
  [[nodiscard]] double imbalance() const {
    if (waves > 1) return stretch;
    return std::ceil(tiles / sms) * busy_sms() / std::max(1.0, tiles);
  }
};

Placement placement_of(const PhaseQuantities& phase, const KernelQuantities& kernel, const DeviceSpec& device) {
  Placement place;
  const bool alone = phase.alone();
  place.sms = alone ? 1 : device.sm_count;
  const double blocks = alone ? 1 : std::min<std::int64_t>(kernel.blocks, phase.tiles * kernel.cluster);
  place.tiles = phase.tiles * kernel.cluster;
  place.concurrent = std::max(1.0, std::min(blocks, place.sms * kernel.resident));
  place.waves = std::ceil(place.tiles / place.concurrent);
  place.stretch = place.waves / std::max(1e-9, place.tiles / place.concurrent);
  return place;
}

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

/// Share of the time that a block has loads outstanding which are not made a turn ahead. Other blocks fill the gaps
/// where an SM holds more than one. That depends on what an SM can hold, not on how many blocks there are: more work
/// must never be predicted to take less time.
double duty_of(const KernelQuantities& kernel, const AnalyticalConstants& constants) {
  return std::min(1.0, constants.duty_alone + constants.duty_further * (kernel.resident - 1));
}

/// Bytes that a block has on their way from device memory, on average over the time that it runs.
double block_flight(const PhaseQuantities& phase, const KernelQuantities& kernel,
                    const AnalyticalConstants& constants) {
  const double duty = duty_of(kernel, constants);
  double flight = 0, weight = 0;
  for (const GroupFeatures& f : phase.groups) {
    const double bytes = f.dram_read_bytes + 1;
    flight += f.bytes_in_flight * f.threads * (duty + (1 - duty) * f.ahead_share) * bytes;
    weight += bytes;
  }
  return flight / weight;
}

/// Share of the reachable bandwidth of device memory that so many blocks side by side have.
double dram_share(double blocks, double block_flight, const Placement& place, const DeviceSpec& device,
                  const AnalyticalConstants& constants) {
  const double sms = std::max(1.0, std::min(place.sms, blocks));
  return bandwidth_share(blocks * block_flight, sms, device, constants);
}

/// Device memory's time for all bytes of a phase at its full bandwidth, µs. What is written takes longer than what is
/// read (DeviceSpec::write_turnaround); what an earlier phase has left in L2 does not come from there.
double dram_us(const PhaseQuantities& phase, const KernelQuantities& kernel, const DeviceSpec& device,
               const AnalyticalConstants& constants) {
  double written = 0;
  for (const GroupFeatures& f : phase.groups) written += f.dram_write_bytes;
  const double read = std::max(0.0, phase.bytes() - written - phase.found_in_l2(constants.l2_kept * device.l2_bytes));
  const double writing = device.copy_bandwidth() / (1 + DeviceSpec::write_turnaround);
  double us = (read / device.reachable_bandwidth() + written / writing) * 1e6;
  // Of a DRAM row that is opened only so many bytes are asked for.
  if (kernel.slabs > 1) us *= (kernel.run_bytes + constants.row_bytes) / kernel.run_bytes;
  return us;
}

/// The same by the bandwidth that the blocks of full waves have together, and those of the last one.
double dram_limit(const PhaseQuantities& phase, const KernelQuantities& kernel, const Placement& place,
                  const DeviceSpec& device, const AnalyticalConstants& constants) {
  const double us = dram_us(phase, kernel, device, constants);
  const double flight = block_flight(phase, kernel, constants);
  const double full = dram_share(std::min(place.concurrent, place.tiles), flight, place, device, constants);
  const double rest = std::fmod(place.tiles, place.concurrent);
  if (place.waves <= 1 || rest <= 0) return us / full;
  const double last = dram_share(rest, flight, place, device, constants);
  const double stretched = ((place.tiles - rest) / full + rest / last) / place.tiles;
  return us * std::min(stretched, std::min(place.stretch, constants.most_dram_stretch) / full);
}

/// Bandwidth of L2 for so many SMs, bytes/s: that of its slices, or of the SMs' ports where these are less. Near where
/// the two meet requests queue at both.
double l2_rate(double busy_sms, const DeviceSpec& device, const AnalyticalConstants& constants) {
  constexpr double bend = 4;  // guess
  const double ports = busy_sms * constants.alone_bytes_per_clock * device.clock_hz;
  return device.l2_bandwidth / std::pow(1 + std::pow(device.l2_bandwidth / ports, bend), 1 / bend);
}

/// Instructions that a scheduler issues a cycle, by the warps it chooses from: a warp issues every few cycles.
double issue_rate(const Placement& place, const KernelQuantities& kernel, const AnalyticalConstants& constants) {
  const double blocks = place.waves > 1 ? kernel.resident : std::ceil(place.tiles / place.sms);
  const double warps = std::min<double>(blocks, kernel.resident) * std::ceil(kernel.threads / 32.0);
  return std::min(1.0, std::max(1.0, warps / schedulers_of_sm) * constants.warp_issue);
}

}  // namespace

std::array<std::pair<const char*, double>, 9> PhaseTime::parts() const {
  return {{{"dram", dram},
           {"l2", l2},
           {"L1 and shared memory", shared},
           {"issue", issue},
           {"integer unit", integer},
           {"f64 unit", f64},
           {"tensor cores", tensor},
           {"special functions", special},
           {"latency", latency}}};
}

std::pair<const char*, double> PhaseTime::binding() const {
  const auto all = parts();
  return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
}

double PhaseTime::total(double overlap) const {
  // The same instructions are issued and executed: of these limits one shows.
  const double execution = std::max({issue, integer, f64});
  const double most = binding().second;
  return most + overlap * (dram + l2 + shared + execution + tensor + special + latency - most) + serial;
}

PhaseTime phase_time(const PhaseQuantities& phase, const KernelQuantities& kernel, const DeviceSpec& device,
                     const AnalyticalConstants& constants) {
  const Placement place = placement_of(phase, kernel, device);
  const double busy_sms = place.busy_sms();
  const double us_per_cycle = 1e6 / device.clock_hz;
  const double l2_bandwidth = l2_rate(busy_sms, device, constants);

  PhaseTime time;
  double latency = 0, serial = 0;
  for (const GroupFeatures& f : phase.groups) {
    time.l2 += f.l2_bytes / l2_bandwidth * 1e6;
    // L1 and shared memory are one: what warps ask for passes through it, whether it is found there or not.
    time.shared += (f.shared_bytes + f.sector_bytes) / (device.shared_bytes_per_clock * busy_sms) * us_per_cycle;
    time.issue += f.instructions / (schedulers_of_sm * busy_sms) * us_per_cycle;
    time.integer += f.integer_instructions * 32 / (device.int32_lanes_per_sm * busy_sms) * us_per_cycle;
    time.f64 += f.f64_instructions * 32 / (device.fp64_lanes_per_sm * busy_sms) * us_per_cycle;
    time.special += f.special_instructions * 32 / (device.special_lanes_per_sm * busy_sms) * us_per_cycle;
    if (f.tensor_multiply_adds > 0)
      time.tensor += f.tensor_multiply_adds / (synchronous_rate(device) * busy_sms) * us_per_cycle;
    const double share = f.tiles / std::max<double>(1, phase.tiles);
    latency += f.latency_cycles * share;
    serial += f.serial_cycles * share;
  }
  time.issue /= issue_rate(place, kernel, constants);
  time.dram = dram_limit(phase, kernel, place, device, constants);
  // Groups side by side share the machine, but none ends before its own tile has: a block that has a whole tensor to
  // itself keeps the kernel waiting however little the others have to do.
  double longest = 0;
  if (phase.groups.size() > 1) {
    for (const GroupFeatures& f : phase.groups)
      longest = std::max(longest, lone_tile_cycles(f, kernel, device, constants));
  }
  time.latency = std::max(place.waves * latency, longest) * us_per_cycle;
  time.serial = constants.serial * serial * us_per_cycle;
  time.l2 *= std::min(place.stretch, constants.most_stretch);
  for (double* of_sm : {&time.shared, &time.issue, &time.integer, &time.f64, &time.tensor, &time.special})
    *of_sm *= std::min(place.imbalance(), constants.most_stretch);
  // The blocks of a cluster stand in one GPC together, and what is left of its SMs stays idle.
  if (kernel.cluster > 1) {
    for (double* throughput :
         {&time.dram, &time.l2, &time.shared, &time.issue, &time.integer, &time.f64, &time.tensor, &time.special})
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

}  // namespace stitch::costmodel
