#include "kernel/program/unwaited_loads.h"

#include <algorithm>

#include "kernel/program/residence.h"
#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// Whether the kernel's wait stands in the code of a group, where the group's threads know their places.
bool waits_in_group(const KernelProgram& program) {
  const bool one = program.phases.size() == 1 && program.phases[0].groups.size() == 1;
  return one && !program.is_looped(0) && !Residence(program).takes_turns();
}

bool is_loaded_once(const GroupProgram& group, ItemId id) {
  std::ptrdiff_t times = 0;
  for (const Sweep& sweep : group.sweeps)
    times += std::ranges::count(sweep.body, id) + std::ranges::count(sweep.uniform, id);
  return times == 1;
}

/// Whether the first sweep loads it at once, into registers.
bool is_first(const GroupProgram& group, ItemId id) {
  if (!group.outer_loops.empty() || group.sweeps.empty() || !is_loaded_once(group, id)) return false;
  if (group.structure.program->at(id).axes.meets(group.inner_loops) || group.retention(id) != nullptr) return false;
  const Sweep& first = group.sweeps.front();
  if (std::ranges::count(first.copied, id) > 0) return false;
  return std::ranges::count(first.early, id) + std::ranges::count(first.uniform, id) > 0;
}

}  // namespace

std::vector<ItemId> unwaited_loads(const KernelProgram& program, UnwaitedInputs inputs) {
  std::vector<ItemId> loads;
  if (inputs == 0 || !waits_in_group(program)) return loads;
  const GroupProgram& group = program.phases[0].groups[0];
  if (group.shift || group.structure.anchors[0].has_own_loops()) return loads;
  const ScalarProgram& items = *group.structure.program;
  for (const ItemId id : items.item_ids()) {
    const Item& item = items.at(id);
    if (item.kind != Item::Kind::load || !is_unwaited(inputs, item.buffer) || item.guard >= 0) continue;
    if (!items.items_of(item.index).empty()) continue;
    if (std::ranges::count(group.hoisted, id) > 0 || is_first(group, id)) loads.push_back(id);
  }
  return loads;
}

}  // namespace stitch::kernel
