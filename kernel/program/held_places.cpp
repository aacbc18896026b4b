#include "kernel/program/held_places.h"

#include <algorithm>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// A place that values of one layout have, one after the other. Every thread reads only what it wrote itself, so that
/// this needs no barrier: element for element the bytes are the same thread's. A value of another size or of other axes
/// lies elsewhere: its elements would be where other threads still read.
struct Slot {
  AxisSet axes;
  int size = 0;  ///< bytes of an element
  std::int64_t offset = 0;
  int until = -1;  ///< last sweep in which its value is read
};

/// Bytes of an element of what is kept in shared memory: as it was loaded, or in its compute type, which of integers is
/// their own (in registers they take a whole one).
int kept_bytes(const Item& item) {
  const int bytes = graph::byte_size(item.dtype);
  return item.kind != Item::Kind::load && graph::is_floating(item.dtype) ? std::max(bytes, 4) : bytes;
}

}  // namespace

Status place_held(const GroupStructure& structure, GroupProgram& group) {
  const ScalarProgram& program = *structure.program;
  std::vector<Slot> slots;
  for (HeldItem& held : group.held) {
    const Item& item = program.at(held.item);
    if (held.place == Hold::registers) {
      if (item.axes.meets(group.inner_loops))
        return make_error(ErrorKind::constraint, "a value held in registers is swept by a loop");
      continue;
    }
    if (group.ahead.stages_of(held.item) != nullptr) continue;  // it stays in its stage (place_stages)
    const int size = kept_bytes(item);
    // In the sweep that computes the new value the old one is read before that is written; a load's copy is not.
    const int last = item.kind == Item::Kind::load ? held.from - 1 : held.from;
    const auto free = std::ranges::find_if(
        slots, [&](const Slot& slot) { return slot.axes == item.axes && slot.size == size && slot.until <= last; });
    if (free != slots.end()) {
      held.shared_offset = free->offset;
      free->until = held.until;
      continue;
    }
    held.shared_offset = group.held_bytes;
    slots.push_back({item.axes, size, group.held_bytes, held.until});
    group.held_bytes += (group.elements_per_thread(item.axes) * size * group.threads + 15) / 16 * 16;
  }
  return {};
}

}  // namespace stitch::kernel
