#include "search/schedule/access_pattern.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

namespace stitch::search {

using kernel::AxisSet;

bool crosses(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents, int vector_axis) {
  const kernel::ScalarProgram& program = *group.program;
  const auto across = [&](kernel::Index address, AxisSet axes) {
    if (!axes.contains(vector_axis)) return false;
    for (const int a : axes) {
      if (a == vector_axis || extents[a] == 1) continue;
      const kernel::IndexPool::Run run = program.pool().run(address, program.axes().variables[a], 1);
      if (run.regular && std::abs(run.step) == 1) return true;
    }
    return false;
  };
  const auto loads_across = [&](const kernel::Item& item) {
    return item.kind == kernel::Item::Kind::load && across(item.index, item.axes);
  };
  const auto stores_across = [&](const kernel::Anchor& anchor) {
    return anchor.kind == kernel::Anchor::Kind::store && across(anchor.addresses[0], anchor.axes);
  };
  return std::ranges::any_of(program.items(), loads_across) || std::ranges::any_of(group.anchors, stores_across);
}

bool overlaps(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents, AxisSet walked) {
  const kernel::ScalarProgram& program = *group.program;
  struct Loads {
    double elements = 0;
    std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
  };
  std::map<kernel::Buffer, Loads> loads;
  for (const kernel::Item& item : program.items()) {
    if (item.kind != kernel::Item::Kind::load || !item.axes.meets(walked)) continue;
    double elements = 1;
    for (const int a : item.axes) elements *= extents[a];
    Loads& all = loads[item.buffer];
    all.elements += elements;
    all.low = std::min(all.low, program.pool().low(item.index));
    all.high = std::max(all.high, program.pool().high(item.index));
  }
  return std::ranges::any_of(loads, [](const auto& each) {
    const Loads& all = each.second;
    return all.elements > 2.0 * (all.high - all.low + 1);
  });
}

Repeats find_repeats(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents, AxisSet walked) {
  const AxisSet all = AxisSet::first(extents.size());
  Repeats repeats;
  repeats.tensors.assign(extents.size(), 0);
  for (const kernel::Item& item : group.program->items()) {
    if (item.kind != kernel::Item::Kind::load || !item.axes.contains_all(walked)) continue;
    repeats.axes |= all - item.axes;
    for (const int a : all - item.axes) ++repeats.tensors[a];
  }
  for (const int a : all) {
    if (extents[a] == 1) repeats.axes.erase(a);
  }
  return repeats;
}

}  // namespace stitch::search
