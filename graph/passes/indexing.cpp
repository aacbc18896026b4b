#include "graph/passes/indexing.h"

#include <algorithm>
#include <numeric>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/conversions.h"
#include "graph/passes/known_scatters.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"
#include "graph/reduce_kind.h"

namespace stitch::graph {
namespace {

// A gather moves above an element-wise operator when it takes at most this share of the elements: the operator may
// have other users, and is then computed twice for what is taken.
constexpr std::int64_t gather_share = 8;

/// Constant start of dimension d of a dynamic slice of `sizes` out of `extents`, clamped; none when it is not known.
std::optional<std::int64_t> known_start(const Rewriter& graph, Value start, std::int64_t extent, std::int64_t size) {
  if (extent == size) return 0;
  const auto value = splat_integer(graph, start);
  if (!value) return std::nullopt;
  const bool wraps = graph.dtype(start) == DType::u64 && *value < 0;
  return wraps ? extent - size : std::clamp<std::int64_t>(*value, 0, extent - size);
}

/// The starts from operand `first` on with 0 for those that cannot be anything else; none if nothing changed.
std::optional<std::vector<Value>> normal_starts(Rewriter& graph, const Node& node, std::size_t first,
                                                const Dims& extents, const Dims& sizes) {
  std::vector<Value> starts(node.operands.begin() + first, node.operands.end());
  bool changed = false;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] != sizes[d] || splat_integer(graph, starts[d]) == 0) continue;
    starts[d] = graph.scalar_integer(graph.dtype(starts[d]), 0);
    changed = true;
  }
  return changed ? std::optional(starts) : std::nullopt;
}

Replacement dynamic_slice(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const Dims& extents = graph.dims(x);
  const Dims& sizes = node.as<DynamicSliceAttributes>().sizes;
  SliceAttributes fixed;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto start = known_start(graph, node.operands[d + 1], extents[d], sizes[d]);
    if (!start) break;
    fixed.starts.push_back(*start);
    fixed.limits.push_back(*start + sizes[d]);
    fixed.strides.push_back(1);
  }
  if (fixed.starts.size() == sizes.size()) return graph.slice(x, fixed.starts, fixed.limits, fixed.strides);
  auto starts = normal_starts(graph, node, 1, extents, sizes);
  if (!starts) return {};
  starts->insert(starts->begin(), x);
  return graph.add(Op::dynamic_slice, *starts, node.attributes);
}

Replacement dynamic_update_slice(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], update = node.operands[1];
  const Dims& extents = graph.dims(x);
  const Dims& sizes = graph.dims(update);
  if (sizes == extents) return update;
  if (element_count(sizes) == 0) return x;
  std::vector<std::int64_t> starts;
  std::vector<std::size_t> partial;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto start = known_start(graph, node.operands[d + 2], extents[d], sizes[d]);
    if (!start) break;
    starts.push_back(*start);
    if (extents[d] != sizes[d]) partial.push_back(d);
  }
  if (starts.size() == sizes.size()) {
    if (graph.is(x, Op::broadcast) && graph.node(x).as<BroadcastAttributes>().mapping.empty()) {
      PadAttributes widths{starts, Dims(sizes.size()), Dims(sizes.size(), 0)};
      for (std::size_t d = 0; d < sizes.size(); ++d) widths.high[d] = extents[d] - sizes[d] - starts[d];
      return graph.add(Op::pad, {update, graph.operand(x)}, widths);
    }
    if (partial.size() == 1) {
      const std::size_t d = partial[0];
      const Dims zeros(extents.size(), 0), ones(extents.size(), 1);
      Dims before = extents, after = zeros;
      before[d] = starts[d];
      after[d] = starts[d] + sizes[d];
      std::vector<Value> parts;
      if (starts[d] > 0) parts.push_back(graph.slice(x, zeros, before, ones));
      parts.push_back(update);
      if (after[d] < extents[d]) parts.push_back(graph.slice(x, after, extents, ones));
      return graph.concatenate(std::move(parts), d);
    }
  }
  auto normal = normal_starts(graph, node, 2, extents, sizes);
  if (!normal) return {};
  normal->insert(normal->begin(), {x, update});
  return graph.add(Op::dynamic_update_slice, *normal, node.attributes);
}

