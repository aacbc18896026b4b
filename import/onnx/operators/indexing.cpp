// Indexing: gathers, scatters and one-hot vectors. Negative indices count from the end.
#include <algorithm>

#include "graph/passes/conversions.h"
#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

using graph::GatherAttributes;
using graph::ScatterAttributes;

/// The rows of `x` along `axis` that constant indices name, when they are neighbours: a slice.
std::optional<Value> gather_slice(Call& c, Value x, std::int64_t axis, Value indices) {
  if (c.rank(indices) > 1) return std::nullopt;
  const std::optional<graph::ConstantAttributes> constant = c.constant(indices);
  if (!constant) return std::nullopt;
  const Dims list = integers_of(*constant);
  const std::int64_t extent = c.dims(x)[axis];
  if (list.empty()) return std::nullopt;
  const std::int64_t first = list[0] < 0 ? list[0] + extent : list[0];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int64_t index = list[i] < 0 ? list[i] + extent : list[i];
    if (index < 0 || index >= extent || index != first + static_cast<std::int64_t>(i)) return std::nullopt;
  }
  const Value rows = slice_axis(c.b, x, axis, first, first + list.size());
  if (c.rank(indices) == 1) return rows;
  Dims dims = c.dims(x);
  dims.erase(dims.begin() + axis);
  return c.b.reshape(rows, dims);
}

/// Indices with negative ones counted from the end; constants are rewritten, so that no arithmetic stays.
Value normal_indices(Call& c, Value indices, std::int64_t extent) {
  const std::optional<graph::ConstantAttributes> constant = c.constant(indices);
  if (!constant || graph::is_unsigned_integer(c.dtype(indices))) return wrap_indices(c.b, indices, extent);
  Dims list = integers_of(*constant);
  bool changed = false;
  for (std::int64_t& index : list) {
    changed |= index < 0;
    if (index < 0) index += extent;
  }
  return changed ? integers(c.b, c.dtype(indices), c.dims(indices), list) : indices;
}

/// Index tensor [..., n] of full coordinates into `dims`, where the coordinate of `axis` is `indices`, and the others
/// are the position itself.
Value coordinates(Call& c, Value indices, std::int64_t axis) {
  Dims dims = c.dims(indices);
  Dims column = dims;
  column.push_back(1);
  Values parts;
  for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
    parts.push_back(c.b.reshape(d == axis ? indices : c.b.iota(c.dtype(indices), dims, d), column));
  }
  return c.b.concatenate(std::move(parts), dims.size());
}

std::optional<ReduceKind> combiner_of(std::string_view reduction) {
  if (reduction == "none") return ReduceKind::replace;
  if (reduction == "add") return ReduceKind::sum;
  if (reduction == "mul") return ReduceKind::product;
  if (reduction == "max") return ReduceKind::max;
  if (reduction == "min") return ReduceKind::min;
  return std::nullopt;
}

Status need_indices(Call& c, std::size_t input) {
  if (graph::is_integer(c.dtype(c.in(input)))) return {};
  return Call::wrong("input {} is {}, not of integers", input, graph::to_string(c.b.type(c.in(input))));
}

}  // namespace

Result<Values> gather(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_TRY(need_indices(c, 1));
  const Value x = c.in(0);
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(x)));
  const std::int64_t extent = c.dims(x)[axis];
  c.note_range(c.in(1), 0, extent - 1);
  if (const std::optional<Value> sliced = gather_slice(c, x, axis, c.in(1))) return Values{*sliced};
  const Value indices = normal_indices(c, c.in(1), extent);
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.index_vector_dim = c.rank(indices);
  a.slice_sizes = c.dims(x);
  a.slice_sizes[axis] = std::min<std::int64_t>(extent, 1);
  const std::int64_t index_rank = c.rank(indices);
  for (std::int64_t d = 0; d < c.rank(x); ++d) {
    if (d != axis) a.offset_dims.push_back(d < axis ? d : d - 1 + index_rank);
  }
  return Values{c.b.add(Op::gather, {x, indices}, std::move(a))};
}

Result<Values> gather_elements(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_TRY(need_indices(c, 1));
  Value x = c.in(0);
  if (c.rank(c.in(1)) != c.rank(x)) return Call::wrong("input 1 has another rank than input 0");
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(x)));
  const std::int64_t extent = c.dims(x)[axis];
  c.note_range(c.in(1), 0, extent - 1);
  const Value indices = normal_indices(c, c.in(1), extent);
  for (std::int64_t d = 0; d < c.rank(x); ++d) {
    if (d == axis) continue;
    if (c.dims(indices)[d] > c.dims(x)[d]) return Call::wrong("input 1 is larger than input 0");
    x = slice_axis(c.b, x, d, 0, c.dims(indices)[d]);
  }
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.operand_batching_dims = a.start_indices_batching_dims = other_axes(c.rank(x), {axis});
  a.index_vector_dim = c.rank(indices);
  a.slice_sizes.assign(c.rank(x), 1);
  return Values{c.b.add(Op::gather, {x, indices}, std::move(a))};
}

