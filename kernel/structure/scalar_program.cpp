#include "kernel/structure/scalar_program.h"

#include <algorithm>
#include <cstring>

#include "graph/literal.h"
#include "graph/reduce_kind.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// A group larger than this is no kernel anybody wants; the bound also ends runaway window expansions.
constexpr std::size_t max_items = 1 << 14;

/// Reductions this small are computed where they are used, by whoever needs them.
constexpr std::int64_t max_unrolled_reduction = 16;
constexpr std::int64_t max_unrolled_window = 128;

std::uint64_t element_bits(const graph::ConstantAttributes& constant, std::int64_t at) {
  const std::size_t size = graph::byte_size(constant.type.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &constant.data[at * size], size);
  return bits;
}

bool contains(const Dims& list, std::size_t value) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(value)) != list.end();
}

}  // namespace

std::optional<std::int64_t> tensor_bytes(const Graph& graph, const Buffer& buffer) {
  const std::size_t number = buffer.number;
  switch (buffer.kind) {
    case Buffer::Kind::input: return graph.node(graph.parameters()[number]).type().bytes();
    case Buffer::Kind::output: return graph.type(graph.results()[number]).bytes();
    case Buffer::Kind::table: return graph.node(buffer.number).type().bytes();
    case Buffer::Kind::scratch: break;
  }
  return std::nullopt;
}

ScalarProgram::ScalarProgram(const Graph& graph, std::vector<int> axes, std::vector<std::int64_t> extents)
    : graph_(graph), axes_{std::move(axes), std::move(extents), {}} {
  for (const std::int64_t extent : axes_.extents) axes_.variables.push_back(pool_.variable(0, extent - 1));
}

const StoredValue* ScalarProgram::stored(Value value) const {
  if (stored_ == nullptr) return nullptr;
  const auto found = stored_->find(value);
  return found == stored_->end() ? nullptr : &found->second;
}

int ScalarProgram::position(int axis) const {
  const auto found = std::find(axes_.axes.begin(), axes_.axes.end(), axis);
  return found == axes_.axes.end() ? -1 : static_cast<int>(found - axes_.axes.begin());
}

std::vector<Index> ScalarProgram::canonical_indices(const AxisAnalysis& analysis, Value value) {
  Index flat = pool_.constant(0);
  for (const int axis : analysis.of(value)) {
    const std::size_t at = position(axis);
    flat = pool_.add(pool_.scale(flat, axes_.extents[at]), axes_.variables[at]);
  }
  return pool_.delinearise(flat, graph_.type(value).dims);
}

ItemId ScalarProgram::dynamic_item(Index variable) const {
  const auto found = dynamic_.find(variable);
  return found == dynamic_.end() ? -1 : found->second;
}

AxisSet ScalarProgram::axes_of(Index index) const {
  AxisSet axes;
  pool_.for_each_variable(index, [&](Index variable) {
    if (const ItemId item = dynamic_item(variable); item >= 0) {
      axes |= at(item).axes;
      return;
    }
    const auto found = std::find(axes_.variables.begin(), axes_.variables.end(), variable);
    if (found != axes_.variables.end()) axes.insert(found - axes_.variables.begin());
  });
  return axes;
}

std::int64_t ScalarProgram::loaded_bytes(const Item& load) const {
  return axes_.elements(load.axes) * graph::byte_size(load.dtype);
}

std::vector<ItemId> ScalarProgram::items_of(Index index) const {
  std::vector<ItemId> needed;
  pool_.for_each_variable(index, [&](Index variable) {
    const ItemId item = dynamic_item(variable);
    if (item >= 0 && std::find(needed.begin(), needed.end(), item) == needed.end()) needed.push_back(item);
  });
  return needed;
}

ItemId ScalarProgram::add(Item item) {
  for (const ItemId operand : item.operands) item.axes |= at(operand).axes;
  if (item.guard >= 0) item.axes |= at(item.guard).axes;
  if (item.index >= 0) item.axes |= axes_of(item.index);
  items_.push_back(std::move(item));
  return item_count() - 1;
}

ItemId ScalarProgram::compute(Op op, Value origin, DType dtype, std::vector<ItemId> operands) {
  Item item;
  item.op = op;
  item.origin = origin;
  item.dtype = dtype;
  item.operands = std::move(operands);
  if (op == Op::compare) item.comparison = graph_.node(origin.node).as<graph::CompareAttributes>().direction;
  return add(std::move(item));
}

