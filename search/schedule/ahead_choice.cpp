#include "search/schedule/ahead_choice.h"

#include <algorithm>
#include <array>
#include <utility>

#include "search/schedule/group_change.h"

namespace stitch::search {
namespace {

constexpr std::size_t most_groups = 8;
constexpr double clearly = 0.99;  ///< of what it took before

/// Where loads are made ahead, and how many turns: simplest first.
struct AheadStages {
  int count = 2;
  bool shared = false;
  bool bulk = false;
};
constexpr std::array<AheadStages, 7> all_stages = {
    {{2, false}, {2, true}, {2, true, true}, {3, true}, {3, true, true}, {4, true}, {4, true, true}}};

/// Whether a loop of the group has turns to look ahead to.
bool loops(const kernel::GroupProgram& group) {
  return group.mapping.stages == 1 && group.retained.empty() && !group.structure.anchors[0].has_own_loops() &&
         group.turns(group.outer_loops | group.inner_loops) > 1;
}

}  // namespace

bool has_loops(const kernel::KernelProgram& kernel) {
  std::size_t groups = 0;
  bool any = false;
  for (const kernel::PhaseProgram& phase : kernel.phases) {
    groups += phase.groups.size();
    any = any || std::ranges::any_of(phase.groups, loops);
  }
  return any && kernel.recurrent == nullptr && groups <= most_groups;
}

std::optional<kernel::KernelProgram> with_loads_ahead(
    const kernel::KernelProgram& kernel, double us,
    const std::function<std::optional<double>(const kernel::KernelProgram&)>& predict_us) {
  if (!has_loops(kernel)) return std::nullopt;
  std::optional<kernel::KernelProgram> best;
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    for (std::size_t g = 0; g < kernel.phases[p].groups.size(); ++g) {
      const kernel::GroupProgram& group = kernel.phases[p].groups[g];
      if (!loops(group)) continue;
      for (const AheadStages stages : all_stages) {
        // What phases hand on in shared memory lies behind the stages, in all that there is.
        if (stages.shared && kernel.schedule.retained > 0) break;
        kernel::GroupMapping mapping = group.mapping;
        mapping.stages = stages.count;
        mapping.shared_stages = stages.shared;
        mapping.bulk_stages = stages.bulk;
        Result<kernel::KernelProgram> changed = with_mapping(best ? *best : kernel, p, g, std::move(mapping));
        if (!changed && stages.shared && !stages.bulk)
          break;  // nothing to copy whose address the turn tells, or too few turns
        if (!changed) continue;
        const std::optional<double> changed_us = predict_us(*changed);
        if (!changed_us && stages.shared && !stages.bulk) break;  // more stages take more shared memory
        if (!changed_us || *changed_us > us * clearly) continue;
        us = *changed_us;
        best = *std::move(changed);
      }
    }
  }
  return best;
}

}  // namespace stitch::search
