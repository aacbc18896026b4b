#include "costmodel/scan_count.h"

#include <algorithm>
#include <bit>

#include "costmodel/operation_cost.h"
#include "kernel/program/sort_plan.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Item;
using kernel::Level;
using kernel::SortPlan;

/// Cycles until a shuffle's value is combined (guess, as for reductions), of a dependent instruction (Jia et al. 2018,
/// table 4.1: 4), and of one combination of a function of several instructions (guess).
constexpr double scan_shuffle_cycles = 30;
constexpr double dependent_cycles = 4;
/// Shuffles of a warp's scan: doubling distances, one for the lane before and one for the total.
constexpr double shuffle_steps = 5;
constexpr double shuffles_besides = 2;
/// Of a shuffled component: the shuffle, and a move or predicate (guess).
constexpr double instructions_of_scan_shuffle = 1.5;
/// Of a warp's total: a store and its address; a load for each that is read back (guess).
constexpr double instructions_of_exchange = 2;
/// The loop and its range test, a turn (guess).
constexpr double instructions_of_turn = 8;

/// Warp instructions of one combination.
double combination_cost(const graph::Node& scan) {
  if (scan.op == graph::Op::scan) return 1;
  double cost = 0;
  for (const graph::Node& node : scan.regions[0]->nodes()) {
    if (!graph::is_elementwise(node.op)) continue;
    Item item;
    item.kind = Item::Kind::compute;
    item.op = node.op;
    item.dtype = node.type().dtype;
    cost += operation_cost(item);
  }
  return std::max(cost, 1.0);
}

/// Bytes of one turn's loads of a thread; those of a run of one element stand outside the sweep's body.
double turn_bytes(const CountedGroup& counted) {
  double bytes = 0;
  for (const kernel::Sweep& sweep : counted.group.sweeps) {
    for (const auto* list : {&sweep.uniform, &sweep.body}) {
      for (const kernel::ItemId id : *list) {
        const Item& item = counted.program.at(id);
        if (item.kind != Item::Kind::load || !item.axes.meets(counted.group.structure.anchors[0].reduced)) continue;
        bytes += counted.per_iteration(item.axes) * graph::byte_size(item.dtype);
      }
    }
  }
  return bytes;
}

/// Instructions that a word takes to be made of an element and its place, and to be taken apart again (guess, by their
/// source).
constexpr double instructions_of_word = 11, instructions_of_value = 8;
/// Of a word's way through shared memory: a store, a load, and every other time an address (guess).
constexpr double instructions_of_move = 2.5;

/// A comparison and what it orders: minimum and maximum, or a test and selections of 32 bits each (guess, by their
/// source).
double instructions_of_comparison(SortPlan::Word word) {
  switch (word) {
    case SortPlan::Word::u32: return 2;
    case SortPlan::Word::u64: return 6;
    case SortPlan::Word::pair: break;
  }
  return 12;
}

/// What a thread does for its words of one line.
struct Network {
  double comparisons = 0, moves = 0, barriers = 0, turns = 0;
};

/// The steps of the network as LineSort takes them.
Network network_of(const SortPlan& plan) {
  Network network;
  const int own = std::bit_width(static_cast<std::uint64_t>(plan.elements)) - 1;
  const int bits = std::bit_width(static_cast<std::uint64_t>(plan.padded())) - 1;
  for (int stage = 1; stage <= bits; ++stage) {
    network.turns += 1;
    network.comparisons += static_cast<double>(stage * plan.elements) / 2;
    int at = 0;
    for (int step = stage - 1; step >= 0;) {
      const int bit = std::max(step - own + 1, 0);
      if (bit != at) {
        network.moves += 1;
        network.barriers += (1 << std::max(bit, at)) > warp_lanes ? 1 : 0;
      }
      at = bit;
      step = bit - 1;
    }
  }
  if (plan.threads > 1) {  // so that neighbours store side by side
    network.moves += 1;
    network.barriers += plan.threads > warp_lanes ? 2 : 0;
  }
  return network;
}