ItemId ScalarProgram::literal(Value origin, DType dtype, std::uint64_t bits) {
  Item item;
  item.kind = Item::Kind::literal;
  item.origin = origin;
  item.dtype = dtype;
  item.bits = bits;
  return add(std::move(item));
}

ItemId ScalarProgram::identity(graph::ReduceKind kind, Value origin, DType dtype) {
  return literal(origin, dtype, graph::identity_bits(kind, dtype));
}

ItemId ScalarProgram::in_range(Index index, std::int64_t low, std::int64_t high) {
  Item item;
  item.kind = Item::Kind::in_range;
  item.dtype = DType::pred;
  item.index = index;
  item.low = low;
  item.high = high;
  return add(std::move(item));
}

ItemId ScalarProgram::both(ItemId a, ItemId b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  return compute(Op::bit_and, {}, DType::pred, {a, b});
}

ItemId ScalarProgram::load(Buffer buffer, DType dtype, Index address, Value origin, ItemId guard) {
  Item item;
  item.kind = Item::Kind::load;
  item.origin = origin;
  item.dtype = dtype;
  item.index = address;
  item.buffer = buffer;
  item.guard = guard;
  return add(std::move(item));
}

Index ScalarProgram::dynamic_index(ItemId item, std::int64_t high) {
  if (const Item& start = at(item); start.kind == Item::Kind::literal) {
    std::byte bytes[8];
    std::memcpy(bytes, &start.bits, sizeof bytes);
    const std::int64_t value = graph::load_integer(start.dtype, bytes);
    const bool beyond = value < 0 && graph::is_unsigned_integer(start.dtype);  // of 64 bits
    return pool_.constant(beyond ? high : std::clamp<std::int64_t>(value, 0, high));
  }
  const auto key = std::pair(item, high);
  if (const auto found = dynamic_by_item_.find(key); found != dynamic_by_item_.end()) return found->second;
  const Index variable = pool_.variable(0, high);
  dynamic_[variable] = item;
  dynamic_by_item_[key] = variable;
  return variable;
}

ItemId ScalarProgram::compare_to_integer(graph::Comparison comparison, ItemId item, std::int64_t integer) {
  const DType dtype = at(item).dtype;
  std::byte bytes[8] = {};
  graph::store_integer(dtype, integer, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return compare(comparison, item, literal({}, dtype, bits));
}

ItemId ScalarProgram::compare(graph::Comparison comparison, ItemId a, ItemId b) {
  Item comparing;
  comparing.op = Op::compare;
  comparing.dtype = DType::pred;
  comparing.comparison = comparison;
  comparing.operands = {a, b};
  return add(std::move(comparing));
}

Result<ScalarProgram::Target> ScalarProgram::update_target(NodeId update, const std::vector<Index>& indices) {
  const Node& node = graph_.node(update);
  const Dims &to = node.type().dims, &from = graph_.type(node.operands[1]).dims;
  Target target;
  for (std::size_t d = 0; d < to.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, item(node.operands[d + 2], {}));
    target.indices.push_back(pool_.add(indices[d], dynamic_index(start, to[d] - from[d])));
  }
  return target;
}

Result<ScalarProgram::Window> ScalarProgram::scatter_window(NodeId scatter, const std::vector<Index>& batch) {
  const Node& node = graph_.node(scatter);
  const auto& a = node.as<graph::ScatterAttributes>();
  const Dims& extents = node.type().dims;
  std::vector<Index> position = batch;
  const bool has_vector = a.index_vector_dim < graph_.type(node.operands[1]).rank();
  if (has_vector) position.insert(position.begin() + a.index_vector_dim, pool_.constant(0));
  Window window{std::vector<Index>(extents.size(), pool_.constant(0)), Dims(extents.size(), 1), {}, -1};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (contains(a.inserted_window_dims, d) || contains(a.input_batching_dims, d)) continue;
    const std::size_t along = a.update_window_dims[window.dims.size()];
    window.sizes[d] = graph_.type(node.operands[2]).dims[along];
    window.dims.push_back(d);
  }
  for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    window.start[a.input_batching_dims[k]] = position[a.scatter_indices_batching_dims[k]];
  }
  for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
    const std::size_t d = a.scatter_dims_to_operand_dims[k];
    if (has_vector) position[a.index_vector_dim] = pool_.constant(k);
    STITCH_ASSIGN(const ItemId from, item(node.operands[1], position));
    const std::int64_t last = extents[d] - window.sizes[d];
    if (!graph::is_unsigned_integer(at(from).dtype))
      window.fits = both(window.fits, compare_to_integer(graph::Comparison::ge, from, 0));
    window.fits = both(window.fits, compare_to_integer(graph::Comparison::le, from, last));
    window.start[d] = dynamic_index(from, last);
  }
  return window;
}