/// Where the dimensions of a gather's operand go: the result dimension that runs along it, or none for those that the
/// indices choose. None at all when a window takes part of a dimension.
std::optional<std::vector<std::optional<std::int64_t>>> operand_to_result(const Rewriter& graph, const Node& node) {
  const auto& a = node.as<GatherAttributes>();
  const Dims& extents = graph.dims(node.operands[0]);
  const std::int64_t rank = node.type().rank();
  // Result dimensions of the index tensor's dimensions, in order.
  std::vector<std::int64_t> batch_result;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(a.offset_dims, d)) batch_result.push_back(d);
  }
  std::vector<std::optional<std::int64_t>> result(extents.size());
  std::size_t next_offset = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t dimension = d;
    const auto batching = std::find(a.operand_batching_dims.begin(), a.operand_batching_dims.end(), dimension);
    if (batching != a.operand_batching_dims.end()) {
      std::int64_t index_dim = a.start_indices_batching_dims[batching - a.operand_batching_dims.begin()];
      if (index_dim > a.index_vector_dim) --index_dim;
      result[d] = batch_result[index_dim];
    } else if (!contains(a.collapsed_slice_dims, dimension)) {
      if (a.slice_sizes[d] != extents[d]) return std::nullopt;
      result[d] = a.offset_dims[next_offset++];
    }
  }
  return result;
}

/// gather of a broadcast whose operand does not depend on the chosen dimensions.
Replacement gather_of_broadcast(Rewriter& graph, const Node& node) {
  const auto& a = graph.node(node.operands[0]).as<BroadcastAttributes>();
  const auto places = operand_to_result(graph, node);
  if (!places) return {};
  Dims mapping;
  for (const std::int64_t d : a.mapping) {
    if (!(*places)[d]) return {};
    mapping.push_back(*(*places)[d]);
  }
  if (!std::is_sorted(mapping.begin(), mapping.end())) return {};
  return graph.broadcast(graph.operand(node.operands[0]), node.type().dims, mapping);
}

Replacement gather(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  if (graph.is(x, Op::broadcast)) return gather_of_broadcast(graph, node);
  const Node& inner = graph.node(x);
  if (!is_elementwise(inner.op) || inner.results.size() != 1) return {};
  if (node.type().elements() * gather_share > graph.type(x).elements()) return {};
  std::vector<Value> operands;
  for (const Value& operand : inner.operands) {
    operands.push_back(graph.add(Op::gather, {operand, node.operands[1]}, node.attributes));
  }
  return graph.add(inner.op, operands, inner.attributes);
}

/// A scatter of whole rows: every index names one, along `axis` of the operand.
struct RowScatter {
  std::size_t axis;
  Dims batch;  ///< dimensions of the updates that run over the indices
};

std::optional<RowScatter> row_scatter(const Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], index = node.operands[1], update = node.operands[2];
  const auto& a = node.as<ScatterAttributes>();
  if (!a.input_batching_dims.empty() || a.inserted_window_dims.size() != 1 ||
      a.scatter_dims_to_operand_dims != a.inserted_window_dims || a.index_vector_dim != graph.type(index).rank()) {
    return std::nullopt;
  }
  RowScatter rows{static_cast<std::size_t>(a.inserted_window_dims[0]), {}};
  Dims window;
  for (std::int64_t d = 0; d < graph.type(update).rank(); ++d) {
    if (contains(a.update_window_dims, d)) {
      window.push_back(graph.dims(update)[d]);
    } else {
      rows.batch.push_back(d);
    }
  }
  Dims row = graph.dims(x);
  row.erase(row.begin() + rows.axis);
  return window == row ? std::optional(rows) : std::nullopt;
}

constexpr std::int64_t few_rows = 4;

/// Sums of many updates into few rows (a gradient of token types) as one masked column sum per row: a scatter would add
/// thousands of updates to each element one after the other.
Replacement scatter_to_few_rows(Rewriter& graph, const Node& node, const RowScatter& to) {
  const Value x = node.operands[0], index = node.operands[1], update = node.operands[2];
  const ReduceKind kind = node.as<ScatterAttributes>().combiner;
  const std::int64_t rows = graph.dims(x)[to.axis];
  if (kind != ReduceKind::sum || rows == 0 || rows > few_rows || graph.type(index).elements() < 16 * rows ||
      !counts_exactly(graph.dtype(index), rows)) {
    return {};
  }
  Dims one_row = graph.dims(x);
  one_row[to.axis] = 1;
  const DType dtype = graph.dtype(x), wide = is_floating(dtype) ? info(dtype).accumulator : dtype;
  const Value none = graph.filled(graph.type(update), 0);
  std::vector<Value> sums;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Value wanted = graph.broadcast(graph.scalar_integer(graph.dtype(index), row), graph.dims(index), {});
    const Value here = graph.compare(Comparison::eq, index, wanted);
    const Value chosen = graph.select(graph.broadcast(here, graph.dims(update), to.batch), update, none);
    sums.push_back(graph.reshape(graph.reduce(ReduceKind::sum, graph.convert(chosen, wide), to.batch), one_row));
  }
  const Value all = graph.concatenate(std::move(sums), to.axis);
  return graph.convert(is_identity(graph, x, kind) ? all : graph.binary(Op::add, graph.convert(x, wide), all), dtype);
}

