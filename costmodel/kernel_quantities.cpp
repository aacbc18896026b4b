#include "costmodel/kernel_quantities.h"

#include <algorithm>

#include "kernel/program/legality.h"
#include "kernel/program/slab_choice.h"

namespace stitch::costmodel {

namespace {

/// Makes what one block does in one turn what all blocks do in all turns.
void repeat(GroupFeatures& f, const kernel::RecurrentStep& step) {
  const double turns = step.turns;
  const double times = turns * step.blocks;
  for (double* amount :
       {&f.dram_read_bytes, &f.dram_write_bytes, &f.sector_bytes, &f.l2_bytes, &f.shared_bytes, &f.instructions,
        &f.special_instructions, &f.integer_instructions, &f.f64_instructions, &f.tensor_multiply_adds,
        &f.requested_bytes, &f.load_requests, &f.load_lane_bytes, &f.store_requests, &f.store_lane_bytes,
        &f.dynamic_requests, &f.wide_instructions, &f.index_instructions, &f.exchange_instructions})
    *amount *= times;
  for (double* amount : {&f.latency_cycles, &f.barriers, &f.cluster_barriers, &f.iterations}) *amount *= turns;
  f.serial_cycles = 0;  // the chain of all turns is in series as it is
  f.tiles = step.blocks;
}

PhaseEntry entry_of(const kernel::KernelProgram& program, std::size_t phase) {
  const kernel::Sync sync = program.schedule.syncs[phase - 1];
  if (sync == kernel::Sync::open) return PhaseEntry::open;
  if (program.runs_alone(phase - 1)) return PhaseEntry::same_block;
  if (sync == kernel::Sync::gate) return PhaseEntry::gate;
  return sync == kernel::Sync::barrier ? PhaseEntry::barrier : PhaseEntry::last_block;
}

}  // namespace

double PhaseQuantities::bytes() const {
  double bytes = 0;
  for (const GroupFeatures& group : groups) bytes += group.dram_read_bytes + group.dram_write_bytes;
  return bytes;
}

double PhaseQuantities::found_in_l2(double kept) const {
  double found = 0;
  for (const Reread& again : rereads) {
    const double around = std::max(again.around, 1.0), left = kept - again.between;
    if (left >= around)
      found += again.bytes;
    else if (again.opposite)
      found += again.bytes * std::clamp((left - again.front) / around, 0.0, 1.0);
  }
  return found;
}

namespace {

/// Share of what a group touches that its tiles are at together: iterations of their outermost loop, if they walk
/// along it side by side.
double together(const kernel::GroupProgram& group) {
  double share = 1;
  for (const kernel::AxisMapping& axis : group.mapping.axes) {
    const std::int64_t turns = axis.at(kernel::Level::loop);
    if (turns > 1 && !axis.interleaved) break;
    share /= turns;
    if (axis.covered() > turns) break;
  }
  return share;
}

/// Share of what a phase touches that its blocks are at together.
double together(const kernel::KernelProgram& program, std::size_t phase) {
  const kernel::PhaseProgram& p = program.phases[phase];
  if (program.is_looped(phase)) {
    const auto takers = program.runs_alone(phase) ? 1.0 : program.clusters();
    return takers / p.tiles;
  }
  double share = 0;
  for (const kernel::GroupProgram& group : p.groups) share = std::max(share, together(group));
  return share;
}

/// The last phase before `phase` that loads an input; -1: none.
int last_loaded(const kernel::KernelProgram& program, std::size_t phase, const kernel::Buffer& input) {
  const auto loads = [&](const kernel::GroupProgram& group) {
    return std::ranges::any_of(group.structure.program->items(), [&](const kernel::Item& item) {
      return item.kind == kernel::Item::Kind::load && item.buffer == input;
    });
  };
  for (std::size_t p = phase; p-- > 0;) {
    if (std::ranges::any_of(program.phases[p].groups, loads)) return p;
  }
  return -1;
}

/// Bytes that a phase finds in shared memory of what `earlier` was the last to load.
double found_on_chip(const kernel::KernelProgram& program, std::size_t phase, int earlier) {
  double bytes = 0;
  for (const kernel::GroupProgram& group : program.phases[phase].groups) {
    const kernel::ScalarProgram& scalars = *group.structure.program;
    for (const kernel::RetainedLoad& load : group.retained) {
      const kernel::Item& item = scalars.at(load.item);
      if (!load.fills && last_loaded(program, phase, item.buffer) == earlier)
        bytes += load.share * scalars.loaded_bytes(item);
    }
  }
  return bytes;
}

/// Bytes that a phase leaves in shared memory for later ones.
double left_on_chip(const kernel::KernelProgram& program, std::size_t phase) {
  double bytes = 0;
  for (const kernel::GroupProgram& group : program.phases[phase].groups) {
    const kernel::ScalarProgram& scalars = *group.structure.program;
    for (const kernel::RetainedLoad& load : group.retained)
      bytes += load.fills ? load.share * scalars.loaded_bytes(scalars.at(load.item)) : 0;
  }
  return bytes;
}

/// Amounts are those of a slab.
void count_rereads(KernelQuantities& kernel, const kernel::KernelProgram& program) {
  std::vector<double> bytes, front;
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    // What passes L2 by takes no place there.
    const double passing = program.phases[p].passing.bytes / kernel.slabs;
    bytes.push_back(std::max(0.0, kernel.phases[p].bytes() - passing));
    front.push_back(bytes.back() * together(program, p));
  }
  for (std::size_t p = 1; p < kernel.phases.size(); ++p) {
    double read = 0;
    for (const GroupFeatures& group : kernel.phases[p].groups) read += group.dram_read_bytes;
    for (const kernel::Reread& again : program.phases[p].rereads) {
      const std::size_t earlier = again.phase;
      PhaseQuantities::Reread& counted = kernel.phases[p].rereads.emplace_back();
      const double all = again.bytes - found_on_chip(program, p, again.phase);
      counted.bytes = std::clamp(all / kernel.slabs, 0.0, read);
      for (std::size_t q = earlier + 1; q < p; ++q) counted.between += bytes[q];
      counted.around = bytes[earlier] - left_on_chip(program, earlier) / kernel.slabs + bytes[p] - counted.bytes;
      counted.front = std::max(front[earlier], front[p]);
      counted.opposite = program.phases[p].backwards != program.phases[earlier].backwards;
    }
  }
}

}  // namespace

