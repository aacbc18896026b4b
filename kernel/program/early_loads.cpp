#include "kernel/program/early_loads.h"

#include <algorithm>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// Whether a load that is held can go to shared memory by itself: in whole words from device memory, and in a loop, of
/// which each iteration would wait for its own loads otherwise.
bool is_copied(const GroupStructure& structure, const GroupProgram& group, const Schedule& schedule, ItemId id,
               int sweep) {
  const Item& item = structure.program->at(id);
  const auto held = std::ranges::find(group.held, id, &HeldItem::item);
  if (held == group.held.end() || held->from != sweep || held->place != Hold::shared) return false;
  if (std::ranges::count(group.held, id, &HeldItem::item) != 1) return false;
  if (schedule.rows > 0 || item.guard >= 0 || item.buffer.kind != Buffer::Kind::input) return false;
  if (group.turns(item.axes & group.inner_loops) == 1) return false;
  const int v = group.mapping.vector_axis;
  const std::int64_t run = v >= 0 && item.axes.contains(v) ? group.vector_extent() : 1;
  const int width = group.accesses[id].width, bytes = width * held_bytes(item);
  if (run > 1 && !group.shift && group.extents[v] % run != 0) return false;
  return (bytes == 16 || (width == run && (bytes == 4 || bytes == 8))) && run % width == 0;
}

}  // namespace

void choose_early(const ItemFlow& flow, const GroupStructure& structure, const GroupProgram& group,
                  const Schedule& schedule, const std::vector<bool>& is_held, int number, Sweep& sweep) {
  constexpr std::int64_t budget = 96;  // registers
  const ScalarProgram& program = *structure.program;
  std::int64_t used = 0;
  for (const ItemId id : sweep.body) {
    const Item& item = program.at(id);
    if (item.kind != Item::Kind::load) continue;
    const bool ready = std::ranges::none_of(flow.needs(id), [&](ItemId n) {
      const bool same_band = (program.at(n).axes & group.varying) == (item.axes & group.varying);
      return same_band && !is_inline(program, n) && std::ranges::binary_search(sweep.body, n);
    });
    if (!ready) continue;
    const bool held = is_held[id];
    const std::int64_t registers = (group.register_elements(item.axes) * held_bytes(item) + 3) / 4;
    if (!held && item.guard >= 0 && used + registers > budget) continue;
    if (!held) used += registers;
    sweep.early.push_back(id);
    if (held && is_copied(structure, group, schedule, id, number)) sweep.copied.push_back(id);
  }
}

}  // namespace stitch::kernel
