#include "kernel/program/loads_ahead.h"

#include <algorithm>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// The loop that opens last of those over `axes`; -1: there is none of several turns.
int innermost(const GroupProgram& group, AxisSet axes) {
  int last = -1;
  for (const int a : axes) last = a;
  return last >= 0 && group.extent(last, Level::loop) > 1 ? last : -1;
}

/// Whether an item can be loaded when only the turn of the loop over `axis` is known.
bool is_known_ahead(const ScalarProgram& program, ItemId id, int axis) {
  const Item& item = program.at(id);
  const bool there = item.buffer.kind == Buffer::Kind::input || item.buffer.kind == Buffer::Kind::scratch;
  return item.kind == Item::Kind::load && there && item.guard < 0 && item.axes.contains(axis) &&
         program.items_of(item.index).empty();
}

/// How many sweeps load an item.
std::ptrdiff_t times_loaded(const GroupProgram& group, ItemId id) {
  std::ptrdiff_t times = 0;
  for (const Sweep& sweep : group.sweeps)
    times += std::ranges::count(sweep.body, id) + std::ranges::count(sweep.uniform, id);
  return times;
}

void choose_outer(const ScalarProgram& program, GroupProgram& group) {
  group.ahead.axis = innermost(group, group.outer_loops);
  if (group.ahead.axis < 0) return;
  const auto consider = [&](ItemId id) {
    // What several sweeps load anew has no registers to stay in.
    if (is_known_ahead(program, id, group.ahead.axis) && times_loaded(group, id) == 1) group.ahead.loads.push_back(id);
  };
  for (const Sweep& sweep : group.sweeps) {
    for (const ItemId id : sweep.uniform) consider(id);
    for (const ItemId id : sweep.early) consider(id);
  }
}

void choose_inner(const GroupStructure& structure, const GroupProgram& group, Sweep& sweep) {
  const ScalarProgram& program = *structure.program;
  AxisSet axes;
  for (const ItemId id : sweep.body) {
    if (!is_inline(program, id)) axes |= program.at(id).axes;
  }
  for (const int a : sweep.anchors) axes |= structure.anchors[a].axes;
  for (const HeldItem& held : group.held) {
    const int number = static_cast<int>(&sweep - group.sweeps.data());
    if (held.place == Hold::shared && held.from < number && held.until >= number) axes |= program.at(held.item).axes;
  }
  sweep.ahead.axis = innermost(group, axes & group.inner_loops);
  if (sweep.ahead.axis < 0) return;
  for (const ItemId id : sweep.early) {
    const bool copied = std::ranges::count(sweep.copied, id) > 0;
    if (!copied && is_known_ahead(program, id, sweep.ahead.axis)) sweep.ahead.loads.push_back(id);
  }
}

}  // namespace

Status choose_ahead(const GroupStructure& structure, GroupProgram& group, const Schedule& schedule) {
  constexpr int most_stages = 2;
  if (group.mapping.stages > most_stages)
    return make_error(ErrorKind::constraint, "{} stages of loads in registers, at most {}", group.mapping.stages,
                      most_stages);
  if (schedule.rows > 0) return make_error(ErrorKind::constraint, "a turn of a recurrent kernel has no next row");
  if (structure.anchors[0].has_own_loops())
    return make_error(ErrorKind::constraint, "scans, sorts and scatters have loops of their own");
  bool any = false;
  if (group.inner_loops.empty()) {
    choose_outer(*structure.program, group);
    any = !group.ahead.loads.empty();
  } else {
    for (Sweep& sweep : group.sweeps) {
      choose_inner(structure, group, sweep);
      any = any || !sweep.ahead.loads.empty();
    }
  }
  return any ? Status() : make_error(ErrorKind::constraint, "no loop has loads that can be made a turn ahead");
}

}  // namespace stitch::kernel
