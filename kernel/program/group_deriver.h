#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "kernel/program/access.h"
#include "kernel/program/program.h"
#include "kernel/program/sweep_division.h"
#include "kernel/structure/item_flow.h"

namespace stitch::kernel {

/// Applies one mapping to one group. `schedule` gives the block's threads and the cluster; `partials` is the number of
/// partial results of the phase before, for a group that finishes them.
Result<GroupProgram> derive_group(const GroupStructure& structure, const GroupMapping& mapping,
                                  const Schedule& schedule, std::int64_t partials);

/// A group under many mappings: what several of them share is worked out once. Not for several threads at once.
class GroupDeriver {
 public:
  explicit GroupDeriver(GroupStructure structure);

  /// As derive_group. The result takes the structure along; give it back before the next one is derived.
  Result<GroupProgram> derive(const GroupMapping& mapping, const Schedule& schedule, std::int64_t partials);
  void give_back(GroupProgram&& group) { structure_ = std::move(group.structure); }

  [[nodiscard]] const GroupStructure& structure() const { return structure_; }

 private:
  friend class GroupDerivation;

  GroupStructure structure_;
  ItemFlow flow_;
  std::map<std::tuple<Hold, AxisSet, std::vector<ItemId>>, SweepDivision> divisions_;  ///< by hold, varying, hoisted
  std::map<std::tuple<int, std::int64_t, bool>, GroupAccesses> accesses_;       ///< by vector axis, its extent, shifted
  std::map<std::pair<int, std::int64_t>, std::optional<Misalignment>> shifts_;  ///< by vector axis and its extent
};

}  // namespace stitch::kernel
