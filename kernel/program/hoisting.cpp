#include "kernel/program/hoisting.h"

#include <algorithm>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// Loads that every turn of a recurrent kernel would make anew, of its weights: made before the first one, where a
/// thread has registers for all that it needs of a tensor.
std::vector<ItemId> choose_lasting(const GroupStructure& structure, const GroupProgram& group, int threads) {
  std::vector<ItemId> lasting;
  if (structure.anchors[0].has_own_loops()) return lasting;
  constexpr std::int64_t most = 255, for_the_rest = 80, of_an_sm = 65536;  // registers
  std::int64_t budget = std::min(most, of_an_sm / threads) - for_the_rest;
  const ScalarProgram& program = *structure.program;
  for (const ItemId id : program.item_ids()) {
    const Item& item = program.at(id);
    if (item.kind != Item::Kind::load || item.guard >= 0 || item.buffer.kind != Buffer::Kind::input) continue;
    if (!structure.lasting_inputs.contains(item.buffer.number) || !program.items_of(item.index).empty()) continue;
    const std::int64_t cost = (group.elements_per_thread(item.axes) * held_bytes(item) + 3) / 4;
    if (group.turns(item.axes) > 1 || cost > budget) continue;
    budget -= cost;
    lasting.push_back(id);
  }
  return lasting;
}

}  // namespace

std::vector<ItemId> choose_hoisted(const GroupStructure& structure, const GroupProgram& group,
                                   const Schedule& schedule) {
  if (schedule.rows > 0) return choose_lasting(structure, group, schedule.threads);
  std::vector<ItemId> hoisted;
  if (!group.mapping.hoists || group.outer_loops.empty() || !group.inner_loops.empty()) return hoisted;
  constexpr std::int64_t most_elements = 64;
  std::int64_t budget = 48;  // registers
  const ScalarProgram& program = *structure.program;
  for (const ItemId id : program.item_ids()) {
    const Item& item = program.at(id);
    if (item.kind != Item::Kind::load || item.guard >= 0 || item.axes.meets(group.outer_loops)) continue;
    if (!program.items_of(item.index).empty()) continue;
    // An element's thread changes from row to row.
    if (group.shift && item.axes.contains(group.mapping.vector_axis)) continue;
    const std::int64_t elements = group.elements_per_thread(item.axes), cost = elements * held_bytes(item) / 4;
    if (cost > budget || elements > most_elements) continue;
    budget -= cost;
    hoisted.push_back(id);
  }
  return hoisted;
}

}  // namespace stitch::kernel
