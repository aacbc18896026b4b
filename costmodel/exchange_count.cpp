#include "costmodel/exchange_count.h"

#include <algorithm>
#include <cmath>

#include "kernel/index/sorted_indices.h"
#include "kernel/program/legality.h"
#include "kernel/program/update_list.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Level;

/// A shuffle, the combination with what it brings, and every other time a move (guess).
constexpr double instructions_of_shuffle = 2.5;
/// Cycles until what a shuffle has brought is combined (guess).
constexpr double shuffle_cycles = 30;
/// Warp instructions of an exchange through shared memory: a store and its address, then for each partial result a load
/// and its combination, of which some are one instruction (guess).
constexpr double instructions_before_exchange = 2;
constexpr double instructions_of_exchanged = 1.5;
/// Cycles that each partial result adds to the wait for the first one: a dependent combination (guess).
constexpr double cycles_of_exchanged = 4;
/// Partial results are f32, written once and read once.
constexpr int accumulator_bytes = 4;
constexpr int passes_of_exchange = 2;
/// Of a maximum with a sum of exponentials: what brings the sum to the common maximum (guess).
constexpr double instructions_of_rescaling = 5;
constexpr double rescaling_cycles = 40;
/// A barrier of a cluster is a message to the others and one back.
constexpr int crossings_of_cluster_barrier = 2;
/// Threads whose arrival doubles what a block's barrier takes (guess).
constexpr double threads_of_slow_barrier = 512;

/// Of a scatter: warp instructions of the test of one update (or 32), and of adding one that hit to a row's 32
/// elements (guess).
constexpr double instructions_of_test = 12;
constexpr double instructions_of_hit = 10;
/// Indices that a test reads are s32.
constexpr int index_bytes = 4;
/// Bytes that a thread has in flight: four indices, as one access takes (guess).
constexpr double bytes_of_indices_in_flight = 16;
/// At its end the row that was hit is read and written: two latencies of device memory.
constexpr double latencies_of_hit = 2;

/// A maximum and a sum of exponentials cross as two numbers: the maxima first, then the sums, brought to the greatest.
void count_max_exp_sum(const CountedGroup& counted, const kernel::ReductionPlan& plan, double loops,
                       GroupFeatures& features) {
  const bool partial = counted.group.structure.anchors[plan.anchor].kind == Anchor::Kind::partial;
  const double executions = counted.warps * (plan.kept_per_thread * loops);
  double cycles = 0;
  const auto count = [&](double times, double instructions, double special) {
    features.instructions += times * instructions;
    features.exchange_instructions += times * instructions;
    features.special_instructions += times * special;
  };
  const auto shuffle = [&](double times, double steps) {
    count(times, 2 * steps * instructions_of_shuffle + instructions_of_rescaling, 1);
    cycles += 2 * steps * shuffle_cycles + rescaling_cycles;
  };
  const auto combine = [&](double times, double values) {
    count(times, values * (2 * instructions_of_exchanged + instructions_of_rescaling), values);
    cycles += 2 * values * cycles_of_exchanged + rescaling_cycles;
  };
  if (!plan.shuffles.empty()) shuffle(executions, plan.shuffles.size());
  if (plan.exchange > 1) {
    // What a block leaves in memory only the warps that store it combine: the compiler moves the rest behind the test.
    const double combining = partial && !plan.lanes_exchange ? executions / plan.exchange : executions;
    const double results = plan.exchange * plan.kept_per_block;
    features.shared_bytes += 2 * results * accumulator_bytes * passes_of_exchange * counted.group.tiles * loops;
    count(executions, instructions_before_exchange, 0);
    cycles += counted.device.shared_latency + plan.kept_per_thread * plan.exchange;
    if (plan.lanes_exchange) {
      shuffle(combining, std::log2(plan.exchange));
    } else {
      combine(combining, plan.exchange);
    }
  }
  if (plan.lanes_cluster) {
    shuffle(executions, std::log2(plan.cluster));
  } else if (plan.cluster > 1) {
    combine(executions, plan.cluster);
  }
  features.latency_cycles += loops * cycles;
  features.serial_cycles += cycles;
}