/// The first of indices that are known to count up by one.
std::optional<std::int64_t> first_of_run(const Rewriter& graph, Value index) {
  if (graph.is(index, Op::iota)) {
    const bool wraps = !counts_exactly(graph.dtype(index), graph.type(index).elements());
    return wraps ? std::nullopt : std::optional<std::int64_t>(0);
  }
  if (const auto all = splat_integer(graph, index); all && graph.type(index).elements() == 1) return all;
  if (!graph.is(index, Op::constant)) return std::nullopt;
  const auto& constant = graph.node(index).as<ConstantAttributes>();
  if (constant.type.elements() == 0) return std::nullopt;
  const std::int64_t first = load_integer(constant.type.dtype, constant.data.data());
  for (std::int64_t i = 1; i < constant.type.elements(); ++i) {
    // In unsigned arithmetic: what follows the greatest of 64 bits is no run, but no overflow either.
    const auto here = static_cast<std::uint64_t>(load_integer(constant.type.dtype, element_at(constant, i)));
    if (here - static_cast<std::uint64_t>(first) != static_cast<std::uint64_t>(i)) return std::nullopt;
  }
  return first;
}

/// An assignment to a slice of rows, as ONNX writes x[2:5] = y.
Replacement scatter_to_run_of_rows(Rewriter& graph, const Node& node, const RowScatter& to) {
  const Value x = node.operands[0], index = node.operands[1], update = node.operands[2];
  if (node.as<ScatterAttributes>().combiner != ReduceKind::replace || graph.type(index).rank() != 1) return {};
  const std::optional<std::int64_t> first = first_of_run(graph, index);
  if (!first || *first < 0 || *first > graph.dims(x)[to.axis] - graph.dims(index)[0]) return {};
  Dims rows_in_place(graph.dims(update).size());  // the update's dimensions in the order of x
  std::iota(rows_in_place.begin(), rows_in_place.end(), 0);
  rows_in_place.erase(rows_in_place.begin() + to.batch[0]);
  rows_in_place.insert(rows_in_place.begin() + to.axis, to.batch[0]);
  std::vector<Value> operands = {x, graph.transpose(update, rows_in_place)};
  for (std::size_t d = 0; d < graph.dims(x).size(); ++d) {
    operands.push_back(graph.scalar_integer(DType::s64, d == to.axis ? *first : 0));
  }
  return graph.add(Op::dynamic_update_slice, std::move(operands), UpdateAttributes{});
}

Replacement scatter(Rewriter& graph, const Node& node) {
  if (graph.type(node.operands[2]).elements() == 0) return node.operands[0];
  if (const std::optional<RowScatter> rows = row_scatter(graph, node)) {
    if (Replacement replacement = scatter_to_run_of_rows(graph, node, *rows)) return replacement;
    if (Replacement replacement = scatter_to_few_rows(graph, node, *rows)) return replacement;
  }
  if (Replacement replacement = scatter_to_known_places(graph, node)) return replacement;
  const Value x = node.operands[0], index = node.operands[1], update = node.operands[2];
  const auto& a = node.as<ScatterAttributes>();
  const Dims& extents = graph.dims(x);
  const Dims batch = graph.dims(index);
  if (!a.update_window_dims.empty() || a.inserted_window_dims.size() != 1 ||
      a.scatter_dims_to_operand_dims != a.inserted_window_dims) {
    return {};
  }
  const std::size_t axis = a.inserted_window_dims[0];
  Dims others(extents.size()), in_order(batch.size());
  std::iota(others.begin(), others.end(), 0);
  others.erase(others.begin() + axis);
  std::iota(in_order.begin(), in_order.end(), 0);
  if (a.input_batching_dims != others || a.scatter_indices_batching_dims != in_order ||
      a.index_vector_dim != std::ssize(batch) || !counts_exactly(graph.dtype(index), extents[axis])) {
    return {};
  }
  const DType index_type = graph.dtype(index);
  const Value line = graph.add(Op::iota, {}, IotaAttributes{{index_type, {extents[axis]}}, 0});
  const Value chosen = graph.compare(Comparison::eq, graph.broadcast(line, extents, {static_cast<std::int64_t>(axis)}),
                                     graph.broadcast(index, extents, others));
  const Value wide = graph.broadcast(update, extents, others);
  const bool replaces = a.combiner == ReduceKind::replace || is_identity(graph, x, a.combiner);
  return graph.select(chosen, replaces ? wide : graph.binary(combining_op(a.combiner), x, wide), x);
}

Replacement indexing_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::dynamic_slice: return dynamic_slice(graph, node);
    case Op::dynamic_update_slice: return dynamic_update_slice(graph, node);
    case Op::gather: return gather(graph, node);
    case Op::scatter: return scatter(graph, node);
    default: return {};
  }
}

}  // namespace

Result<int> simplify_indexing(Graph& graph, const PassContext&) { return rewrite(graph, indexing_rule); }

}  // namespace stitch::graph
