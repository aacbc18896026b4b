#include "kernel/program/program_builder.h"

#include <algorithm>
#include <map>
#include <span>

#include "kernel/program/group_deriver.h"
#include "kernel/program/retention.h"

namespace stitch::kernel {
namespace {

using graph::NodeId;

std::int64_t launched_blocks(const KernelProgram& kernel) {
  return (kernel.schedule.blocks > 0 ? kernel.schedule.blocks : kernel.phases[0].tiles) * kernel.schedule.cluster;
}

}  // namespace

KernelProgram join_groups(const KernelStructure& structure, const Schedule& schedule,
                          std::vector<std::vector<GroupProgram>> groups) {
  KernelProgram kernel;
  kernel.schedule = schedule;
  kernel.scratch = structure.scratch;
  kernel.partial_count.assign(structure.scratch.size(), 1);
  for (std::vector<GroupProgram>& of_phase : groups) {
    PhaseProgram& phase = kernel.phases.emplace_back();
    if (kernel.phases.size() <= structure.phases.size()) {  // tests join groups of none
      const PhaseStructure& walked = structure.phases[kernel.phases.size() - 1];
      phase.backwards = walked.backwards;
      phase.rereads = walked.rereads;
      phase.passing = walked.passing;
    }
    phase.groups = std::move(of_phase);
    for (const GroupProgram& group : phase.groups) {
      for (const ReductionPlan& plan : group.reductions) {
        const Anchor& anchor = group.structure.anchors[plan.anchor];
        if (anchor.kind != Anchor::Kind::partial) continue;
        for (const Buffer& buffer : anchor.buffers) kernel.partial_count[buffer.number] = plan.partials;
      }
      phase.tiles += group.tiles;
      kernel.registers = std::max(kernel.registers, group.registers);
    }
  }
  kernel.shared_bytes = kernel.held_bytes() + 2 * kernel.exchange_bytes();
  kernel.blocks = launched_blocks(kernel);
  return kernel;
}

void synchronise(KernelProgram& kernel, std::vector<Sync> syncs, std::int64_t blocks) {
  kernel.schedule.syncs = std::move(syncs);
  kernel.schedule.blocks = blocks;
  kernel.blocks = launched_blocks(kernel);
}

void make_recurrent(KernelProgram& kernel, std::shared_ptr<const RecurrentStep> step) {
  kernel.recurrent = std::move(step);
  kernel.schedule.rows = kernel.recurrent->rows;
  synchronise(kernel, std::vector<Sync>(kernel.phases.size() - 1, Sync::block), kernel.recurrent->blocks);
  kernel.shared_bytes = resident_offset(kernel) + resident_layout(kernel).bytes;
  // What one group keeps from turn to turn is kept while the others run.
  std::int64_t lasting = 0, most = 0;
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) {
      lasting += group.hoisted_registers;
      most = std::max(most, group.registers - group.hoisted_registers);
    }
  }
  kernel.registers = std::min<std::int64_t>(most + lasting, 1 << 16);
}

Result<KernelProgram> derive_program(const graph::Graph&, const KernelStructure& structure, const Schedule& schedule) {
  if (schedule.phases.size() != structure.phases.size() || schedule.syncs.size() + 1 < structure.phases.size()) {
    return make_error(ErrorKind::constraint, "the schedule has {} phases, the kernel {}", schedule.phases.size(),
                      structure.phases.size());
  }
  for (std::size_t i = 0; i < schedule.syncs.size(); ++i) {
    const bool closed = i > 0 && schedule.syncs[i - 1] == Sync::gate, last = i + 1 == schedule.syncs.size();
    const Sync sync = schedule.syncs[i];
    const bool waits = sync == Sync::gate || sync == Sync::open;
    if (waits && std::ranges::count(std::span(schedule.syncs).first(i), Sync::last_block) > 0)
      return make_error(ErrorKind::constraint, "'{}' where the other blocks have left", to_string(sync));
    if (sync == Sync::last_block && schedule.cluster > 1)
      return make_error(ErrorKind::constraint, "one block of a cluster would go on without the others");
    if (waits && schedule.cluster > 1)
      return make_error(ErrorKind::constraint, "one block of a cluster would wait at a gate, the other within it");
    if (sync == Sync::open ? !closed : closed && sync != Sync::gate)
      return make_error(ErrorKind::constraint, "'{}' follows {}", to_string(sync),
                        i == 0 ? "the launch" : fmt::format("'{}'", to_string(schedule.syncs[i - 1])));
    if (sync == Sync::gate && last) return make_error(ErrorKind::constraint, "a gate that nobody opens");
  }
  std::map<NodeId, std::int64_t> partials;
  std::vector<std::vector<GroupProgram>> groups(structure.phases.size());
  for (std::size_t p = 0; p < structure.phases.size(); ++p) {
    if (schedule.phases[p].size() != structure.phases[p].groups.size()) {
      return make_error(ErrorKind::constraint, "phase {} has {} mappings for {} groups", p, schedule.phases[p].size(),
                        structure.phases[p].groups.size());
    }
    for (std::size_t g = 0; g < structure.phases[p].groups.size(); ++g) {
      const GroupStructure& group_structure = structure.phases[p].groups[g];
      const std::int64_t count = group_structure.partial_of >= 0 ? partials.at(group_structure.partial_of) : 1;
      Result<GroupProgram> group = derive_group(group_structure, schedule.phases[p][g], schedule, count);
      if (!group) return group.error().within(fmt::format("phase {} group {}", p, g));
      for (const ReductionPlan& plan : group->reductions) {
        const Anchor& anchor = group_structure.anchors[plan.anchor];
        if (anchor.kind == Anchor::Kind::partial) partials[anchor.node] = plan.partials;
      }
      groups[p].push_back(std::move(*group));
    }
  }
  KernelProgram kernel = join_groups(structure, schedule, std::move(groups));
  if (schedule.retained > 0) retain(kernel, schedule.retained);
  return kernel;
}

}  // namespace stitch::kernel