void count_reduction(const CountedGroup& counted, const kernel::ReductionPlan& plan, double loops,
                     GroupFeatures& features) {
  const double executions = counted.warps * (plan.kept_per_thread * loops);
  const double steps = plan.shuffles.size();
  features.instructions += executions * steps * instructions_of_shuffle;
  features.exchange_instructions += executions * steps * instructions_of_shuffle;
  features.latency_cycles += loops * steps * shuffle_cycles;
  features.serial_cycles += steps * shuffle_cycles;
  if (plan.exchange <= 1) return;
  const double instructions = executions * (instructions_before_exchange + plan.exchange * instructions_of_exchanged);
  const double results = plan.exchange * plan.kept_per_block;
  features.instructions += instructions;
  features.exchange_instructions += instructions;
  features.shared_bytes += results * accumulator_bytes * passes_of_exchange * counted.group.tiles * loops;
  const double cycles =
      counted.device.shared_latency + plan.exchange * cycles_of_exchanged + plan.kept_per_thread * plan.exchange;
  features.latency_cycles += loops * cycles;
  features.serial_cycles += cycles;
}

// ---- updates in sorted lines

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
/// An update takes two loads in a row: its place among the unsorted ones, and itself.
constexpr int loads_of_update = 2;

// ---- updates that a block lists

/// Warp instructions of a chunk, and of the tile's range, that all warps tell one another; of 32 indices that are read
/// and voted on, and of what is listed of them; of 32 entries that a warp looks at, and of each of its places among
/// them; of one that is combined, besides its elements. Near what the emulated device counts.
constexpr double instructions_of_telling = 35;
constexpr double instructions_of_listing = 28;
constexpr double instructions_of_entries = 14;
constexpr double instructions_of_own = 4;
constexpr double instructions_of_taken = 14;
/// An entry: the update's number, and its place.
constexpr int entry_bytes = 8;
/// Loads of indices that a warp has on their way, as the loop is unrolled.
constexpr double listings_in_flight = 4;
/// When a chunk's updates are counted and when they are listed; and one before the first chunk.
constexpr double barriers_of_chunk = 2;

/// How a scatter's group is laid out, as far as its search is concerned.
struct SearchLayout {
  explicit SearchLayout(const CountedGroup& counted);

  double updates = 0, lines = 0, line = 0;
  double places = 1;                   ///< that updates go to
  double row = 1;                      ///< elements of each
  double lanes = 1, placed_lanes = 1;  ///< of a warp; of those, on different places
  double places_of_thread = 1, elements_of_place = 1;
  double span = 1;       ///< places from the first to the last of a warp's
  double in_flight = 1;  ///< updates of a place
  bool by_warp = false;
};

SearchLayout::SearchLayout(const CountedGroup& counted) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  const AxisSet placed = counted.program.at(anchor.items[1]).axes;
  const int batch = std::ssize(group.extents) - 1;
  updates = group.extents[batch];
  line = kernel::sorted_line(counted.graph, anchor.node);
  lines = line > 0 ? updates / line : 0;
  lanes = group.extent(batch, Level::lane);
  for (int a = 0; a < batch; ++a) {
    lanes *= group.extent(a, Level::lane);
    (placed.contains(a) ? places : row) *= group.extents[a];
    (placed.contains(a) ? places_of_thread : elements_of_place) *= group.extent(a, Level::reg);
    if (!placed.contains(a)) continue;
    placed_lanes *= group.extent(a, Level::lane);
    if (group.extent(a, Level::reg) > 1) span *= group.extent(a, Level::warp);
  }
  in_flight = kernel::updates_in_flight(counted.graph, anchor.node, static_cast<std::int64_t>(elements_of_place));
  by_warp = placed_lanes == 1 && lanes == warp_lanes;
  span = by_warp ? span * (places_of_thread - 1) + 1 : placed_lanes;
}

/// What one warp does, in steps of all its searches and updates in turn.
struct UpdateSearch {
  double steps = 0;         ///< that look at a key in a line of each lane's
  double shared_steps = 0;  ///< of a line that all lanes look in
  double lines = 0;         ///< searched, one after the other
  double rounds = 0;        ///< updates that are combined one after the other, of one place or of 32
  double handed = 0;        ///< of them: from lane to lane
};

