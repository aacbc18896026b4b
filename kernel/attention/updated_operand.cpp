#include "kernel/attention/updated_operand.h"

#include <algorithm>

#include "graph/fill.h"
#include "graph/strided_view.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

std::optional<std::int64_t> integer_of(const Graph& graph, Value value) {
  const std::optional<double> number = graph::fill_number(graph, value);
  return number ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

std::int64_t elements_along(const ContractionDigits& digits) {
  std::int64_t elements = 1;
  for (const auto& digit : digits) elements *= digit.extent;
  return elements;
}

/// Digits of the whole as they are in the update, whose memory has `part` of the `extent` keys, `inner` elements each.
Result<ContractionDigits> in_update(const ContractionDigits& digits, std::int64_t inner, std::int64_t extent,
                                    std::int64_t part) {
  ContractionDigits found;
  for (const auto& [count, stride] : digits) {
    if (stride == 0) return make_error(ErrorKind::unsupported, "keys or values that are updated, and repeated");
    const bool outside = stride % (inner * extent) == 0;
    if (!outside && stride * count > inner)
      return make_error(ErrorKind::unsupported, "an update along a part of a joined dimension");
    found.push_back({count, outside ? stride / extent * part : stride});
  }
  return graph::collapsed(found);
}

/// The one dimension that an update has a part of.
Result<std::size_t> updated_dimension(const graph::Dims& whole, const graph::Dims& update) {
  std::optional<std::size_t> along;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (update[d] == whole[d]) continue;
    if (along) return make_error(ErrorKind::unsupported, "an update along several dimensions");
    along = d;
  }
  if (!along) return make_error(ErrorKind::unsupported, "an update that replaces all");
  return *along;
}

}  // namespace

int reshaped_parameter(const Graph& graph, Value value) {
  return parameter_number(graph, graph::without_reshapes(graph, value).node).value_or(-1);
}

std::optional<NodeId> update_before(const Graph& graph, Value operand) {
  const Value source = graph::view_of(graph, operand).source;
  const Node& node = graph.node(source.node);
  if (node.op != Op::dynamic_update_slice) return std::nullopt;
  if (reshaped_parameter(graph, node.operands[0]) < 0 || reshaped_parameter(graph, node.operands[1]) < 0)
    return std::nullopt;
  return source.node;
}

int updated_parameter_of(const Graph& graph, NodeId update) {
  return reshaped_parameter(graph, graph.node(update).operands[0]);
}

Result<UpdatedOperand> updated_operand(const Graph& graph, NodeId update, const ContractionOperand& whole,
                                       std::int64_t batches, bool free, int stored) {
  const Node& node = graph.node(update);
  const graph::Dims &dims = node.type().dims, &part = graph.type(node.operands[1]).dims;
  STITCH_ASSIGN(const std::size_t along, updated_dimension(dims, part));
  std::int64_t inner = 1;
  for (std::size_t d = along + 1; d < dims.size(); ++d) inner *= dims[d];
  const ContractionDigits& keys = free ? whole.free : whole.contracted;
  const ContractionDigits& others = free ? whole.contracted : whole.free;
  if (keys != ContractionDigits{{dims[along], inner}})
    return make_error(ErrorKind::unsupported, "an update along something else than the keys");
  const std::int64_t elements = node.type().elements();
  if (whole.offset != 0 || batches * elements_along(keys) * elements_along(others) != elements)
    return make_error(ErrorKind::unsupported, "keys or values that are a part of what is updated, or repeat it");
  if (contiguity(whole) != (free ? Contiguity::contracted : Contiguity::free))
    return make_error(ErrorKind::unsupported, "updated keys or values that lie side by side along the keys");

  UpdatedOperand found;
  found.keys = part[along];
  found.result = stored;
  found.elements = elements;
  found.update.parameter = reshaped_parameter(graph, node.operands[1]);
  found.update.dtype = whole.dtype;
  STITCH_ASSIGN(found.update.batch, in_update(whole.batch, inner, dims[along], found.keys));
  STITCH_ASSIGN(const ContractionDigits beside, in_update(others, inner, dims[along], found.keys));
  const ContractionDigits of_keys = graph::collapsed({{found.keys, inner}});
  found.update.free = free ? of_keys : beside;
  found.update.contracted = free ? beside : of_keys;
  const Value start = node.operands[2 + along];
  if (const std::optional<std::int64_t> first = integer_of(graph, start)) {
    found.first = std::clamp<std::int64_t>(*first, 0, dims[along] - found.keys);
  } else {
    found.start = reshaped_parameter(graph, start);
    if (found.start < 0) return make_error(ErrorKind::unsupported, "an update at a place that is computed");
  }
  return found;
}

void hash_update(Hasher& hasher, const UpdatedOperand& updated) {
  const auto integer = [&](std::int64_t value) { hasher.integer(static_cast<std::uint64_t>(value)); };
  const ContractionOperand& update = updated.update;
  for (const std::int64_t value : {std::int64_t{update.parameter}, updated.keys, std::int64_t{updated.start},
                                   updated.first, std::int64_t{updated.result}})
    integer(value);
  for (const ContractionDigits* digits : {&update.batch, &update.free, &update.contracted}) {
    integer(std::ssize(*digits));
    for (const auto& [extent, stride] : *digits) {
      integer(extent);
      integer(stride);
    }
  }
}

}  // namespace stitch::kernel
