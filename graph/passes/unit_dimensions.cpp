#include "graph/passes/unit_dimensions.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

/// A set of dimensions of one tensor that are to go.
class Dropped {
 public:
  explicit Dropped(std::size_t rank) : gone_(rank, false) {}
  /// Those of extent 1.
  explicit Dropped(const Dims& dims) : gone_(dims.size()) {
    for (std::size_t d = 0; d < dims.size(); ++d) gone_[d] = dims[d] == 1;
  }

  void keep(std::int64_t dimension) { gone_[dimension] = false; }
  void drop(std::int64_t dimension) { gone_[dimension] = true; }
  [[nodiscard]] bool has(std::int64_t dimension) const { return gone_[dimension]; }
  [[nodiscard]] bool none() const { return std::find(gone_.begin(), gone_.end(), true) == gone_.end(); }

  /// Per-dimension entries (extents, starts, …) of the dimensions that stay.
  [[nodiscard]] Dims entries(const Dims& list) const {
    Dims rest;
    for (std::size_t d = 0; d < list.size(); ++d) {
      if (!gone_[d]) rest.push_back(list[d]);
    }
    return rest;
  }
  /// Dimension numbers: those that stay, renumbered.
  [[nodiscard]] Dims numbers(const Dims& list) const {
    Dims rest;
    for (const std::int64_t d : list) {
      if (!has(d)) rest.push_back(number(d));
    }
    return rest;
  }
  [[nodiscard]] std::int64_t number(std::int64_t dimension) const {
    return dimension - std::count(gone_.begin(), gone_.begin() + dimension, true);
  }

 private:
  std::vector<bool> gone_;
};

Value without_dimensions(Rewriter& graph, Value x, const Dropped& dropped) {
  return graph.reshape(x, dropped.entries(graph.dims(x)));
}

Replacement elementwise(Rewriter& graph, const Node& node) {
  const Dropped dropped(node.type().dims);
  if (dropped.none()) return {};
  std::vector<Value> operands;
  for (const Value& operand : node.operands) operands.push_back(without_dimensions(graph, operand, dropped));
  const Value value = graph.add(node.op, operands, node.attributes);
  std::vector<Value> results;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    results.push_back(graph.reshape({value.node, value.result + static_cast<std::int32_t>(i)}, node.results[i].dims));
  }
  return results;
}

/// The common shape of rules for operators with one tensor operand: the operand and the attributes without the
/// dimensions, then back to the result's shape.
template <class A>
Replacement narrowed(Rewriter& graph, const Node& node, const Dropped& dropped, A attributes,
                     std::vector<Value> other_operands = {}) {
  if (dropped.none()) return {};
  std::vector<Value> operands = {without_dimensions(graph, node.operands[0], dropped)};
  operands.insert(operands.end(), other_operands.begin(), other_operands.end());
  return graph.reshape(graph.add(node.op, operands, std::move(attributes)), node.type().dims);
}

Replacement broadcast(Rewriter& graph, const Node& node) {
  const auto& a = node.as<BroadcastAttributes>();
  const Dropped result_dropped(a.dims), operand_dropped(graph.dims(node.operands[0]));
  // Every unit dimension of the operand is one of the result, but the result may have more.
  if (result_dropped.none()) return {};
  const Value operand = without_dimensions(graph, node.operands[0], operand_dropped);
  const Value wide = graph.broadcast(operand, result_dropped.entries(a.dims), result_dropped.numbers(a.mapping));
  return graph.reshape(wide, a.dims);
}

Replacement transpose(Rewriter& graph, const Node& node) {
  const Dropped dropped(graph.dims(node.operands[0]));
  if (dropped.none()) return {};
  const Value x = without_dimensions(graph, node.operands[0], dropped);
  return graph.reshape(graph.transpose(x, dropped.numbers(node.as<TransposeAttributes>().permutation)),
                       node.type().dims);
}

Replacement reduce(Rewriter& graph, const Node& node) {
  const auto& a = node.as<ReduceAttributes>();
  const Dropped dropped(graph.dims(node.operands[0]));
  if (dropped.none()) return {};
  const Value x = without_dimensions(graph, node.operands[0], dropped);
  return graph.reshape(graph.reduce(a.kind, x, dropped.numbers(a.dimensions)), node.type().dims);
}

Replacement slice_without_units(Rewriter& graph, const Node& node) {
  const auto& a = node.as<SliceAttributes>();
  Dropped dropped(graph.dims(node.operands[0]));
  for (std::size_t d = 0; d < a.starts.size(); ++d) {
    if (a.limits[d] == a.starts[d]) dropped.keep(d);
  }
  if (dropped.none()) return {};
  const Value x = without_dimensions(graph, node.operands[0], dropped);
  return graph.reshape(graph.slice(x, dropped.entries(a.starts), dropped.entries(a.limits), dropped.entries(a.strides)),
                       node.type().dims);
}

