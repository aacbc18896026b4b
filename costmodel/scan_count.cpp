#include "costmodel/scan_count.h"

#include <algorithm>

#include "costmodel/operation_cost.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Item;
using kernel::Level;

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

}  // namespace stitch::costmodel