Result<ScalarProgram::Target> ScalarProgram::scatter_target(NodeId scatter, const std::vector<Index>& indices) {
  const auto& a = graph_.node(scatter).as<graph::ScatterAttributes>();
  std::vector<Index> batch, inside;
  for (std::size_t d = 0; d < indices.size(); ++d)
    (contains(a.update_window_dims, d) ? inside : batch).push_back(indices[d]);
  STITCH_ASSIGN(Window window, scatter_window(scatter, batch));
  for (std::size_t w = 0; w < inside.size(); ++w) {
    Index& to = window.start[window.dims[w]];
    to = pool_.add(to, inside[w]);
  }
  return Target{std::move(window.start), window.fits};
}

Result<ScalarProgram::ScatterTerm> ScalarProgram::scatter_term(NodeId scatter, const std::vector<Index>& indices,
                                                               Index batch) {
  const Node& node = graph_.node(scatter);
  const auto& a = node.as<graph::ScatterAttributes>();
  const Dims& update = graph_.type(node.operands[2]).dims;
  Dims batch_dims;
  for (std::size_t d = 0; d < update.size(); ++d) {
    if (!contains(a.update_window_dims, d)) batch_dims.push_back(update[d]);
  }
  const std::vector<Index> along = pool_.delinearise(batch, batch_dims);
  STITCH_ASSIGN(const Window window, scatter_window(scatter, along));
  ScatterTerm term{window.fits, -1};
  std::vector<Index> offset(indices.size());
  for (std::size_t d = 0; d < indices.size(); ++d) {
    offset[d] = pool_.subtract(indices[d], window.start[d]);
    if (pool_.low(offset[d]) < 0 || pool_.high(offset[d]) >= window.sizes[d])
      term.hits = both(term.hits, in_range(offset[d], 0, window.sizes[d]));
  }
  std::vector<Index> inner(update.size());
  std::size_t batch_at = 0, window_at = 0;
  for (std::size_t d = 0; d < update.size(); ++d)
    inner[d] = contains(a.update_window_dims, d) ? offset[window.dims[window_at++]] : along[batch_at++];
  STITCH_ASSIGN(term.update, item(node.operands[2], inner, term.hits));
  return term;
}

Result<ItemId> ScalarProgram::item(Value value, const std::vector<Index>& indices, ItemId guard) {
  const Request request{value, indices, guard};
  if (const auto found = memo_.find(request); found != memo_.end()) return found->second;
  if (items_.size() > max_items)
    return make_error(ErrorKind::constraint, "more than {} scalar computations", max_items);
  STITCH_ASSIGN(const ItemId made, propagate(value, indices, guard));
  memo_[request] = made;
  return made;
}

