#include "costmodel/kernel_quantities.h"

#include <algorithm>

#include "search/legality.h"

namespace stitch::costmodel {

KernelQuantities kernel_quantities(const graph::Graph& graph, const search::KernelProgram& program,
                                   const DeviceSpec& device) {
  KernelQuantities kernel;
  kernel.blocks = program.blocks;
  kernel.cluster = program.schedule.cluster;
  kernel.threads = program.schedule.threads;
  kernel.resident = std::max(1, search::resident_blocks(program, device));
  kernel.phases.reserve(program.phases.size());
  bool alone = false;
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    PhaseQuantities& phase = kernel.phases.emplace_back();
    phase.tiles = program.phases[p].tiles;
    if (p > 0) {
      const bool barrier = program.schedule.syncs[p - 1] == search::Sync::barrier;
      phase.entry = alone ? PhaseEntry::same_block : barrier ? PhaseEntry::barrier : PhaseEntry::last_block;
      alone = alone || !barrier;
    }
    phase.groups.reserve(program.phases[p].groups.size());
    for (const search::GroupProgram& group : program.phases[p].groups)
      phase.groups.push_back(group_features(graph, group, program.schedule, device));
  }
  return kernel;
}

}  // namespace stitch::costmodel
