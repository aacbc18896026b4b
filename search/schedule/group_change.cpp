#include "search/schedule/group_change.h"

#include <algorithm>
#include <utility>

#include "kernel/program/group_deriver.h"

namespace stitch::search {
namespace {

/// Partial results of a reduction that the kernel's groups have left.
std::int64_t partials_of(const kernel::KernelProgram& kernel, graph::NodeId reduction) {
  for (const kernel::PhaseProgram& phase : kernel.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      for (const kernel::ReductionPlan& plan : group.reductions) {
        const kernel::Anchor& anchor = group.structure.anchors[plan.anchor];
        if (anchor.kind == kernel::Anchor::Kind::partial && anchor.node == reduction) return plan.partials;
      }
    }
  }
  return 1;
}

/// What a kernel takes, of what its groups do.
void count_resources(kernel::KernelProgram& kernel) {
  kernel.registers = 0;
  for (const kernel::PhaseProgram& phase : kernel.phases) {
    for (const kernel::GroupProgram& group : phase.groups)
      kernel.registers = std::max(kernel.registers, group.registers);
  }
  if (kernel.schedule.retained == 0) kernel.shared_bytes = kernel.held_bytes() + 2 * kernel.exchange_bytes();
}

}  // namespace

Result<kernel::KernelProgram> with_mapping(const kernel::KernelProgram& kernel, std::size_t phase, std::size_t group,
                                           kernel::GroupMapping mapping) {
  const kernel::GroupStructure& structure = kernel.phases[phase].groups[group].structure;
  const std::int64_t partials = structure.partial_of >= 0 ? partials_of(kernel, structure.partial_of) : 1;
  STITCH_ASSIGN(kernel::GroupProgram derived, kernel::derive_group(structure, mapping, kernel.schedule, partials));
  kernel::KernelProgram changed = kernel;
  changed.phases[phase].groups[group] = std::move(derived);
  changed.schedule.phases[phase][group] = std::move(mapping);
  count_resources(changed);
  return changed;
}

}  // namespace stitch::search
