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

/// The sweep that loads an item, into registers and at once; -1: several do, or none does so.
int loading_sweep(const GroupProgram& group, ItemId id) {
  if (group.structure.program->at(id).axes.meets(group.inner_loops) || group.retention(id) != nullptr) return -1;
  int found = -1;
  std::ptrdiff_t times = 0;
  for (int number = 0; number < std::ssize(group.sweeps); ++number) {
    const Sweep& sweep = group.sweeps[number];
    times += std::ranges::count(sweep.body, id) + std::ranges::count(sweep.uniform, id);
    const bool at_once = std::ranges::count(sweep.early, id) + std::ranges::count(sweep.uniform, id) > 0;
    if (at_once && std::ranges::count(sweep.copied, id) == 0) found = number;
  }
  return times == 1 ? found : -1;
}

}  // namespace

std::vector<ItemId> unwaited_loads(const KernelProgram& program, UnwaitedInputs inputs) {
  std::vector<ItemId> loads;
  if (inputs == 0 || !waits_in_group(program)) return loads;
  const GroupProgram& group = program.phases[0].groups[0];
  if (group.shift || !group.outer_loops.empty() || group.structure.anchors[0].has_own_loops()) return loads;
  std::int64_t budget = 32;  // registers that are held longer for it: until a later sweep
  const ScalarProgram& items = *group.structure.program;
  for (const ItemId id : items.item_ids()) {
    const Item& item = items.at(id);
    if (item.kind != Item::Kind::load || !is_unwaited(inputs, item.buffer) || item.guard >= 0) continue;
    if (!items.items_of(item.index).empty()) continue;
    const int sweep = loading_sweep(group, id);
    const std::int64_t registers = (group.register_elements(item.axes) * held_bytes(item) + 3) / 4;
    if (sweep < 0 || (sweep > 0 && registers > budget)) continue;
    if (sweep > 0) budget -= registers;
    loads.push_back(id);
  }
  return loads;
}

}  // namespace stitch::kernel