namespace {

/// Index vectors [..., n] into the dimensions of x from `batch` on; negative entries counted from the end.
Value normal_vectors(Call& c, Value x, Value indices, std::int64_t batch) {
  const std::int64_t length = c.dims(indices).back();
  Dims extents;
  for (std::int64_t i = 0; i < length; ++i) extents.push_back(c.dims(x)[batch + i]);
  if (const std::optional<graph::ConstantAttributes> constant = c.constant(indices)) {
    Dims list = integers_of(*constant);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i] < 0) list[i] += extents[i % extents.size()];
    }
    return integers(c.b, c.dtype(indices), c.dims(indices), list);
  }
  if (!extents.empty()) c.note_range(indices, 0, *std::min_element(extents.begin(), extents.end()) - 1);
  const Value row = integers(c.b, c.dtype(indices), {length}, extents);
  const Value negative = compare(c.b, Comparison::lt, indices, 0.0);
  return c.b.select(negative, add(c.b, indices, row), indices);
}

Status check_vectors(Call& c, std::size_t input, std::int64_t batch) {
  STITCH_TRY(need_indices(c, input));
  STITCH_TRY(c.need_rank(input, batch + 1));
  const std::int64_t length = c.dims(c.in(input)).back();
  if (length >= 1 && batch + length <= c.rank(c.in(0))) return {};
  return Call::wrong("input {} has index vectors of {} entries for {}", input, length,
                     graph::to_string(c.b.type(c.in(0))));
}

}  // namespace

Result<Values> gather_nd(Call& c) {
  STITCH_ASSIGN(const std::int64_t batch, c.node.integer("batch_dims", 0));
  if (batch < 0 || batch >= c.rank(c.in(0))) return Call::wrong("attribute 'batch_dims' is {}", batch);
  STITCH_TRY(check_vectors(c, 1, batch));
  const Value x = c.in(0);
  const std::int64_t length = c.dims(c.in(1)).back(), index_rank = c.rank(c.in(1));
  const Value indices = normal_vectors(c, x, c.in(1), batch);
  GatherAttributes a;
  for (std::int64_t i = 0; i < length; ++i) a.start_index_map.push_back(batch + i);
  a.collapsed_slice_dims = a.start_index_map;
  a.operand_batching_dims = a.start_indices_batching_dims = first_axes(batch);
  a.index_vector_dim = index_rank - 1;
  for (std::int64_t d = 0; d < c.rank(x); ++d) {
    const bool window = d >= batch + length;
    a.slice_sizes.push_back(window ? c.dims(x)[d] : std::min<std::int64_t>(c.dims(x)[d], 1));
    if (window) a.offset_dims.push_back(index_rank - 1 + d - batch - length);
  }
  return Values{c.b.add(Op::gather, {x, indices}, std::move(a))};
}

Result<Values> scatter_nd(Call& c) {
  STITCH_ASSIGN(const std::string reduction, c.node.text("reduction", "none"));
  const std::optional<ReduceKind> combiner = combiner_of(reduction);
  if (!combiner) return Call::wrong("attribute 'reduction' is '{}'", reduction);
  STITCH_TRY(check_vectors(c, 1, 0));
  const std::int64_t length = c.dims(c.in(1)).back(), index_rank = c.rank(c.in(1));
  const Value indices = normal_vectors(c, c.in(0), c.in(1), 0);
  ScatterAttributes a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = first_axes(length);
  a.index_vector_dim = index_rank - 1;
  for (std::int64_t d = length; d < c.rank(c.in(0)); ++d) a.update_window_dims.push_back(index_rank - 1 + d - length);
  a.combiner = *combiner;
  return Values{c.b.add(Op::scatter, {c.in(0), indices, c.in(2)}, std::move(a))};
}

Result<Values> scatter_elements(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_TRY(need_indices(c, 1));
  STITCH_ASSIGN(const std::string reduction, c.node.text("reduction", "none"));
  const std::optional<ReduceKind> combiner = combiner_of(reduction);
  if (!combiner) return Call::wrong("attribute 'reduction' is '{}'", reduction);
  const Value x = c.in(0);
  if (c.rank(c.in(1)) != c.rank(x)) return Call::wrong("input 1 has another rank than input 0");
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(x)));
  const std::int64_t extent = c.dims(x)[axis];
  c.note_range(c.in(1), 0, extent - 1);
  const Value indices = coordinates(c, normal_indices(c, c.in(1), extent), axis);
  ScatterAttributes a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = first_axes(c.rank(x));
  a.index_vector_dim = c.rank(x);
  a.combiner = *combiner;
  return Values{c.b.add(Op::scatter, {x, indices, c.in(2)}, std::move(a))};
}

