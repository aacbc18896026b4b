#include "kernel/program/sweep_division.h"

#include <algorithm>
#include <utility>

#include "kernel/program/holding.h"

namespace stitch::kernel {
namespace {

/// The anchors of each sweep.
std::vector<std::vector<int>> anchors_by_sweep(const GroupStructure& structure) {
  std::vector<std::vector<int>> anchors(structure.sweep_count);
  for (int a = 0; a < std::ssize(structure.anchors); ++a) anchors[structure.anchors[a].sweep].push_back(a);
  return anchors;
}

}  // namespace

SweepDivision divide_into_sweeps(const ItemFlow& flow, const GroupStructure& structure, Hold hold, AxisSet varying,
                                 const std::vector<ItemId>& hoisted) {
  const ScalarProgram& program = *structure.program;
  const ItemId count = program.item_count();
  SweepDivision division;
  division.held = choose_held(flow, structure, hold, varying, hoisted);
  division.is_held.assign(count, false);
  for (const HeldItem& held : division.held) division.is_held[held.item] = true;
  std::vector<bool> at_hand(count, false);  // uniform items computed by an earlier sweep, hoisted and reduced ones
  for (const ItemId id : program.item_ids()) at_hand[id] = program.at(id).kind == Item::Kind::reduced;
  for (const ItemId id : hoisted) at_hand[id] = true;
  const std::vector<std::vector<int>> anchors = anchors_by_sweep(structure);
  std::vector<int> held_until(count, -1), seen_in(count, -1);
  std::size_t begun = 0;
  for (int number = 0; number < structure.sweep_count; ++number) {
    // Held by an earlier sweep: intervals of one item follow one another.
    for (; begun < division.held.size() && division.held[begun].from < number; ++begun)
      held_until[division.held[begun].item] = division.held[begun].until;
    Sweep sweep;
    sweep.anchors = anchors[number];
    std::vector<ItemId> open, here;
    for (const int a : sweep.anchors) open.insert(open.end(), flow.roots(a).begin(), flow.roots(a).end());
    for (std::size_t h = begun; h < division.held.size() && division.held[h].from == number; ++h)
      open.push_back(division.held[h].item);
    while (!open.empty()) {
      const ItemId id = open.back();
      open.pop_back();
      if (seen_in[id] == number || held_until[id] >= number || at_hand[id]) continue;
      seen_in[id] = number;
      here.push_back(id);
      open.insert(open.end(), flow.needs(id).begin(), flow.needs(id).end());
    }
    std::ranges::sort(here);
    for (const ItemId id : here) {
      const bool uniform = !program.at(id).axes.meets(varying);
      if (uniform) at_hand[id] = true;
      (uniform ? sweep.uniform : sweep.body).push_back(id);
    }
    division.sweeps.push_back(std::move(sweep));
  }
  return division;
}

}  // namespace stitch::kernel
