#include "costmodel/analytical.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/features.h"
#include "search/legality.h"

namespace stitch::costmodel {
namespace {

/// SMs that clusters leave idle: 4 of 132 with clusters of 8 (an H100's GPCs have 16 or 18 SMs).
constexpr double cluster_idle_share = 0.03;

/// Rival limits of one phase, µs; the largest decides.
struct PhaseTime {
  double dram = 0, l2 = 0, shared = 0, issue = 0, special = 0, latency = 0;

  [[nodiscard]] std::array<std::pair<const char*, double>, 6> parts() const {
    return {{{"dram", dram},
             {"l2", l2},
             {"shared memory", shared},
             {"issue", issue},
             {"special functions", special},
             {"latency", latency}}};
  }
  [[nodiscard]] std::pair<const char*, double> binding() const {
    const auto all = parts();
    return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  /// The limits overlap imperfectly: a tenth of what is not binding shows (starting value, calibrated on a GPU).
  [[nodiscard]] double total() const {
    double sum = 0, most = 0;
    for (const auto& [name, us] : parts()) {
      sum += us;
      most = std::max(most, us);
    }
    return most + 0.1 * (sum - most);
  }
};

PhaseTime phase_time(const graph::Graph& graph, const search::PhaseProgram& phase, const search::KernelProgram& kernel,
                     const DeviceSpec& device, bool alone) {
  const int resident = std::max(1, search::resident_blocks(kernel, device));
  const double sms = alone ? 1 : device.sm_count;
  const double blocks =
      alone ? 1 : static_cast<double>(std::min<std::int64_t>(kernel.blocks, phase.tiles * kernel.schedule.cluster));
  const double slots = sms * resident;
  // Blocks that run side by side, and how often a full set of them is needed.
  const double tiles = static_cast<double>(phase.tiles) * kernel.schedule.cluster;
  const double concurrent = std::min(blocks, slots);
  const double waves = std::ceil(tiles / std::max(1.0, concurrent));
  const double busy_sms = std::min(sms, concurrent);
  const double quantisation = waves / std::max(1e-9, tiles / std::max(1.0, concurrent));
  const double us_per_cycle = 1e6 / device.clock_hz;

  PhaseTime time;
  double dram = 0, latency = 0, flight = 0, weight = 0;
  for (const search::GroupProgram& group : phase.groups) {
    const GroupFeatures f = group_features(graph, group, kernel.schedule, device);
    dram += f.dram_read_bytes + f.dram_write_bytes;
    time.l2 += f.l2_bytes / (alone ? 64.0 * device.clock_hz : device.l2_bandwidth) * 1e6;
    time.shared += f.shared_bytes / (device.shared_bytes_per_clock * busy_sms) * us_per_cycle;
    time.issue += f.instructions / (4 * busy_sms) * us_per_cycle;
    time.special += f.special_instructions * 32 / (device.special_lanes_per_sm * busy_sms) * us_per_cycle;
    const double share = static_cast<double>(f.tiles) / std::max<double>(1, static_cast<double>(phase.tiles));
    latency += f.latency_cycles * share;
    const double bytes = f.dram_read_bytes + 1;
    flight += f.bytes_in_flight * group.threads * bytes;
    weight += bytes;
  }
  // Little's law: what is in flight on an SM, over the latency of device memory, bounds its bandwidth. Loads are not
  // outstanding all the time within a tile; other blocks fill the gaps where an SM holds more than one. That depends on
  // what an SM can hold, not on how many blocks there are: more work must never be predicted to take less time.
  const double blocks_per_sm = std::min<double>(resident, std::max(1.0, concurrent / sms));
  const double duty = std::min(1.0, 0.6 + 0.2 * (resident - 1));
  const double in_flight = flight / weight * blocks_per_sm * duty;
  const double reachable = device.reachable_bandwidth();
  double bandwidth = std::min(reachable, busy_sms * in_flight * device.clock_hz / device.dram_latency);
  if (in_flight <= 0) bandwidth = reachable;
  if (alone) bandwidth = std::min(bandwidth, 64.0 * device.clock_hz);
  // What fits L2 and was just written comes from there; a cold start is assumed for inputs.
  time.dram = dram / std::max(bandwidth, 1.0) * 1e6;
  time.latency = waves * latency * us_per_cycle;
  for (double* throughput : {&time.l2, &time.shared, &time.issue, &time.special})
    *throughput *= std::min(quantisation, 2.0);
  time.dram *= std::min(quantisation, 1.5);
  // The blocks of a cluster stand in one GPC together, and what is left of its SMs stays idle.
  if (kernel.schedule.cluster > 1) {
    for (double* throughput : {&time.dram, &time.l2, &time.shared, &time.issue, &time.special})
      *throughput *= 1 + cluster_idle_share;
  }
  return time;
}

}  // namespace

double AnalyticalScorer::predict_us(const graph::Graph& graph, const search::KernelProgram& program) const {
  double total = device_.launch_us;
  bool alone = false;
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    if (p > 0) {
      const bool barrier = program.schedule.syncs[p - 1] == search::Sync::barrier;
      if (!alone) total += barrier ? device_.grid_barrier_us : 0.6 * device_.grid_barrier_us;
      alone = alone || !barrier;
    }
    total += phase_time(graph, program.phases[p], program, device_, alone).total();
  }
  // Ramp-up and drain of the grid: the first loads and the last stores meet an empty machine.
  return total + 2 * device_.dram_latency / device_.clock_hz * 1e6;
}

search::Score AnalyticalScorer::explain(const graph::Graph& graph, const search::KernelProgram& program) const {
  search::Score score;
  score.terms.push_back({"launch", device_.launch_us});
  double most = device_.launch_us;
  score.binding = "launch";
  bool alone = false;
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    const std::string prefix = program.phases.size() > 1 ? fmt::format("phase {}: ", p) : "";
    if (p > 0) {
      const bool barrier = program.schedule.syncs[p - 1] == search::Sync::barrier;
      if (!alone)
        score.terms.push_back({barrier ? "grid barrier" : "last block",
                               barrier ? device_.grid_barrier_us : 0.6 * device_.grid_barrier_us});
      alone = alone || !barrier;
    }
    const PhaseTime time = phase_time(graph, program.phases[p], program, device_, alone);
    for (const auto& [name, us] : time.parts()) score.terms.push_back({prefix + name, us});
    if (time.binding().second > most) {
      most = time.binding().second;
      score.binding = prefix + time.binding().first;
    }
  }
  score.terms.push_back({"ramp-up and drain", 2 * device_.dram_latency / device_.clock_hz * 1e6});
  score.us = predict_us(graph, program);
  return score;
}

}  // namespace stitch::costmodel