/// Of what goes along, loads are made by the element's place: each lane's from another sector.
double gathered_sectors(const CountedGroup& counted, const kernel::Anchor& anchor, double results) {
  double sectors = 0;
  for (std::size_t i = 1; i < anchor.items.size(); ++i) {
    if (anchor.results[i - 1] == 0) continue;
    const Item& item = counted.program.at(anchor.items[i]);
    if (item.kind == Item::Kind::load && item.axes.meets(anchor.reduced)) sectors += results;
  }
  return sectors;
}

}  // namespace

void count_scan(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  const graph::Node& node = counted.graph.node(anchor.node);
  int axis = -1;
  for (const int a : anchor.reduced) axis = a;
  if (axis < 0) return;
  const double run = group.extent(axis, Level::vector) * group.extent(axis, Level::reg);
  const double warps = group.extent(axis, Level::warp), components = std::ssize(node.results);
  const bool by_lanes = group.extent(axis, Level::lane) > 1;
  const double combination = combination_cost(node), chain = combination * dependent_cycles;
  const double turns = counted.outer_iterations();
  double instructions = instructions_of_turn + run * combination, exchanged = 0;
  double cycles = run * chain;
  if (by_lanes || warps > 1) {  // what is combined before the run goes in front of each of its elements
    instructions += (run + 1) * combination;
    cycles += 2 * chain;
  }
  if (by_lanes) {
    exchanged += (shuffle_steps + shuffles_besides) * components * instructions_of_scan_shuffle;
    instructions += shuffle_steps * combination;
    cycles += shuffle_steps * (scan_shuffle_cycles + chain) + scan_shuffle_cycles;
  }
  if (warps > 1) {
    exchanged += components * (instructions_of_exchange + warps);
    instructions += warps * combination;
    cycles += counted.device.shared_latency + warps * chain;
    const double lanes = by_lanes ? 1 : warp_lanes;
    features.shared_bytes += turns * counted.group.tiles * components * lanes * warps * (1 + warps) *
                             graph::byte_size(graph::info(node.type().dtype).accumulator);
    features.barriers += turns + 1;
  }
  features.instructions += counted.warps * turns * (instructions + exchanged);
  features.exchange_instructions += counted.warps * turns * exchanged;
  features.latency_cycles += turns * cycles;
  features.bytes_in_flight = std::max(features.bytes_in_flight, turn_bytes(counted));
  // Loads of single elements are not in the sweep's body, which waits for the others.
  if (run == 1) features.latency_cycles += turns * counted.device.dram_latency;
}

void count_sort(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const kernel::Anchor& anchor = group.structure.anchors[0];
  const SortPlan plan = kernel::sort_plan(group.structure, group.mapping, counted.schedule.threads);
  const Network network = network_of(plan);
  const double words = static_cast<double>(plan.elements), registers = plan.word_bytes() / 4.0;
  const auto count = static_cast<double>(counted.graph.node(anchor.node).as<graph::SortAttributes>().count);
  const double stored = words * count / static_cast<double>(plan.padded());
  const double comparing =
      network.comparisons * instructions_of_comparison(plan.word) + network.turns * words * (registers + 1);
  const double moving = network.moves * words * instructions_of_move;
  const double making = words * instructions_of_word + stored * instructions_of_value;
  features.instructions += counted.warps * (comparing + moving + making);
  features.integer_instructions += counted.warps * (comparing + making);
  features.exchange_instructions += counted.warps * moving;
  features.shared_bytes += static_cast<double>(group.tiles * counted.schedule.cluster * counted.schedule.threads) *
                           network.moves * words * 2 * plan.word_bytes();
  features.barriers += network.barriers;
  features.latency_cycles += network.moves * 2 * counted.device.shared_latency;
  features.sector_bytes += counted.warps * gathered_sectors(counted, anchor, stored * warp_lanes) * sector_bytes;
}

}  // namespace stitch::costmodel
