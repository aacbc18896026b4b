#include "kernel/index/sorted_indices.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "graph/strided_view.h"

namespace stitch::kernel {

std::int64_t sorted_line(const graph::Graph& graph, graph::NodeId scatter) {
  const graph::Node& node = graph.node(scatter);
  if (node.op != graph::Op::scatter) return 0;
  const auto& a = node.as<graph::ScatterAttributes>();
  const graph::TensorType& indices = graph.type(node.operands[1]);
  // A vector of one index does not change the order; several are no key.
  if (a.scatter_dims_to_operand_dims.size() != 1 || a.scatter_dims_to_operand_dims != a.inserted_window_dims ||
      !a.input_batching_dims.empty())
    return 0;
  if (indices.dtype != graph::DType::s32 && indices.dtype != graph::DType::s64) return 0;
  const graph::Value value = graph::without_reshapes(graph, node.operands[1]);
  const graph::Node& sort = graph.node(value.node);
  if (sort.op != graph::Op::sort || value.result != 0) return 0;
  const auto& order = sort.as<graph::SortAttributes>();
  const graph::Dims& lines = graph.type(sort.operands[0]).dims;
  const bool last = order.dimension + 1 == std::ssize(lines);
  const std::int64_t places = node.type().dims[a.inserted_window_dims[0]];
  if (places >= std::numeric_limits<std::int32_t>::max()) return 0;
  return !order.descending && last && order.count == lines.back() && order.count > 1 ? order.count : 0;
}

int updates_in_flight(const graph::Graph& graph, graph::NodeId scatter, std::int64_t elements) {
  const graph::Node& node = graph.node(scatter);
  const std::int64_t places = node.type().dims[node.as<graph::ScatterAttributes>().inserted_window_dims[0]];
  const std::int64_t each = std::max<std::int64_t>(sorted_line(graph, scatter) / std::max<std::int64_t>(places, 1), 1);
  const auto most = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(each)));
  return static_cast<int>(std::max<std::int64_t>(std::clamp<std::int64_t>(most, 4, 16) / elements, 1));
}

}  // namespace stitch::kernel