Result<ItemId> ScalarProgram::propagate(Value value, const std::vector<Index>& indices, ItemId guard) {
  const Node& node = graph_.node(value.node);
  if (const StoredValue* found = stored(value)) {
    const Dims strides = graph::row_major_strides(found->dims);
    return load(found->buffer, found->dtype, pool_.linear(indices, strides), value, guard);
  }
  switch (node.op) {
    case Op::parameter: {
      const Dims strides = graph::row_major_strides(node.type().dims);
      const Buffer buffer{Buffer::Kind::input, *parameter_number(graph_, value.node)};
      return load(buffer, node.type().dtype, pool_.linear(indices, strides), value, guard);
    }
    case Op::constant: {
      const auto& constant = node.as<graph::ConstantAttributes>();
      const Index at = pool_.linear(indices, graph::row_major_strides(constant.type.dims));
      if (pool_.is_constant(at))
        return literal(value, constant.type.dtype, element_bits(constant, pool_.constant_part(at)));
      if (graph::is_splat(constant)) return literal(value, constant.type.dtype, element_bits(constant, 0));
      return load({Buffer::Kind::table, value.node}, constant.type.dtype, at, value, guard);
    }
    case Op::iota: {
      const auto& a = node.as<graph::IotaAttributes>();
      Item item;
      item.kind = Item::Kind::index;
      item.origin = value;
      item.dtype = a.type.dtype;
      item.index = indices[a.dimension];
      return add(std::move(item));
    }
    case Op::reduce:
    case Op::arg_reduce:
    case Op::scan: {
      const auto found = reduced_.find(value.node);
      if (found != reduced_.end() && found->second == indices) {
        Item item;
        item.kind = Item::Kind::reduced;
        item.origin = value;
        item.dtype = node.type(value.result).dtype;
        for (const Index index : indices) item.axes |= axes_of(index);
        return add(std::move(item));
      }
      if (node.op == Op::reduce) return small_reduce(node, value, indices, guard);
      blocking_ = value.node;
      return make_error(ErrorKind::constraint, "{} '{}' is needed where no thread holds it", to_string(node.op),
                        node.name);
    }
    case Op::reduce_window: return reduce_window(node, value, indices, guard);
    case Op::select_and_scatter: return select_and_scatter(node, value, indices, guard);
    case Op::scatter:
      blocking_ = value.node;
      return make_error(ErrorKind::constraint, "scatter '{}' is used inside its kernel", node.name);
    default: break;
  }
  if (graph::is_elementwise(node.op)) return propagate_elementwise(node, value, indices, guard);
  return propagate_layout(node, value, indices, guard);
}

Result<ItemId> ScalarProgram::propagate_elementwise(const Node& node, Value value, const std::vector<Index>& indices,
                                                    ItemId guard) {
  std::vector<ItemId> operands;
  for (const Value operand : node.operands) {
    STITCH_ASSIGN(const ItemId item, this->item(operand, indices, guard));
    operands.push_back(item);
  }
  return compute(node.op, value, node.type(value.result).dtype, std::move(operands));
}

Result<ItemId> ScalarProgram::propagate_layout(const Node& node, Value value, const std::vector<Index>& indices,
                                               ItemId guard) {
  const Value operand = node.operands.empty() ? Value{} : node.operands[0];
  std::vector<Index> inner;
  switch (node.op) {
    case Op::broadcast:
      for (const std::int64_t d : node.as<graph::BroadcastAttributes>().mapping) inner.push_back(indices[d]);
      return item(operand, inner, guard);
    case Op::reshape: {
      const Index flat = pool_.linear(indices, graph::row_major_strides(node.type().dims));
      return item(operand, pool_.delinearise(flat, graph_.type(operand).dims), guard);
    }
    case Op::transpose: {
      const auto& permutation = node.as<graph::TransposeAttributes>().permutation;
      inner.resize(permutation.size());
      for (std::size_t d = 0; d < permutation.size(); ++d) inner[permutation[d]] = indices[d];
      return item(operand, inner, guard);
    }
    case Op::slice: {
      const auto& a = node.as<graph::SliceAttributes>();
      for (std::size_t d = 0; d < indices.size(); ++d)
        inner.push_back(pool_.offset(pool_.scale(indices[d], a.strides[d]), a.starts[d]));
      return item(operand, inner, guard);
    }
    case Op::reverse: {
      inner = indices;
      for (const std::int64_t d : node.as<graph::ReverseAttributes>().dimensions) {
        const std::size_t at = d;
        inner[at] = pool_.subtract(pool_.constant(node.type().dims[at] - 1), indices[at]);
      }
      return item(operand, inner, guard);
    }
    case Op::concatenate: return concatenate(node, value, indices, guard);
    case Op::pad: return pad(node, value, indices, guard);
    case Op::gather: return gather(node, indices, guard);
    case Op::dynamic_slice: return dynamic_slice(node, indices, guard);
    case Op::dynamic_update_slice: return dynamic_update_slice(node, value, indices, guard);
    default: return make_error(ErrorKind::constraint, "{} cannot be computed inside a kernel", to_string(node.op));
  }
}

