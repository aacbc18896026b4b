#include "codegen/group_scope.h"

namespace stitch::codegen {

using kernel::ItemId;

namespace {

std::map<ItemId, const kernel::HeldItem*> held_by_item(const kernel::GroupProgram& group) {
  std::map<ItemId, const kernel::HeldItem*> held;
  for (const kernel::HeldItem& each : group.held) held[each.item] = &each;
  return held;
}

/// Whether what an item is made of decides how it is rounded, as far as it is rounded.
bool hands_rounding_on(graph::Op op) {
  switch (op) {
    case graph::Op::divide:
    case graph::Op::convert:
    case graph::Op::negate:
    case graph::Op::abs:
    case graph::Op::add:
    case graph::Op::subtract:
    case graph::Op::multiply:
    case graph::Op::maximum:
    case graph::Op::minimum:
    case graph::Op::clamp:
    case graph::Op::select: return true;
    default: return false;
  }
}

/// A quotient on its way to being rounded to an integer must be the correctly rounded one: quantisation meets exact
/// halves (2.5 from 5 / 2), and an ulp decides where they go.
std::set<ItemId> quotients_to_round(const kernel::ScalarProgram& program) {
  std::set<ItemId> quotients;
  std::vector<bool> rounded(program.items().size(), false);
  for (ItemId id = std::ssize(rounded); id-- > 0;) {
    const kernel::Item& item = program.at(id);
    if (item.kind != kernel::Item::Kind::compute || item.origin.node < 0) continue;
    if (item.op == graph::Op::divide && rounded[id]) quotients.insert(id);
    const bool rounds = graph::rounds_to_integer(item.op, item.dtype);
    rounded[id] = rounds || (rounded[id] && hands_rounding_on(item.op));
    for (const ItemId operand : item.operands) {
      if (rounded[id] && graph::is_floating(program.at(operand).dtype)) rounded[operand] = true;
    }
  }
  return quotients;
}

}  // namespace

GroupScope::GroupScope(const graph::Graph& computed, const kernel::GroupProgram& printed,
                       const kernel::Schedule& of_kernel, const GroupFrame& around)
    : graph(computed),
      group(printed),
      program(*printed.structure.program),
      schedule(of_kernel),
      frame(around),
      pointers(graph, group.structure, frame.overlapping),
      held(held_by_item(group)),
      rounded_quotients(quotients_to_round(program)) {}

const kernel::HeldItem* GroupScope::held_in_shared(ItemId id) const {
  const auto found = held.find(id);
  return found != held.end() && found->second->place == kernel::Hold::shared ? found->second : nullptr;
}

}  // namespace stitch::codegen
