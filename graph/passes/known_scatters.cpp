#include "graph/passes/known_scatters.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/splat.h"
#include "graph/reduce_kind.h"

namespace stitch::graph {
namespace {

constexpr std::size_t most_meeting = 2;
constexpr std::int64_t fewest_updates = 8;  // fewer are tested everywhere as quickly as a table is read
constexpr std::int64_t most_places = 1 << 16;
/// A scatter into so many more places than it has updates writes most of its operand unchanged, which in place costs
/// nothing.
constexpr std::int64_t most_sparse = 64;

Dims taken(const Dims& dims, const Dims& positions) {
  Dims result;
  for (const std::int64_t p : positions) result.push_back(dims[p]);
  return result;
}

Dims remaining(std::int64_t rank, const Dims& positions) {
  Dims result;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(positions, d)) result.push_back(d);
  }
  return result;
}

/// The scatter's dimensions by what they do.
struct Places {
  Dims scattered;            ///< dimensions of the operand that indices name, ascending
  Dims kept;                 ///< its others
  Dims batch;                ///< dimensions of the updates that run over the indices
  Dims windows;              ///< its others: as the operand's kept ones
  std::int64_t count = 0;    ///< places that indices can name
  std::int64_t updates = 0;  ///< indices
};

/// None where an update is a part of what its index names.
std::optional<Places> places_of(const Rewriter& graph, const Node& node) {
  const auto& a = node.as<ScatterAttributes>();
  const Dims &operand = graph.dims(node.operands[0]), &update = graph.dims(node.operands[2]);
  Dims named = a.scatter_dims_to_operand_dims;
  std::ranges::sort(named);
  if (!a.input_batching_dims.empty() || named != a.inserted_window_dims) return std::nullopt;
  Places places{named, remaining(std::ssize(operand), named), remaining(std::ssize(update), a.update_window_dims),
                a.update_window_dims};
  if (without(operand, places.scattered) != taken(update, places.windows)) return std::nullopt;
  places.count = element_count(taken(operand, places.scattered));
  places.updates = element_count(without(update, places.windows));
  return places;
}

/// By place, row-major in the scattered dimensions: the updates that meet there, in order. What is out of range is in
/// none.
std::vector<std::vector<std::int64_t>> meeting_updates(const Rewriter& graph, const Node& node, const Places& places) {
  const auto& a = node.as<ScatterAttributes>();
  const auto& indices = graph.node(node.operands[1]).as<ConstantAttributes>();
  const Dims& operand = graph.dims(node.operands[0]);
  const Dims strides = row_major_strides(indices.type.dims);
  const bool has_vector = a.index_vector_dim < indices.type.rank();
  const std::int64_t step = has_vector ? strides[a.index_vector_dim] : 0;
  const Dims batch = remaining(indices.type.rank(), has_vector ? Dims{a.index_vector_dim} : Dims{});
  const Dims extents = taken(indices.type.dims, batch), batch_strides = taken(strides, batch);
  const Dims place_strides = row_major_strides(taken(operand, places.scattered));
  std::vector<std::vector<std::int64_t>> meeting(places.count);
  for (std::int64_t update = 0; update < places.updates; ++update) {
    std::int64_t from = 0;
    for (std::int64_t d = std::ssize(extents), rest = update; d-- > 0; rest /= extents[d])
      from += rest % extents[d] * batch_strides[d];
    std::int64_t place = 0;
    bool inside = true;
    for (std::int64_t k = 0; k < std::ssize(a.scatter_dims_to_operand_dims); ++k) {
      const std::int64_t dim = a.scatter_dims_to_operand_dims[k];
      const std::int64_t at = load_integer(indices.type.dtype, element_at(indices, from + k * step));
      inside = inside && at >= 0 && at < operand[dim];
      if (!inside) break;
      place += at * place_strides[std::ranges::find(places.scattered, dim) - places.scattered.begin()];
    }
    if (inside) meeting[place].push_back(update);
  }
  return meeting;
}