Result<ItemId> ScalarProgram::concatenate(const Node& node, Value value, const std::vector<Index>& indices,
                                          ItemId guard) {
  const std::size_t dimension = node.as<graph::ConcatenateAttributes>().dimension;
  const Index along = indices[dimension];
  ItemId result = -1;
  std::int64_t start = 0;
  for (const Value operand : node.operands) {
    const std::int64_t extent = graph_.type(operand).dims[dimension], end = start + extent;
    if (extent == 0 || pool_.high(along) < start || pool_.low(along) >= end) {
      start = end;
      continue;
    }
    std::vector<Index> inner = indices;
    const bool always = pool_.low(along) >= start && pool_.high(along) < end;
    const ItemId inside = always ? -1 : in_range(along, start, end);
    // A part of extent 1 is the same wherever along the dimension it is asked for, and always there to be read.
    const bool anywhere = extent == 1 && node.operands.size() <= most_interleaved;
    inner[dimension] = anywhere ? pool_.constant(0) : pool_.offset(along, -start);
    STITCH_ASSIGN(const ItemId part, item(operand, inner, anywhere ? guard : both(guard, inside)));
    result = result < 0 ? part : compute(Op::select, value, node.type().dtype, {inside, part, result});
    start = end;
  }
  return result;
}

Result<ItemId> ScalarProgram::pad(const Node& node, Value value, const std::vector<Index>& indices, ItemId guard) {
  const auto& a = node.as<graph::PadAttributes>();
  const Dims& extents = graph_.type(node.operands[0]).dims;
  std::vector<Index> inner;
  ItemId inside = -1;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    Index index = pool_.offset(indices[d], -a.low[d]);
    const std::int64_t step = a.interior[d] + 1, end = (extents[d] - 1) * step + 1;
    if (pool_.low(index) < 0 || pool_.high(index) >= end) inside = both(inside, in_range(index, 0, end));
    if (step > 1) {
      // Only indices that are multiples of the step hold an element; keep them non-negative for the remainder.
      const Index shifted = pool_.offset(index, ((a.low[d] + step - 1) / step) * step);
      inside = both(inside, in_range(pool_.remainder(shifted, step), 0, 1));
      index = pool_.offset(pool_.divide(shifted, step), -((a.low[d] + step - 1) / step));
    }
    inner.push_back(index);
  }
  STITCH_ASSIGN(const ItemId fill, item(node.operands[1], {}, -1));
  if (inside < 0) return item(node.operands[0], inner, guard);
  STITCH_ASSIGN(const ItemId element, item(node.operands[0], inner, both(guard, inside)));
  return compute(Op::select, value, node.type().dtype, {inside, element, fill});
}

Result<ItemId> ScalarProgram::gather(const Node& node, const std::vector<Index>& indices, ItemId guard) {
  const auto& a = node.as<graph::GatherAttributes>();
  const graph::TensorType& operand = graph_.type(node.operands[0]);
  const graph::TensorType& index_type = graph_.type(node.operands[1]);
  std::vector<Index> batch, window;
  for (std::size_t d = 0; d < indices.size(); ++d) (contains(a.offset_dims, d) ? window : batch).push_back(indices[d]);

  std::vector<Index> inner(operand.dims.size(), pool_.constant(0));
  std::size_t next = 0;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (!contains(a.collapsed_slice_dims, d) && !contains(a.operand_batching_dims, d)) inner[d] = window[next++];
  }
  // Position of the index vector: the batch indices with the vector's own dimension put in.
  std::vector<Index> position = batch;
  const bool has_vector = a.index_vector_dim < index_type.rank();
  if (has_vector) position.insert(position.begin() + a.index_vector_dim, pool_.constant(0));
  for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
    inner[a.operand_batching_dims[k]] = position[a.start_indices_batching_dims[k]];
  }
  for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
    const std::size_t d = a.start_index_map[k];
    if (has_vector) position[a.index_vector_dim] = pool_.constant(k);
    STITCH_ASSIGN(const ItemId start, item(node.operands[1], position, guard));
    inner[d] = pool_.add(inner[d], dynamic_index(start, operand.dims[d] - a.slice_sizes[d]));
  }
  return item(node.operands[0], inner, guard);
}

Result<ItemId> ScalarProgram::dynamic_slice(const Node& node, const std::vector<Index>& indices, ItemId guard) {
  const graph::TensorType& operand = graph_.type(node.operands[0]);
  std::vector<Index> inner;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, item(node.operands[d + 1], {}, -1));
    inner.push_back(pool_.add(indices[d], dynamic_index(start, operand.dims[d] - node.type().dims[d])));
  }
  return item(node.operands[0], inner, guard);
}

