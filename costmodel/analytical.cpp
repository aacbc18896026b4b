#include "costmodel/analytical.h"

#include <algorithm>

#include "costmodel/phase_time.h"

namespace stitch::costmodel {
namespace {

/// Whether all blocks of a kernel wait for one another, so that it is launched cooperatively.
bool is_cooperative(const KernelQuantities& kernel) {
  for (const PhaseQuantities& phase : kernel.phases) {
    if (phase.entry == PhaseEntry::barrier || phase.entry == PhaseEntry::gate || phase.entry == PhaseEntry::open)
      return true;
  }
  return false;
}

/// What a launch takes beyond a plain one, µs: one whose blocks must all be there at once, and one in clusters.
double special_launch_us(const KernelQuantities& kernel, const AnalyticalConstants& constants) {
  return (is_cooperative(kernel) ? constants.cooperative_launch_us : 0) +
         (kernel.cluster > 1 ? constants.cluster_launch_us : 0);
}

/// What stands before a phase, µs; none before the first, and none where one block is left anyway. Blocks arrive at a
/// barrier one after the other, so that it takes longer the more an SM has.
double entry_us(PhaseEntry entry, const KernelQuantities& kernel, const DeviceSpec& device,
                const AnalyticalConstants& constants) {
  const double blocks = static_cast<double>(kernel.blocks) / device.sm_count;
  const double arrivals = 1 + constants.barrier_of_block * std::max(0.0, blocks - 1);
  const double barrier = device.grid_barrier_us * constants.barrier;
  switch (entry) {
    case PhaseEntry::barrier: return barrier * arrivals;
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
    slab += entry_us(phase.entry, kernel, device, constants);
    slab += phase_time(phase, kernel, device, constants).total(constants.overlap);
  }
  return device.launch_us * constants.launch + special_launch_us(kernel, constants) +
         kernel.slabs * (slab + ramp_us(device, constants));
}

search::Score explain_analytical(const KernelQuantities& kernel, const DeviceSpec& device,
                                 const AnalyticalConstants& constants) {
  search::Score score;
  double most = device.launch_us * constants.launch;
  score.terms.push_back({"launch", most});
  score.binding = "launch";
  if (const double more = special_launch_us(kernel, constants); more > 0)
    score.terms.push_back({kernel.cluster > 1 ? "launch of clusters" : "cooperative launch", more});
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    const PhaseQuantities& phase = kernel.phases[p];
    const std::string prefix = kernel.phases.size() > 1 ? fmt::format("phase {}: ", p) : "";
    if (const std::string_view name = name_of(phase.entry); !name.empty())
      score.terms.push_back({std::string(name), kernel.slabs * entry_us(phase.entry, kernel, device, constants)});
    const PhaseTime time = phase_time(phase, kernel, device, constants);
    for (const auto& [name, us] : time.parts()) {
      if (us > 0)
        score.terms.push_back({prefix + name, kernel.slabs * us});  // most kernels have no use for some of the units
    }
    if (time.serial > 0) score.terms.push_back({prefix + "in series", kernel.slabs * time.serial});
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
