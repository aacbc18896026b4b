#include "kernel/attention/paged_operand.h"

#include "kernel/attention/updated_operand.h"

namespace stitch::kernel {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;

bool gathers_pages(const Graph& graph, NodeId gather) {
  const Node& node = graph.node(gather);
  if (node.op != graph::Op::gather) return false;
  const auto& a = node.as<graph::GatherAttributes>();
  const graph::Dims &cache = graph.type(node.operands[0]).dims, &table = graph.type(node.operands[1]).dims;
  const auto rank = std::ssize(node.type().dims), kept = std::ssize(cache) - 1;
  const bool by_first = a.collapsed_slice_dims == graph::Dims{0} && a.start_index_map == graph::Dims{0} &&
                        a.operand_batching_dims.empty();
  const bool of_numbers =
      a.index_vector_dim == std::ssize(table) || (a.index_vector_dim == std::ssize(table) - 1 && table.back() == 1);
  if (!by_first || !of_numbers || cache[0] == 0) return false;
  for (std::int64_t d = 0; d < kept; ++d) {
    if (a.slice_sizes[d + 1] != cache[d + 1] || a.offset_dims[d] != rank - kept + d) return false;
  }
  return std::ssize(a.offset_dims) == kept;
}

std::optional<NodeId> gather_before(const Graph& graph, Value operand) {
  const Value source = graph::view_of(graph, operand).source;
  if (!gathers_pages(graph, source.node)) return std::nullopt;
  const Node& node = graph.node(source.node);
  if (reshaped_parameter(graph, node.operands[0]) < 0 || reshaped_parameter(graph, node.operands[1]) < 0)
    return std::nullopt;
  return source.node;
}

int paged_parameter_of(const Graph& graph, NodeId gather) {
  return reshaped_parameter(graph, graph.node(gather).operands[0]);
}

Result<PagedOperand> paged_operand(const Graph& graph, NodeId gather, const ContractionOperand& operand) {
  const Node& node = graph.node(gather);
  const graph::TensorType& cache = graph.type(node.operands[0]);
  PagedOperand found;
  found.table = reshaped_parameter(graph, node.operands[1]);
  found.pages = cache.dims[0];
  found.page = cache.elements() / found.pages;
  found.gathered = node.type().elements();
  if (found.page * graph::byte_size(operand.dtype) % widest_bytes != 0)
    return make_error(ErrorKind::unsupported, "keys or values in pages of {} elements", found.page);
  return found;
}

void hash_pages(Hasher& hasher, const PagedOperand& paged) {
  for (const std::int64_t value : {std::int64_t{paged.table}, paged.pages, paged.page, paged.gathered})
    hasher.integer(static_cast<std::uint64_t>(value));
}

}  // namespace stitch::kernel