UpdateSearch search_of(const SearchLayout& layout) {
  const double of_place = layout.updates / std::max(layout.places, 1.0), of_line = of_place / layout.lines;
  const double turns = std::ceil(layout.lines / warp_lanes), near = of_line * layout.span;
  // Half of the line and half of that; then steps that grow from where the range begins, and back.
  const double range = std::log2(layout.line) + 1 + 2 * std::log2(1 + near);
  const double own = std::log2(1 + near) + 1 + of_line;
  UpdateSearch search;
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
double missed_steps(const CountedGroup& counted, const SearchLayout& layout) {
  const double kept = counted.device.shared_per_sm * l1_share_of_keys / sector_bytes;
  const double within_sector = std::log2(sector_bytes / index_bytes);
  return std::clamp(std::log2(layout.updates / kept) - within_sector, 1.0, std::log2(layout.line));
}

/// Of a scatter whose updates are in sorted lines, with as many for each place as there are on average.
void count_update_search(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const double size = graph::byte_size(group.structure.anchors[0].dtype);
  const SearchLayout layout(counted);
  const UpdateSearch search = search_of(layout);
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
      warps * (search.steps * sectors + search.shared_steps) * index_bytes + layout.updates * layout.row * size + table;
  const double missed = missed_steps(counted, layout), turns = std::ceil(layout.lines / warp_lanes);
  features.l2_bytes += group.tiles * layout.lines * missed * sector_bytes + moved;
  const double loads = steps + loads_of_update * loaded * layout.elements_of_place;
  features.load_requests += warps * loads;
  features.load_lane_bytes += warps * (steps * index_bytes + (loads - steps) * size);
  features.dynamic_requests += warps * (steps + loaded * layout.elements_of_place);
  const double in_turn = search.handed > 0 ? loaded : std::ceil(loaded / layout.in_flight);
  features.latency_cycles += steps * l1_step_cycles + turns * missed * counted.device.l2_latency +
                             in_turn * (counted.device.l2_latency + counted.device.dram_latency) +
                             search.handed * handed_cycles + 2 * counted.device.dram_latency;
  // What is there before is asked for at once, updates where there are several.
  const double together =
      search.handed > 0 ? 1 : std::min(layout.in_flight, std::max(1.0, loaded / layout.places_of_thread));
  features.bytes_in_flight = elements * size * together;
}

/// Of a scatter whose blocks list what goes to their tiles, with as many updates for each place as there are on
/// average.
void count_block_search(const CountedGroup& counted, const kernel::UpdateList& list, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const double size = graph::byte_size(counted.graph.node(group.structure.anchors[0].node).type().dtype);
  const SearchLayout layout(counted);
  const double chunks = std::ceil(layout.updates / list.chunk()), each = layout.elements_of_place;
  const double warps = group.tiles * kernel::warps_of(group.threads);  // that have places
  double columns = 1;                                                  // tiles of a row, each of which is searched for
  for (int a = 0; a < std::ssize(group.extents) - 1; ++a) {
    if (!counted.program.at(group.structure.anchors[0].items[1]).axes.contains(a))
      columns *= group.extent(a, Level::grid);
  }
  const double of_tile = layout.updates * columns / group.tiles;
  const double visits = std::max(std::min(chunks, of_tile), of_tile / warp_lanes);
  const double of_warp = layout.updates / std::max(layout.places, 1.0) * layout.places_of_thread;
  const double listings = chunks * list.part / warp_lanes;  // of each warp of a block
  features.instructions +=
      group.tiles * list.parts * (listings * instructions_of_listing + (chunks + 1) * instructions_of_telling) +
      warps * (visits * (instructions_of_entries + layout.places_of_thread * instructions_of_own) +
               of_warp * (instructions_of_taken + each * instructions_of_element) +
               layout.places_of_thread * each * instructions_of_element);
  features.shared_bytes +=
      group.tiles * of_tile * entry_bytes + warps * (of_tile * entry_bytes + chunks * list.parts * index_bytes);
  const double row = std::max<double>(layout.row * size, sector_bytes), table = layout.places * layout.row * size;
  const double moved = layout.updates * row + table, indices = group.tiles * layout.updates * index_bytes;
  features.sector_bytes += indices + moved;
  features.requested_bytes += indices + layout.updates * layout.row * size + table;
  features.l2_bytes += indices + moved;
  const double read = group.tiles * list.parts * listings;
  features.load_requests += read + warps * of_warp * each;
  features.load_lane_bytes += read * index_bytes + warps * of_warp * each * size;
  features.dynamic_requests += warps * of_warp * each;
  features.barriers += barriers_of_chunk * chunks + 1;
  add_barrier_cycles(features, counted.schedule.threads, counted.device);
  const double together = std::min<double>(kernel::UpdateList::in_flight(static_cast<std::int64_t>(each)),
                                           std::max(1.0, layout.updates / std::max(layout.places, 1.0)));
  // An update's number leads to the update, often by another index.
  features.latency_cycles += std::ceil(listings / listings_in_flight) * counted.device.l2_latency +
                             (chunks + visits) * counted.device.shared_latency +
                             std::ceil(of_warp / together) * (counted.device.l2_latency + counted.device.dram_latency) +
                             latencies_of_hit * counted.device.dram_latency;
  features.bytes_in_flight = std::max(bytes_of_indices_in_flight, layout.places_of_thread * each * size * together);
}

}  // namespace

