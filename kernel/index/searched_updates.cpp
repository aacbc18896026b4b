#include "kernel/index/searched_updates.h"

#include <limits>

#include "kernel/index/sorted_indices.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;

/// Elements of a row that a warp takes at least.
constexpr std::int64_t least_row = 32;
/// Fewer updates are tested as quickly by each place for itself.
constexpr std::int64_t fewest_updates = 64;
/// Beside atomics: tests of one place each, of which a block makes as many at once as it has places. So many take the
/// time of a few MB of atomics.
constexpr std::int64_t most_tests = std::int64_t{1} << 25;
/// Beside atomics: updates of a place, on average.
constexpr std::int64_t most_updates_of_place = 8;
/// Kernels count updates in s32, up to the end of the last chunk that a block reads.
constexpr std::int64_t most_updates = std::int64_t{1} << 30;

/// Whole slices of the operand along one dimension.
bool takes_rows(const graph::Graph& graph, const graph::Node& node) {
  const auto& a = node.as<graph::ScatterAttributes>();
  if (a.scatter_dims_to_operand_dims.size() != 1 || a.scatter_dims_to_operand_dims != a.inserted_window_dims ||
      !a.input_batching_dims.empty())
    return false;
  const DType index = graph.type(node.operands[1]).dtype;
  if (index != DType::s32 && index != DType::s64) return false;
  Dims row = node.type().dims, window;
  row.erase(row.begin() + a.inserted_window_dims[0]);
  for (const std::int64_t d : a.update_window_dims) window.push_back(graph.type(node.operands[2]).dims[d]);
  return row == window;
}

}  // namespace

bool searched_by_block(const graph::Graph& graph, graph::NodeId scatter) {
  const graph::Node& node = graph.node(scatter);
  if (node.op != graph::Op::scatter || !takes_rows(graph, node) || sorted_line(graph, scatter) > 0) return false;
  const std::int64_t places = node.type().dims[node.as<graph::ScatterAttributes>().inserted_window_dims[0]];
  if (places <= 0 || places >= std::numeric_limits<std::int32_t>::max()) return false;
  const std::int64_t row = node.type().elements() / places;
  if (row < least_row) return false;
  const std::int64_t updates = graph.type(node.operands[2]).elements() / row;
  if (updates <= fewest_updates || updates > most_updates) return false;
  if (graph.constraints.fixes_order()) return true;
  return updates <= most_tests / places && updates <= most_updates_of_place * places;
}

}  // namespace stitch::kernel