/// Builds what takes the scatter's place.
class Turned {
 public:
  Turned(Rewriter& graph, const Node& node, const Places& places)
      : graph_(graph), node_(node), places_(places), kind_(node.as<ScatterAttributes>().combiner) {
    rows_ = without(graph.dims(node.operands[0]), places.scattered);
    updates_ = graph.reshape(graph.transpose(node.operands[2], joined(places.batch, places.windows)),
                             joined({places.updates}, rows_));
  }

  /// All of the operand's places with the `turn`-th of the updates that meet there; elsewhere what `total` has.
  Value combine(Value total, const std::vector<std::vector<std::int64_t>>& meeting, std::size_t turn) {
    std::vector<std::int64_t> source(meeting.size(), 0), here(meeting.size(), 0);
    for (std::size_t p = 0; p < meeting.size(); ++p) {
      if (turn >= meeting[p].size()) continue;
      source[p] = meeting[p][turn];
      here[p] = 1;
    }
    const Value update = graph_.convert(in_place(gathered(table(DType::s32, source))), graph_.dtype(total));
    const Value combined = kind_ == ReduceKind::replace ? update : graph_.binary(combining_op(kind_), total, update);
    if (std::ranges::count(here, 0) == 0) return combined;
    const Value mask = in_place(graph_.broadcast(table(DType::pred, here), joined({std::ssize(here)}, rows_), {0}));
    return graph_.select(mask, combined, total);
  }

 private:
  Value table(DType dtype, const std::vector<std::int64_t>& values) {
    return graph_.constant(dense_integers({dtype, {std::ssize(values)}}, values));
  }

  /// [places, kept…]: the updates by place.
  Value gathered(Value source) {
    GatherAttributes attributes;
    attributes.collapsed_slice_dims = {0};
    attributes.start_index_map = {0};
    attributes.index_vector_dim = 1;
    attributes.slice_sizes = joined({1}, rows_);
    for (std::int64_t d = 0; d < std::ssize(rows_); ++d) attributes.offset_dims.push_back(d + 1);
    return graph_.add(Op::gather, {updates_, source}, attributes);
  }

  /// From [places, kept…] to the operand's dimensions.
  Value in_place(Value x) {
    const Dims& operand = graph_.dims(node_.operands[0]);
    const Dims apart = joined(taken(operand, places_.scattered), rows_);
    Dims back(operand.size());
    for (std::size_t d = 0; d < places_.scattered.size(); ++d) back[places_.scattered[d]] = d;
    for (std::size_t d = 0; d < places_.kept.size(); ++d) back[places_.kept[d]] = places_.scattered.size() + d;
    return graph_.transpose(graph_.reshape(x, apart), back);
  }

  Rewriter& graph_;
  const Node& node_;
  const Places& places_;
  ReduceKind kind_;
  Dims rows_;
  Value updates_;
};

}  // namespace

Replacement scatter_to_known_places(Rewriter& graph, const Node& node) {
  if (!graph.is(node.operands[1], Op::constant)) return {};
  const std::optional<Places> places = places_of(graph, node);
  if (!places || places->updates < fewest_updates || places->count > most_places ||
      places->count > most_sparse * places->updates)
    return {};
  std::vector<std::vector<std::int64_t>> meeting = meeting_updates(graph, node, *places);
  const ReduceKind kind = node.as<ScatterAttributes>().combiner;
  std::size_t turns = 0;
  for (std::vector<std::int64_t>& here : meeting) {
    if (kind == ReduceKind::replace && here.size() > 1) here = {here.back()};
    turns = std::max(turns, here.size());
  }
  if (turns > most_meeting) return {};
  const Value x = node.operands[0];
  const DType dtype = graph.dtype(x);
  const bool sums = is_floating(dtype) && kind != ReduceKind::replace;
  Value total = graph.convert(x, sums ? info(dtype).accumulator : dtype);
  Turned turned(graph, node, *places);
  for (std::size_t turn = 0; turn < turns; ++turn) total = turned.combine(total, meeting, turn);
  return graph.convert(total, dtype);
}

}  // namespace stitch::graph