Replacement pad_without_units(Rewriter& graph, const Node& node) {
  const auto& a = node.as<PadAttributes>();
  Dropped dropped(graph.dims(node.operands[0]));
  for (std::size_t d = 0; d < a.low.size(); ++d) {
    if (a.low[d] != 0 || a.high[d] != 0) dropped.keep(d);
  }
  return narrowed(graph, node, dropped,
                  PadAttributes{dropped.entries(a.low), dropped.entries(a.high), dropped.entries(a.interior)},
                  {node.operands[1]});
}

Replacement concatenate(Rewriter& graph, const Node& node) {
  const std::int64_t dimension = node.as<ConcatenateAttributes>().dimension;
  Dropped dropped(graph.dims(node.operands[0]));
  dropped.keep(dimension);
  if (dropped.none()) return {};
  std::vector<Value> parts;
  for (const Value& part : node.operands) parts.push_back(without_dimensions(graph, part, dropped));
  return graph.reshape(graph.concatenate(std::move(parts), dropped.number(dimension)), node.type().dims);
}

Replacement reverse_without_units(Rewriter& graph, const Node& node) {
  const Dropped dropped(node.type().dims);
  if (dropped.none()) return {};
  const Dims rest = dropped.numbers(node.as<ReverseAttributes>().dimensions);
  const Value x = without_dimensions(graph, node.operands[0], dropped);
  return graph.reshape(rest.empty() ? x : graph.add(Op::reverse, {x}, ReverseAttributes{rest}), node.type().dims);
}

Replacement iota(Rewriter& graph, const Node& node) {
  const auto& a = node.as<IotaAttributes>();
  if (a.type.dims[a.dimension] == 1) return graph.filled(a.type, 0);
  const Dropped dropped(a.type.dims);
  if (dropped.none()) return {};
  const IotaAttributes narrow{{a.type.dtype, dropped.entries(a.type.dims)}, dropped.number(a.dimension)};
  return graph.reshape(graph.add(Op::iota, {}, narrow), a.type.dims);
}

Replacement scan(Rewriter& graph, const Node& node) {
  auto a = node.as<ScanAttributes>();
  if (node.type().dims[a.dimension] == 1 && !a.exclusive) return node.operands[0];
  Dropped dropped(node.type().dims);
  dropped.keep(a.dimension);
  a.dimension = dropped.number(a.dimension);
  return narrowed(graph, node, dropped, a);
}

Replacement associative_scan(Rewriter& graph, const Node& node) {
  auto a = node.as<AssociativeScanAttributes>();
  if (node.type().dims[a.dimension] == 1) return node.operands;
  Dropped dropped(node.type().dims);
  dropped.keep(a.dimension);
  if (dropped.none()) return {};
  a.dimension = dropped.number(a.dimension);
  std::vector<Value> operands, results;
  for (const Value operand : node.operands) operands.push_back(without_dimensions(graph, operand, dropped));
  const Value narrow = graph.add(Op::associative_scan, operands, a, node.regions);
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r)
    results.push_back(graph.reshape({narrow.node, r}, node.type(r).dims));
  return results;
}

Replacement sort(Rewriter& graph, const Node& node) {
  auto a = node.as<SortAttributes>();
  const Dims& dims = graph.dims(node.operands[0]);
  if (dims[a.dimension] == 1 && a.count == 1) return node.operands;
  Dropped dropped(dims);
  dropped.keep(a.dimension);
  if (dropped.none()) return {};
  a.dimension = dropped.number(a.dimension);
  std::vector<Value> operands, results;
  for (const Value operand : node.operands) operands.push_back(without_dimensions(graph, operand, dropped));
  const Value narrow = graph.add(Op::sort, operands, a);
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r)
    results.push_back(graph.reshape({narrow.node, r}, node.type(r).dims));
  return results;
}

/// Start operands of the dimensions that stay, from operand `first` on. A start along an extent of 1 is always 0.
std::vector<Value> kept_starts(const Node& node, std::size_t first, const Dropped& dropped) {
  std::vector<Value> starts;
  for (std::size_t i = first; i < node.operands.size(); ++i) {
    if (!dropped.has(i - first)) starts.push_back(node.operands[i]);
  }
  return starts;
}

Replacement dynamic_slice(Rewriter& graph, const Node& node) {
  const auto& a = node.as<DynamicSliceAttributes>();
  Dropped dropped(graph.dims(node.operands[0]));
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] == 0) dropped.keep(d);
  }
  return narrowed(graph, node, dropped, DynamicSliceAttributes{dropped.entries(a.sizes)},
                  kept_starts(node, 1, dropped));
}

Replacement dynamic_update_slice(Rewriter& graph, const Node& node) {
  Dropped dropped(graph.dims(node.operands[0]));
  const Dims& update = graph.dims(node.operands[1]);
  for (std::size_t d = 0; d < update.size(); ++d) {
    if (update[d] == 0) dropped.keep(d);
  }
  if (dropped.none()) return {};
  std::vector<Value> rest = kept_starts(node, 2, dropped);
  rest.insert(rest.begin(), without_dimensions(graph, node.operands[1], dropped));
  return narrowed(graph, node, dropped, node.attributes, rest);
}

