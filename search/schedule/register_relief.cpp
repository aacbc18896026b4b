#include "search/schedule/register_relief.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/retention.h"
#include "search/schedule/group_change.h"
#include "search/schedule/thread_layout.h"

namespace stitch::search {
namespace {

/// What is given up for registers.
struct Relief {
  bool hoisting = false;
  bool turn_ahead = false;
  bool half_of_blocks = false;
};
constexpr unsigned all_reliefs = 8;

Relief relief_of(unsigned bits) { return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0}; }

/// Whether a thread has registers from turn to turn besides those of its sums: what is hoisted, and what it writes
/// under the guard of a tail alone.
bool keeps_over_turns(const kernel::GroupProgram& group) {
  if (group.outer_loops.empty()) return false;
  bool has_tail = false;
  for (std::size_t a = 0; a < group.extents.size(); ++a)
    has_tail = has_tail || group.mapping.axes[a].covered() > group.extents[a];
  return has_tail || !group.hoisted.empty();
}

bool has_turn_ahead(const kernel::GroupProgram& group) {
  return group.mapping.stages > 1 && !group.mapping.shared_stages;
}

/// The mapping of a group without what is given up; the group's own where it has nothing of the kind.
kernel::GroupMapping without(const kernel::GroupProgram& group, const Relief& relief) {
  kernel::GroupMapping mapping = group.mapping;
  if (relief.hoisting && keeps_over_turns(group)) mapping.hoists = false;
  if (relief.turn_ahead && has_turn_ahead(group)) mapping.stages = 1;
  return mapping;
}

/// Whether the kernel has all that would be given up: else another relief does the same.
bool has_all(const kernel::KernelProgram& kernel, const Relief& relief, const DeviceSpec& device) {
  const auto any_group = [&](auto&& is) {
    return std::ranges::any_of(
        kernel.phases, [&](const kernel::PhaseProgram& phase) { return std::ranges::any_of(phase.groups, is); });
  };
  if (relief.hoisting && !any_group(keeps_over_turns)) return false;
  if (relief.turn_ahead && !any_group(has_turn_ahead)) return false;
  return !relief.half_of_blocks || (kernel.blocks_wait() && kernel.blocks > device.sm_count);
}

/// Launches half as many blocks on every SM.
void halve_blocks(kernel::KernelProgram& kernel, const DeviceSpec& device) {
  const std::int64_t per_sm = divide_up(kernel.blocks, std::int64_t{device.sm_count}) / 2;
  kernel::synchronise(kernel, kernel.schedule.syncs, per_sm * device.sm_count / kernel.schedule.cluster);
}

std::optional<kernel::KernelProgram> relieved(const kernel::KernelProgram& kernel, const Relief& relief,
                                              const DeviceSpec& device) {
  kernel::KernelProgram changed = kernel;
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    for (std::size_t g = 0; g < kernel.phases[p].groups.size(); ++g) {
      kernel::GroupMapping mapping = without(kernel.phases[p].groups[g], relief);
      if (mapping == kernel.phases[p].groups[g].mapping) continue;
      Result<kernel::KernelProgram> next = with_mapping(changed, p, g, std::move(mapping));
      if (!next) return std::nullopt;
      changed = *std::move(next);
    }
  }
  if (relief.half_of_blocks) halve_blocks(changed, device);
  if (kernel.schedule.retained > 0) {
    kernel::retain(changed, kernel::room_to_retain(changed, device));
    changed.schedule.retained = changed.retained_bytes();
  }
  if (!kernel::check_legality(changed, device)) return std::nullopt;
  return changed;
}

}  // namespace

std::vector<kernel::KernelProgram> with_register_relief(const kernel::KernelProgram& kernel, const DeviceSpec& device) {
  std::vector<kernel::KernelProgram> all;
  if (kernel.recurrent != nullptr) return all;
  for (unsigned bits = 1; bits < all_reliefs; ++bits) {
    const Relief relief = relief_of(bits);
    if (!has_all(kernel, relief, device)) continue;
    if (auto changed = relieved(kernel, relief, device)) all.push_back(*std::move(changed));
  }
  return all;
}

}  // namespace stitch::search