Result<ItemId> ScalarProgram::dynamic_update_slice(const Node& node, Value value, const std::vector<Index>& indices,
                                                   ItemId guard) {
  const graph::TensorType& operand = graph_.type(node.operands[0]);
  const graph::TensorType& update = graph_.type(node.operands[1]);
  std::vector<Index> inner;
  ItemId inside = -1;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, item(node.operands[d + 2], {}, -1));
    const Index from = dynamic_index(start, operand.dims[d] - update.dims[d]);
    inner.push_back(pool_.subtract(indices[d], from));
    if (update.dims[d] != operand.dims[d]) inside = both(inside, in_range(inner.back(), 0, update.dims[d]));
  }
  if (inside < 0) return item(node.operands[1], inner, guard);
  const ItemId outside = compute(Op::bit_not, {}, DType::pred, {inside});
  STITCH_ASSIGN(const ItemId fresh, item(node.operands[1], inner, both(guard, inside)));
  STITCH_ASSIGN(const ItemId old, item(node.operands[0], indices, both(guard, outside)));
  return compute(Op::select, value, node.type().dtype, {inside, fresh, old});
}

Result<ItemId> ScalarProgram::reduce_window(const Node& node, Value value, const std::vector<Index>& indices,
                                            ItemId guard) {
  const auto& a = node.as<graph::ReduceWindowAttributes>();
  const Dims& extents = graph_.type(node.operands[0]).dims;
  if (graph::element_count(a.sizes) > max_unrolled_window) {
    return make_error(ErrorKind::constraint, "window of {} elements in '{}' is too large to unroll",
                      graph::element_count(a.sizes), node.name);
  }
  const DType dtype = node.type().dtype;
  ItemId total = -1;
  for (std::int64_t w = 0; w < graph::element_count(a.sizes); ++w) {
    std::vector<Index> inner;
    ItemId inside = -1;
    std::int64_t rest = w;
    for (std::size_t d = indices.size(); d-- > 0;) {
      const std::int64_t offset = rest % a.sizes[d] * a.window_dilation[d] - a.low[d];
      rest /= a.sizes[d];
      Index index = pool_.offset(pool_.scale(indices[d], a.strides[d]), offset);
      const std::int64_t step = a.base_dilation[d], end = (extents[d] - 1) * step + 1;
      if (pool_.low(index) < 0 || pool_.high(index) >= end) inside = both(inside, in_range(index, 0, end));
      if (step > 1) {
        const std::int64_t lift = (a.low[d] + step - 1) / step;
        const Index shifted = pool_.offset(index, lift * step);
        inside = both(inside, in_range(pool_.remainder(shifted, step), 0, 1));
        index = pool_.offset(pool_.divide(shifted, step), -lift);
      }
      inner.insert(inner.begin(), index);
    }
    STITCH_ASSIGN(ItemId element, item(node.operands[0], inner, both(guard, inside)));
    if (inside >= 0) element = compute(Op::select, value, dtype, {inside, element, identity(a.kind, value, dtype)});
    if (total < 0) {
      total = element;
      continue;
    }
    Item combined;
    combined.kind = Item::Kind::combine;
    combined.combiner = a.kind;
    combined.origin = value;
    combined.dtype = dtype;
    combined.operands = {total, element};
    total = add(std::move(combined));
  }
  return total;
}

ItemId ScalarProgram::more_extreme(ItemId x, ItemId than, graph::ReduceKind kind) {
  const bool largest = kind == graph::ReduceKind::max;
  if (!graph::is_floating(at(x).dtype))
    return compare(largest ? graph::Comparison::gt : graph::Comparison::lt, x, than);
  const ItemId holds = compare(largest ? graph::Comparison::ge : graph::Comparison::le, than, x);
  return both(compute(Op::bit_not, {}, DType::pred, {holds}), compare(graph::Comparison::eq, than, than));
}