/// Unit dimensions of an index tensor that are no batching dimensions; the index vector's own dimension counts when it
/// has one entry.
Dropped index_units(const Dims& indices, const Dims& batching) {
  Dropped dropped(indices);
  for (const std::int64_t d : batching) dropped.keep(d);
  return dropped;
}

/// Result (or updates) dimensions that come from the dropped dimensions of the indices.
Dropped batch_units(std::size_t rank, const Dims& window_dims, const Dims& indices, std::int64_t vector_dim,
                    const Dropped& index_dropped) {
  Dropped dropped(rank);
  std::int64_t next = 0;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (contains(window_dims, d)) continue;
    if (next == vector_dim) ++next;
    if (next < std::ssize(indices) && index_dropped.has(next)) dropped.drop(d);
    ++next;
  }
  return dropped;
}

/// Where the index vector lies once dimensions are dropped: implicit (behind the last) when its own is.
std::int64_t vector_dimension(std::int64_t vector_dim, const Dims& indices, const Dropped& dropped) {
  const std::int64_t rank = indices.size();
  if (vector_dim == rank || dropped.has(vector_dim)) return dropped.entries(indices).size();
  return dropped.number(vector_dim);
}

Replacement gather(Rewriter& graph, const Node& node) {
  GatherAttributes a = node.as<GatherAttributes>();
  const Dims indices = graph.dims(node.operands[1]);
  const Dropped dropped = index_units(indices, a.start_indices_batching_dims);
  if (dropped.none()) return {};
  const Dropped result = batch_units(node.type().dims.size(), a.offset_dims, indices, a.index_vector_dim, dropped);
  a.offset_dims = result.numbers(a.offset_dims);
  a.start_indices_batching_dims = dropped.numbers(a.start_indices_batching_dims);
  a.index_vector_dim = vector_dimension(a.index_vector_dim, indices, dropped);
  const Value narrow = without_dimensions(graph, node.operands[1], dropped);
  return graph.reshape(graph.add(Op::gather, {node.operands[0], narrow}, a), node.type().dims);
}

Replacement scatter(Rewriter& graph, const Node& node) {
  ScatterAttributes a = node.as<ScatterAttributes>();
  const Dims indices = graph.dims(node.operands[1]);
  const Dropped dropped = index_units(indices, a.scatter_indices_batching_dims);
  if (dropped.none()) return {};
  const Dims& updates = graph.dims(node.operands[2]);
  const Dropped update = batch_units(updates.size(), a.update_window_dims, indices, a.index_vector_dim, dropped);
  a.update_window_dims = update.numbers(a.update_window_dims);
  a.scatter_indices_batching_dims = dropped.numbers(a.scatter_indices_batching_dims);
  a.index_vector_dim = vector_dimension(a.index_vector_dim, indices, dropped);
  return graph.add(Op::scatter,
                   {node.operands[0], without_dimensions(graph, node.operands[1], dropped),
                    without_dimensions(graph, node.operands[2], update)},
                   a);
}

Replacement dot(Rewriter& graph, const Node& node) {
  DotAttributes a = node.as<DotAttributes>();
  Dropped left(graph.dims(node.operands[0])), right(graph.dims(node.operands[1]));
  if (left.none() && right.none()) return {};
  // Batch and contracted dimensions are paired, so both sides drop them; free ones go one by one.
  const auto rest = [](const Dims& list, const Dropped& dropped) { return dropped.numbers(list); };
  a.lhs_batch = rest(a.lhs_batch, left);
  a.lhs_contracting = rest(a.lhs_contracting, left);
  a.rhs_batch = rest(a.rhs_batch, right);
  a.rhs_contracting = rest(a.rhs_contracting, right);
  const Value product = graph.add(
      Op::dot, {without_dimensions(graph, node.operands[0], left), without_dimensions(graph, node.operands[1], right)},
      a);
  return graph.reshape(product, node.type().dims);
}

Replacement unit_dimensions_rule(Rewriter& graph, const Node& node) {
  if (is_elementwise(node.op)) return elementwise(graph, node);
  switch (node.op) {
    case Op::broadcast: return broadcast(graph, node);
    case Op::transpose: return transpose(graph, node);
    case Op::reduce: return reduce(graph, node);
    case Op::slice: return slice_without_units(graph, node);
    case Op::pad: return pad_without_units(graph, node);
    case Op::concatenate: return concatenate(graph, node);
    case Op::reverse: return reverse_without_units(graph, node);
    case Op::iota: return iota(graph, node);
    case Op::scan: return scan(graph, node);
    case Op::associative_scan: return associative_scan(graph, node);
    case Op::sort: return sort(graph, node);
    case Op::dynamic_slice: return dynamic_slice(graph, node);
    case Op::dynamic_update_slice: return dynamic_update_slice(graph, node);
    case Op::gather: return gather(graph, node);
    case Op::scatter: return scatter(graph, node);
    case Op::dot: return dot(graph, node);
    default: return {};
  }
}

}  // namespace

Result<int> drop_unit_dimensions(Graph& graph, const PassContext&) { return rewrite(graph, unit_dimensions_rule); }

}  // namespace stitch::graph