void count_reductions(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  // The reductions at the end of one sweep share its barriers.
  std::vector<bool> exchanged(group.sweeps.size(), false);
  std::vector<bool> clustered(group.sweeps.size(), false);
  const double outer = counted.outer_iterations();
  for (const kernel::ReductionPlan& plan : group.reductions) {
    const Anchor& anchor = group.structure.anchors[plan.anchor];
    const double loops = anchor.kind == Anchor::Kind::partial ? 1 : outer;
    const bool pair = anchor.combiner == graph::Op::max_exp_sum;
    (pair ? count_max_exp_sum : count_reduction)(counted, plan, loops, features);
    if (plan.exchange > 1) {
      if (!exchanged[anchor.sweep]) features.barriers += loops;
      exchanged[anchor.sweep] = true;
    }
    if (plan.cluster > 1) {
      features.latency_cycles += loops * counted.device.cluster_latency * crossings_of_cluster_barrier;
      features.serial_cycles += counted.device.cluster_latency * crossings_of_cluster_barrier;
      if (!clustered[anchor.sweep]) features.cluster_barriers += loops;
      clustered[anchor.sweep] = true;
    }
  }
  // Behind each group: what it leaves is for all threads.
  if (counted.residence.hands_on_in_block())
    (counted.schedule.cluster > 1 ? features.cluster_barriers : features.barriers) += 1;
  const double before = features.latency_cycles;
  add_barrier_cycles(features, counted.schedule.threads, counted.device);
  features.serial_cycles += (features.latency_cycles - before) / outer;
}

void count_scatter(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  if (kernel::sorted_line(counted.graph, anchor.node) > 0) return count_update_search(counted, features);
  const kernel::UpdateList list = kernel::update_list(group.structure, group.mapping, counted.schedule.threads);
  if (list.parts > 0) return count_block_search(counted, list, features);
  const AxisSet tested = counted.program.at(anchor.items[1]).axes;
  // Updates lie on the last axis.
  const int batch = std::ssize(group.extents) - 1;
  const double updates = group.extents[batch];
  double lanes = 1;
  double hit_lanes = 1;
  double rows = 1;
  double results = 1;
  for (int a = 0; a < batch; ++a) {
    lanes *= group.extent(a, Level::lane);
    results *= group.extents[a];
    if (!tested.contains(a)) continue;
    hit_lanes *= group.extent(a, Level::lane) * group.extent(a, Level::reg);
    rows *= group.extents[a];
  }
  const bool by_warp = lanes == warp_lanes && hit_lanes == 1;
  const double window = results / std::max(rows, 1.0);
  const double warps = group.tiles * kernel::warps_of(group.threads);  // that take part
  const AxisSet kept = anchor.axes - anchor.reduced;
  const double tests = by_warp ? warps * updates / warp_lanes : warps * updates * counted.per_iteration(kept);
  features.instructions +=
      tests * instructions_of_test + updates * std::max(1.0, window / warp_lanes) * instructions_of_hit;
  const double added = updates * window * graph::byte_size(anchor.dtype);
  features.l2_bytes += warps * updates * index_bytes + added;
  // A test reads the indices of 32 updates, or one that all lanes want.
  features.sector_bytes += tests * (by_warp ? warp_lanes * index_bytes : sector_bytes) + added;
  features.requested_bytes += tests * (by_warp ? warp_lanes * index_bytes : index_bytes) + added;
  features.load_requests += tests;
  features.load_lane_bytes += tests * index_bytes;
  features.latency_cycles += counted.device.l2_latency * (by_warp ? updates / warp_lanes : updates) +
                             latencies_of_hit * counted.device.dram_latency;
  features.bytes_in_flight = bytes_of_indices_in_flight;
}

void add_barrier_cycles(GroupFeatures& features, int block_threads, const DeviceSpec& device) {
  features.latency_cycles +=
      features.barriers * device.block_barrier_cycles * (1 + block_threads / threads_of_slow_barrier);
  features.latency_cycles += features.cluster_barriers * device.cluster_latency * crossings_of_cluster_barrier;
}

}  // namespace stitch::costmodel
