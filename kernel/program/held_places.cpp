#include "kernel/program/held_places.h"

#include <algorithm>
#include <utility>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

struct Placed {
  const HeldItem* held;
  std::int64_t bytes;
};

/// Liveness planning: the lowest offset that no value alive in the same sweep occupies. Every thread reads only what
/// it wrote itself, so reuse needs no barrier.
std::int64_t shared_place(const ScalarProgram& program, const HeldItem& held, std::int64_t bytes,
                          const std::vector<Placed>& alive) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const Placed& other : alive) {
    if (held.until < other.held->from) continue;
    const Item& item = program.at(other.held->item);
    // Element for element in place: the old value is read before the new one is written, by the same thread.
    const Item& own = program.at(held.item);
    const bool in_place =
        other.held->until == held.from && item.axes == own.axes && held_bytes(item) == held_bytes(own);
    if (!in_place) taken.emplace_back(other.held->shared_offset, other.held->shared_offset + other.bytes);
  }
  std::ranges::sort(taken);
  std::int64_t at = 0;
  for (const auto& [from, to] : taken) {
    if (at + bytes <= from) break;
    at = std::max(at, to);
  }
  return at;
}

}  // namespace

Status place_held(const GroupStructure& structure, GroupProgram& group) {
  const ScalarProgram& program = *structure.program;
  std::vector<Placed> alive;
  for (HeldItem& held : group.held) {
    const Item& item = program.at(held.item);
    if (held.place == Hold::registers) {
      if (item.axes.meets(group.inner_loops))
        return make_error(ErrorKind::constraint, "a value held in registers is swept by a loop");
      continue;
    }
    const std::int64_t bytes = (group.elements_per_thread(item.axes) * held_bytes(item) * group.threads + 15) / 16 * 16;
    std::erase_if(alive, [&](const Placed& other) { return other.held->until < held.from; });
    held.shared_offset = shared_place(program, held, bytes, alive);
    alive.push_back({&held, bytes});
    group.held_bytes = std::max(group.held_bytes, held.shared_offset + bytes);
  }
  return {};
}

}  // namespace stitch::kernel
