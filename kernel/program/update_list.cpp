#include "kernel/program/update_list.h"

#include <algorithm>

#include "kernel/index/sorted_indices.h"

namespace stitch::kernel {
namespace {

constexpr std::int64_t lanes = 32;
/// Of a chunk: 8 bytes each in shared memory.
constexpr std::int64_t most_of_thread = 16;
/// Of elements in registers, and of updates.
constexpr std::int64_t most_elements_in_flight = 16, most_in_flight = 4;

}  // namespace

int UpdateList::in_flight(std::int64_t elements) {
  return static_cast<int>(std::clamp<std::int64_t>(most_elements_in_flight / elements, 1, most_in_flight));
}

UpdateList update_list(const GroupStructure& structure, const GroupMapping& mapping, int threads) {
  const Anchor& anchor = structure.anchors[0];
  // The place that each goes to is an item, and no sort has put them in order.
  if (anchor.kind != Anchor::Kind::scatter || anchor.items.size() <= 3 ||
      sorted_line(structure.program->graph(), anchor.node) > 0)
    return {};
  const AxisSet placed = structure.program->at(anchor.items[1]).axes - anchor.reduced;
  std::int64_t along_row = 1;
  for (int a = 0; a < std::ssize(mapping.axes); ++a) {
    const std::int64_t here = mapping.axes[a].at(Level::lane);
    if (here > 1 && (placed.contains(a) || anchor.reduced.contains(a))) return {};
    along_row *= here;
  }
  if (along_row != lanes) return {};
  std::int64_t updates = 1;
  for (const int a : anchor.reduced) updates *= structure.program->axes().extents[a];
  UpdateList list;
  list.parts = threads / lanes;
  list.part = std::min((updates + threads - 1) / threads, most_of_thread) * lanes;
  return list;
}

}  // namespace stitch::kernel
