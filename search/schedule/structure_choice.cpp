#include "search/schedule/structure_choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/id_vector.h"
#include "kernel/structure/structure_builder.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::NodeId;

/// A row that a block takes by itself while others take shorter ones keeps the kernel waiting.
constexpr std::int64_t long_row = 1 << 15;  // elements

std::set<int> reduced_by(const kernel::AxisAnalysis& analysis, NodeId id) {
  const std::vector<int> reduced = analysis.reduced(id);
  return {reduced.begin(), reduced.end()};
}

/// Sets of axes that a tile may hold whole: nothing, all that is reduced and used again, of those the short ones, each
/// reduction's own.
std::vector<std::set<int>> tile_axis_options(const Graph& graph, const kernel::AxisAnalysis& analysis) {
  std::vector<std::set<int>> options;
  const auto offer = [&](const std::set<int>& axes) {
    if (std::ranges::find(options, axes) == options.end()) options.push_back(axes);
  };
  const auto uses = graph::users(graph);
  std::set<int> used_again, used_and_long;
  std::vector<std::set<int>> each;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::set<int> own = reduced_by(analysis, id);
    if (own.empty()) continue;
    if (std::ranges::find(each, own) == each.end()) each.push_back(own);
    if (uses[id].empty()) continue;
    used_again.insert(own.begin(), own.end());
    const graph::Node& node = graph.node(id);
    const std::int64_t results = std::max<std::int64_t>(1, node.type().elements());
    if (graph.type(node.operands[0]).elements() / results > long_row) used_and_long.insert(own.begin(), own.end());
  }
  offer(used_again);
  // Tensors of all sizes in one kernel: the small ones end in a block, the large ones in the next phase.
  std::set<int> used_and_short;
  std::ranges::set_difference(used_again, used_and_long, std::inserter(used_and_short, used_and_short.end()));
  offer(used_and_short);
  // With few distinct reductions every one alone is tried; a packed optimizer's hundreds are not.
  if (each.size() <= 4) {
    for (const std::set<int>& own : each) offer(own);
  }
  offer(reduced_axes(graph, analysis));
  offer({});
  return options;
}

}  // namespace

std::set<int> reduced_axes(const Graph& graph, const kernel::AxisAnalysis& analysis) {
  std::set<int> axes;
  for (NodeId id = 0; id < graph.size(); ++id) axes.merge(reduced_by(analysis, id));
  return axes;
}

std::vector<kernel::StructureOptions> structure_choices(const Graph& graph, const kernel::AxisAnalysis& analysis) {
  constexpr std::int64_t small = 1 << 18;  // elements
  std::vector<kernel::StructureOptions> all;
  for (const std::set<int>& axes : tile_axis_options(graph, analysis)) {
    // With partial results of every reduction that no tile holds, and with the small ones gathered, if there are.
    kernel::StructureOptions choice{axes, {}};
    all.push_back(choice);
    choice.gathered = small;
    if (kernel::gathers_any(graph, analysis, choice)) all.push_back(std::move(choice));
  }
  return all;
}

int least_phases(const Graph& graph, const kernel::AxisAnalysis& analysis, const kernel::StructureOptions& options) {
  const auto is_outside = [&](int axis) { return !options.tile_axes.contains(axis); };
  IdVector<NodeId, int> before(graph.size(), 0);
  int most = 0;
  for (const NodeId id : before.ids()) {
    const graph::Node& node = graph.node(id);
    int& phases = before[id];
    for (const graph::Value operand : node.operands) phases = std::max(phases, before[operand.node]);
    const bool reduces = graph::reduced_dimensions(node).has_value();
    // Several that are gathered end in one tile.
    if (reduces && graph.type(node.operands[0]).elements() > options.gathered &&
        std::ranges::any_of(analysis.reduced(id), is_outside))
      ++phases;
    most = std::max(most, phases);
  }
  return most + 1;
}

}  // namespace stitch::search
