#include "costmodel/update_search.h"

#include <algorithm>
#include <cmath>

#include "kernel/index/sorted_indices.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Level;

/// Warp instructions of a step of a binary search: the middle and its address, the load, two comparisons, a branch and
/// the new bounds; those around the search of a line; and of an update that is combined, with the place in it that is
/// looked up first. Near what the emulated device counts.
constexpr double instructions_of_step = 9;
constexpr double instructions_of_line = 12;
constexpr double instructions_of_update = 14;
/// Warp instructions of an element that is loaded, kept and stored.
constexpr double instructions_of_element = 6;
/// Cycles of a step that finds its key in L1, arithmetic included (guess).
constexpr double l1_step_cycles = 60;
/// Part of L1 that keeps what all searches begin with, beside what passes through it (guess).
constexpr double l1_share_of_keys = 0.25;
/// Updates of a run that are under way together: the emitter unrolls so far.
constexpr double updates_in_flight = 4;
/// An update takes two loads in a row: its place among the unsorted ones, and itself.
constexpr int loads_of_update = 2;
constexpr int key_bytes = 4;

/// The search of one warp, or of each of its threads for one element.
struct Search {
  double lines = 0;    ///< one after the other
  double sectors = 0;  ///< that the lanes ask for in a step
  double steps = 0;    ///< in a line; those that look for the end of the run included
  double missed = 0;   ///< of them: that L2 answers
};

Search search_of(const CountedGroup& counted, double line, double updates, bool by_warp) {
  const double lines = updates / line;
  Search search;
  search.lines = by_warp ? std::ceil(lines / warp_lanes) : lines;
  // Of a thread's neighbours all search the same line, for places side by side.
  search.sectors = by_warp ? std::min<double>(lines, warp_lanes) : 2;
  search.steps = std::log2(line) + 2;
  // The last few steps are within a sector; of those before them L1 has the ones that are few in all lines together.
  const double kept = counted.device.shared_per_sm * l1_share_of_keys / sector_bytes;
  const double within_sector = std::log2(sector_bytes / key_bytes);
  search.missed = std::clamp(std::log2(updates / kept) - within_sector, 1.0, search.steps);
  return search;
}

}  // namespace

bool searches_updates(const Anchor& anchor) { return anchor.kind == Anchor::Kind::scatter && anchor.items.size() > 3; }

void count_update_search(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  const AxisSet placed = counted.program.at(anchor.items[1]).axes;
  const int batch = std::ssize(group.extents) - 1;
  const double updates = group.extents[batch];
  double lanes = 1, placed_lanes = 1, placed_each = 1, places = 1, results = 1;
  for (int a = 0; a < batch; ++a) {
    lanes *= group.extent(a, Level::lane);
    results *= group.extents[a];
    if (!placed.contains(a)) continue;
    placed_lanes *= group.extent(a, Level::lane);
    placed_each *= group.extent(a, Level::reg);
    places *= group.extents[a];
  }
  const bool by_warp = lanes == warp_lanes && placed_lanes * placed_each == 1;
  const double line = kernel::sorted_line(counted.graph, anchor.node);
  const Search search = search_of(counted, line, updates, by_warp);
  const double warps = group.tiles * kernel::warps_of(group.threads);  // that take part
  const double each = counted.per_iteration(anchor.axes - anchor.reduced);
  const double searches = warps * (by_warp ? 1 : each);
  const double per_line = updates / std::max(places, 1.0) / (updates / line);  // of one place
  // Lanes with places of their own wait for the one that finds most.
  const double found = std::min(placed_lanes * per_line, per_line + 2 * std::sqrt(per_line));
  const double rounds = by_warp ? searches * updates / std::max(places, 1.0) : searches * search.lines * found;
  const double elements_of_round = by_warp ? each : 1;
  const double steps = searches * search.lines * search.steps;
  features.instructions += steps * instructions_of_step + searches * search.lines * instructions_of_line +
                           rounds * (instructions_of_update + (elements_of_round - 1) * instructions_of_element) +
                           warps * each * instructions_of_element;
  const double size = graph::byte_size(anchor.dtype);
  const double combined = updates * results / std::max(places, 1.0) * size;
  // Rows that are shorter than a sector are read in whole ones; what is there before is read as it is written.
  const double row = std::max<double>(results / std::max(places, 1.0) * size, sector_bytes);
  features.sector_bytes += steps * search.sectors * sector_bytes + updates * (row + sector_bytes) + results * size;
  features.requested_bytes += steps * std::min(search.sectors, lanes) * key_bytes + combined + results * size;
  features.l2_bytes += group.tiles * search.lines * search.sectors * search.missed * sector_bytes +
                       updates * (row + sector_bytes) + results * size;
  features.load_requests += steps + loads_of_update * rounds * elements_of_round;
  features.load_lane_bytes += steps * key_bytes + loads_of_update * rounds * elements_of_round * size;
  features.dynamic_requests += steps + rounds * elements_of_round;
  const double in_turn = std::ceil(rounds / std::max(warps, 1.0) / updates_in_flight) * loads_of_update;
  features.latency_cycles += (by_warp ? 1 : each) * search.lines *
                                 (search.steps * l1_step_cycles + search.missed * counted.device.l2_latency) +
                             (in_turn + 1) * counted.device.dram_latency;
  features.bytes_in_flight = each * size;
}

}  // namespace stitch::costmodel