KernelQuantities kernel_quantities(const graph::Graph& graph, const kernel::KernelProgram& program,
                                   const DeviceSpec& device) {
  KernelQuantities kernel;
  kernel.blocks = program.blocks;
  kernel.cluster = program.schedule.cluster;
  kernel.threads = program.schedule.threads;
  kernel.resident = std::max(1, kernel::resident_blocks(program, device));
  if (const kernel::Slabs& slabs = program.schedule.slabs; slabs.count > 1) {
    kernel.slabs = slabs.count;
    kernel.run_bytes = kernel::slab_run_bytes(graph, slabs);
  }
  if (program.recurrent != nullptr) kernel.turns = program.recurrent->turns;
  kernel.phases.reserve(program.phases.size());
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    PhaseQuantities& phase = kernel.phases.emplace_back();
    phase.tiles = program.phases[p].tiles;
    if (p > 0 && program.recurrent != nullptr) {
      phase.entry = PhaseEntry::each_block;
    } else if (p > 0) {
      phase.entry = entry_of(program, p);
    }
    phase.groups.reserve(program.phases[p].groups.size());
    for (const kernel::GroupProgram& group : program.phases[p].groups)
      phase.groups.push_back(group_features(graph, group, program, device));
    if (program.recurrent == nullptr) continue;
    phase.tiles = program.recurrent->blocks;
    for (GroupFeatures& group : phase.groups) repeat(group, *program.recurrent);
  }
  if (program.recurrent == nullptr) count_rereads(kernel, program);
  return kernel;
}

}  // namespace stitch::costmodel
