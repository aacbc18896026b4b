#include "costmodel/update_search.h"

#include <algorithm>
#include <cmath>

#include "kernel/index/sorted_indices.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Level;

/// Warp instructions of a step of a binary search: the middle and its address, the load, a comparison and the new
/// bounds; those around the search of a line; and of an update that is combined, with the place in it that is looked up
/// first. Near what the emulated device counts.
constexpr double instructions_of_step = 9;
constexpr double instructions_of_line = 16;
constexpr double instructions_of_update = 14;
/// Of an update that another lane has loaded: a shuffle, the combination, and the loop around it.
constexpr double instructions_of_handed = 5;
/// Warp instructions of an element that is loaded, kept and stored.
constexpr double instructions_of_element = 6;
/// Cycles of a step that finds its key in L1, arithmetic included, and of combining what another lane hands over
/// (guesses).
constexpr double l1_step_cycles = 60;
constexpr double handed_cycles = 35;
/// Part of L1 that keeps what all searches begin with, beside what passes through it (guess).
constexpr double l1_share_of_keys = 0.25;
/// Updates of a run that are under way together: the emitter unrolls so far.
constexpr double updates_in_flight = 4;
/// An update takes two loads in a row: its place among the unsorted ones, and itself.
constexpr int loads_of_update = 2;
constexpr int key_bytes = 4;

/// How a scatter's group is laid out, as far as its search is concerned.
struct Layout {
  explicit Layout(const CountedGroup& counted);

  double updates = 0, lines = 0, line = 0;
  double places = 1;                   ///< that updates go to
  double row = 1;                      ///< elements of each
  double lanes = 1, placed_lanes = 1;  ///< of a warp; of those, on different places
  double places_of_thread = 1, elements_of_place = 1;
  double span = 1;  ///< places from the first to the last of a warp's
  bool by_warp = false;
};

Layout::Layout(const CountedGroup& counted) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  const AxisSet placed = counted.program.at(anchor.items[1]).axes;
  const int batch = std::ssize(group.extents) - 1;
  updates = group.extents[batch];
  line = kernel::sorted_line(counted.graph, anchor.node);
  lines = updates / line;
  lanes = group.extent(batch, Level::lane);
  for (int a = 0; a < batch; ++a) {
    lanes *= group.extent(a, Level::lane);
    (placed.contains(a) ? places : row) *= group.extents[a];
    (placed.contains(a) ? places_of_thread : elements_of_place) *= group.extent(a, Level::reg);
    if (!placed.contains(a)) continue;
    placed_lanes *= group.extent(a, Level::lane);
    if (group.extent(a, Level::reg) > 1) span *= group.extent(a, Level::warp);
  }
  by_warp = placed_lanes == 1 && lanes == warp_lanes;
  span = by_warp ? span * (places_of_thread - 1) + 1 : placed_lanes;
}

/// What one warp does, in steps of all its searches and updates in turn.
struct Search {
  double steps = 0;         ///< that look at a key in a line of each lane's
  double shared_steps = 0;  ///< of a line that all lanes look in
  double lines = 0;         ///< searched, one after the other
  double rounds = 0;        ///< updates that are combined one after the other, of one place or of 32
  double handed = 0;        ///< of them: from lane to lane
};

Search search_of(const Layout& layout) {
  const double of_place = layout.updates / std::max(layout.places, 1.0), of_line = of_place / layout.lines;
  const double turns = std::ceil(layout.lines / warp_lanes), near = of_line * layout.span;
  // Half of the line and half of that; then steps that grow from where the range begins, and back.
  const double range = std::log2(layout.line) + 1 + 2 * std::log2(1 + near);
  const double own = std::log2(1 + near) + 1 + of_line;
  Search search;
  if (layout.by_warp) {
    const double found = std::min(1.0, near * std::min<double>(layout.lines, warp_lanes));
    search.steps = turns * (range + found * layout.places_of_thread * own);
    search.lines = turns * (1 + found * layout.places_of_thread);
    search.rounds = of_place * layout.places_of_thread;
    if (layout.row == 1) search.handed = search.rounds;
  } else {
    const double each = layout.places_of_thread, found = layout.lines * std::min(1.0, near);
    // Lanes with places of their own wait for the one that finds most.
    const double most = std::min(layout.placed_lanes * of_line, of_line + 2 * std::sqrt(of_line));
    search.steps = each * turns * range;
    search.shared_steps = each * found * own;
    search.lines = each * (turns + found);
    search.rounds = each * layout.lines * most;
  }
  return search;
}

/// Steps of a line's search that L2 answers: the last few are within a sector, and of those before them L1 has the
/// ones that are few in all lines together.
double missed_steps(const CountedGroup& counted, const Layout& layout) {
  const double kept = counted.device.shared_per_sm * l1_share_of_keys / sector_bytes;
  const double within_sector = std::log2(sector_bytes / key_bytes);
  return std::clamp(std::log2(layout.updates / kept) - within_sector, 1.0, std::log2(layout.line));
}

}  // namespace

bool searches_updates(const Anchor& anchor) { return anchor.kind == Anchor::Kind::scatter && anchor.items.size() > 3; }

void count_update_search(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const double size = graph::byte_size(group.structure.anchors[0].dtype);
  const Layout layout(counted);
  const Search search = search_of(layout);
  const double warps = group.tiles * kernel::warps_of(group.threads);  // that take part
  const double elements = layout.places_of_thread * layout.elements_of_place;
  const double loaded = search.handed > 0 ? std::ceil(search.rounds / warp_lanes) : search.rounds;
  const double steps = search.steps + search.shared_steps;
  features.instructions +=
      warps * (steps * instructions_of_step + search.lines * instructions_of_line +
               loaded * (instructions_of_update + (layout.elements_of_place - 1) * instructions_of_element) +
               search.handed * instructions_of_handed + elements * instructions_of_element);
  // Rows that are shorter than a sector are read in whole ones; what is there before is read as it is written.
  const double row = std::max<double>(layout.row * size, sector_bytes), table = layout.places * layout.row * size;
  const double moved = layout.updates * (row + sector_bytes) + table;
  const double sectors = std::min<double>(layout.lines, warp_lanes);
  features.sector_bytes += warps * (search.steps * sectors + search.shared_steps) * sector_bytes + moved;
  features.requested_bytes +=
      warps * (search.steps * sectors + search.shared_steps) * key_bytes + layout.updates * layout.row * size + table;
  const double missed = missed_steps(counted, layout), turns = std::ceil(layout.lines / warp_lanes);
  features.l2_bytes += group.tiles * layout.lines * missed * sector_bytes + moved;
  const double loads = steps + loads_of_update * loaded * layout.elements_of_place;
  features.load_requests += warps * loads;
  features.load_lane_bytes += warps * (steps * key_bytes + (loads - steps) * size);
  features.dynamic_requests += warps * (steps + loaded * layout.elements_of_place);
  const double in_turn = search.handed > 0 ? loaded : std::ceil(loaded / updates_in_flight);
  features.latency_cycles += steps * l1_step_cycles + turns * missed * counted.device.l2_latency +
                             in_turn * (counted.device.l2_latency + counted.device.dram_latency) +
                             search.handed * handed_cycles + 2 * counted.device.dram_latency;
  // What is there before is asked for at once, updates where there are several.
  const double together = search.handed > 0 ? 1 : std::min(updates_in_flight, std::max(1.0, loaded / elements));
  features.bytes_in_flight = elements * size * together;
}

}  // namespace stitch::costmodel