/// Gather form: the element at `indices` collects from every window that covers it the source whose selected element
/// it is. A window selects the first of its extreme elements in row-major order, NaN being more extreme than any
/// number, so this element is selected when it is more extreme than all earlier ones and no later one is more extreme.
Result<ItemId> ScalarProgram::select_and_scatter(const Node& node, Value value, const std::vector<Index>& indices,
                                                 ItemId guard) {
  const auto& a = node.as<graph::SelectAndScatterAttributes>();
  const Dims& extents = graph_.type(node.operands[0]).dims;
  const Dims& windows = graph_.type(node.operands[1]).dims;
  const std::int64_t size = graph::element_count(a.sizes);
  if (size * size > 4 * max_unrolled_window) {
    return make_error(ErrorKind::constraint, "window of {} elements in '{}' is too large to unroll", size, node.name);
  }
  const DType dtype = node.type().dtype;
  STITCH_ASSIGN(const ItemId own, item(node.operands[0], indices, guard));
  ItemId total = -1;
  for (std::int64_t place = 0; place < size; ++place) {  // where this element stands in the window
    std::vector<Index> window(indices.size()), first(indices.size());
    ItemId covered = -1;
    std::int64_t rest = place;
    for (std::size_t d = indices.size(); d-- > 0;) {
      const std::int64_t offset = rest % a.sizes[d];
      rest /= a.sizes[d];
      // The window starts at stride·w - low and this element is `offset` further: w = (index + low - offset)/stride.
      const Index start = pool_.offset(indices[d], a.low[d] - offset);
      const std::int64_t lift = (a.sizes[d] + a.strides[d] - 1) / a.strides[d];
      const Index lifted = pool_.offset(start, lift * a.strides[d]);
      if (a.strides[d] > 1) covered = both(covered, in_range(pool_.remainder(lifted, a.strides[d]), 0, 1));
      window[d] = pool_.offset(pool_.divide(lifted, a.strides[d]), -lift);
      if (pool_.low(window[d]) < 0 || pool_.high(window[d]) >= windows[d])
        covered = both(covered, in_range(window[d], 0, windows[d]));
      first[d] = pool_.offset(indices[d], -offset);
    }
    ItemId selected = covered;
    for (std::int64_t other = 0; other < size; ++other) {
      if (other == place) continue;
      std::vector<Index> inner(indices.size());
      ItemId inside = -1;
      rest = other;
      for (std::size_t d = indices.size(); d-- > 0;) {
        inner[d] = pool_.offset(first[d], rest % a.sizes[d]);
        rest /= a.sizes[d];
        if (pool_.low(inner[d]) < 0 || pool_.high(inner[d]) >= extents[d])
          inside = both(inside, in_range(inner[d], 0, extents[d]));
      }
      STITCH_ASSIGN(const ItemId rival, item(node.operands[0], inner, both(guard, both(covered, inside))));
      ItemId better = other < place ? more_extreme(own, rival, a.select)
                                    : compute(Op::bit_not, {}, DType::pred, {more_extreme(rival, own, a.select)});
      if (inside >= 0) {
        const ItemId outside = compute(Op::bit_not, {}, DType::pred, {inside});
        better = compute(Op::bit_or, {}, DType::pred, {better, outside});
      }
      selected = both(selected, better);
    }
    STITCH_ASSIGN(const ItemId source, item(node.operands[1], window, both(guard, covered)));
    const ItemId zero = literal(value, dtype, 0);
    const ItemId part = selected < 0 ? source : compute(Op::select, value, dtype, {selected, source, zero});
    total = total < 0 ? part : compute(Op::add, value, dtype, {total, part});
  }
  return total;
}

Result<ItemId> ScalarProgram::small_reduce(const Node& node, Value value, const std::vector<Index>& indices,
                                           ItemId guard) {
  const auto& a = node.as<graph::ReduceAttributes>();
  const graph::TensorType& operand = graph_.type(node.operands[0]);
  Dims reduced_extents;
  for (const std::int64_t d : a.dimensions) reduced_extents.push_back(operand.dims[d]);
  const std::int64_t count = graph::element_count(reduced_extents);
  if (count > max_unrolled_reduction || count == 0) {
    blocking_ = value.node;
    return make_error(ErrorKind::constraint, "reduce '{}' is needed where no thread holds it", node.name);
  }
  ItemId total = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<Index> along = pool_.delinearise(pool_.constant(i), reduced_extents);
    std::vector<Index> inner;
    std::size_t kept = 0, dropped = 0;
    for (std::size_t d = 0; d < operand.dims.size(); ++d) {
      inner.push_back(contains(a.dimensions, d) ? along[dropped++] : indices[kept++]);
    }
    STITCH_ASSIGN(const ItemId element, item(node.operands[0], inner, guard));
    if (total < 0) {
      total = element;
      continue;
    }
    Item combined;
    combined.kind = Item::Kind::combine;
    combined.combiner = a.kind;
    combined.origin = value;
    combined.dtype = node.type().dtype;
    combined.operands = {total, element};
    total = add(std::move(combined));
  }
  return total;
}

}  // namespace stitch::kernel