Result<Values> one_hot(Call& c) {
  STITCH_ASSIGN(const std::vector<double> depth_list, c.need_numbers(1));
  if (depth_list.size() != 1 || !(depth_list[0] >= 0) || depth_list[0] > 1e9) return Call::wrong("input 1: bad depth");
  const std::int64_t depth = depth_list[0];
  Value indices = c.in(0);
  const DType given = c.dtype(indices);
  // Counting to the depth must not wrap around, nor adding it to an index from the end.
  const bool holds_depth = graph::is_integer(given) && graph::counts_exactly(given, depth + 1);
  if (!holds_depth) indices = c.b.convert(indices, DType::s64);
  indices = wrap_indices(c.b, indices, depth);
  const std::int64_t rank = c.rank(indices) + 1;
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", -1, rank));
  Dims dims = c.dims(indices);
  dims.insert(dims.begin() + axis, depth);
  const Value hot = c.b.compare(Comparison::eq, c.b.broadcast(indices, dims, other_axes(rank, {axis})),
                                c.b.iota(c.dtype(indices), dims, axis));
  if (c.dims(c.in(2)) != Dims{2}) return Call::wrong("input 2 is not the two values");
  const Value off = c.b.reshape(slice_axis(c.b, c.in(2), 0, 0, 1), {});
  const Value on = c.b.reshape(slice_axis(c.b, c.in(2), 0, 1, 2), {});
  return Values{select(c.b, hot, on, off)};
}

/// Rows that a condition known at import selects, as a concatenation of slices.
Result<Values> compress(Call& c) {
  STITCH_ASSIGN(const Dims condition, c.need_integers(1));
  Value x = c.in(0);
  std::int64_t axis = 0;
  if (c.node.has("axis")) {
    STITCH_ASSIGN(axis, c.axis("axis", 0, c.rank(x)));
  } else {
    x = c.b.reshape(x, {graph::element_count(c.dims(x))});
  }
  if (c.rank(x) == 0) return Call::wrong("input 0 is a scalar");
  if (std::ssize(condition) > c.dims(x)[axis]) return Call::wrong("input 1 is too long");
  Values parts;
  for (std::size_t i = 0; i < condition.size();) {
    std::size_t end = i;
    while (end < condition.size() && condition[end] != 0) ++end;
    if (end > i) {
      parts.push_back(slice_axis(c.b, x, axis, i, end));
    }
    i = end + 1;
  }
  if (parts.empty()) parts.push_back(slice_axis(c.b, x, axis, 0, 0));
  return Values{c.b.concatenate(std::move(parts), axis)};
}

/// Each sequence of a batch reversed within its own length: a gather of positions computed from the lengths.
Result<Values> reverse_sequence(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const std::int64_t batch, c.axis("batch_axis", 1, 2));
  STITCH_ASSIGN(const std::int64_t time, c.axis("time_axis", 0, 2));
  if (batch == time) return Call::wrong("attribute 'batch_axis' and 'time_axis' are the same");
  const Value x = c.in(0);
  if (c.rank(c.in(1)) != 1 || c.dims(c.in(1))[0] != c.dims(x)[batch]) return Call::wrong("input 1 has another size");
  return Values{reverse_within(c.b, x, c.in(1), batch, time)};
}

Value reverse_within(graph::Builder& b, Value x, Value lengths, std::int64_t batch, std::int64_t time) {
  const Dims dims = b.dims(x);
  if (b.failed()) return x;
  const Dims plane{dims[batch], dims[time]};
  const Value length = b.broadcast(b.convert(lengths, DType::s64), plane, {0});
  const Value position = b.iota(DType::s64, plane, 1);
  const Value mirrored = b.binary(Op::subtract, sub(b, length, 1.0), position);
  const Value source = b.select(b.compare(Comparison::lt, position, length), mirrored, position);
  // [batch, time, rest...], so that the batch is a batching dimension of the gather.
  Dims order{batch, time};
  for (const std::int64_t d : other_axes(dims.size(), {std::min(batch, time), std::max(batch, time)})) {
    order.push_back(d);
  }
  const Value moved = b.transpose(x, order);
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {1};
  a.operand_batching_dims = a.start_indices_batching_dims = {0};
  a.index_vector_dim = 2;
  a.slice_sizes = b.dims(moved);
  if (b.failed()) return x;
  a.slice_sizes[0] = a.slice_sizes[1] = 1;
  for (std::size_t d = 2; d < dims.size(); ++d) a.offset_dims.push_back(d);
  const Value gathered = b.add(Op::gather, {moved, source}, std::move(a));
  Dims back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  return b.transpose(gathered, back);
}

}  // namespace stitch::import::onnx
