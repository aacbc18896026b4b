#include "costmodel/sort_count.h"

#include <bit>

#include "kernel/program/sort_plan.h"

namespace stitch::costmodel {
namespace {

using kernel::Item;
using kernel::SortPlan;

/// Instructions that a word takes to be made of an element and its place, and to be taken apart again (counted in the
/// SASS of f32 for sm_90: 11 and 8, with the test of a line's end).
constexpr double instructions_of_word = 11, instructions_of_value = 8;
/// Of a word's way through shared memory: a store, a load, and every other time an address (guess).
constexpr double instructions_of_move = 2.5;
/// Threads of a line that exchange within a warp.
constexpr int lanes = 32;

/// A comparison and what it orders: minimum and maximum, or a test and selections of 32 bits each.
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
        network.barriers += (1 << std::max(bit, at)) > lanes ? 1 : 0;
      }
      at = bit;
      step = bit - 1;
    }
  }
  if (plan.threads > 1) {  // so that neighbours store side by side
    network.moves += 1;
    network.barriers += plan.threads > lanes ? 2 : 0;
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
  features.sector_bytes += counted.warps * gathered_sectors(counted, anchor, stored * lanes) * sector_bytes;
}

}  // namespace stitch::costmodel
