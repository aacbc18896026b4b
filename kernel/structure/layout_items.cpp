#include "kernel/structure/layout_items.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

using graph::contains;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;

Result<ItemId> concatenate(OperandItems& program, const Node& node, Value value, const std::vector<Index>& indices,
                           ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const std::size_t dimension = node.as<graph::ConcatenateAttributes>().dimension;
  const Index along = indices[dimension];
  ItemId result = -1;
  std::int64_t start = 0;
  for (const Value operand : node.operands) {
    const std::int64_t extent = graph.type(operand).dims[dimension], end = start + extent;
    if (extent == 0 || pool.high(along) < start || pool.low(along) >= end) {
      start = end;
      continue;
    }
    std::vector<Index> inner = indices;
    const bool always = pool.low(along) >= start && pool.high(along) < end;
    const ItemId inside = always ? -1 : program.in_range(along, start, end);
    // A part of extent 1 is the same wherever along the dimension it is asked for, and always there to be read.
    const bool anywhere = extent == 1 && node.operands.size() <= most_interleaved;
    inner[dimension] = anywhere ? pool.constant(0) : pool.offset(along, -start);
    STITCH_ASSIGN(const ItemId part, program.item(operand, inner, anywhere ? guard : program.both(guard, inside)));
    result = result < 0 ? part : program.compute(Op::select, value, node.type().dtype, {inside, part, result});
    start = end;
  }
  // No part is there where only the padding around all of them is asked for: the guard keeps what is returned unused.
  return result < 0 ? program.identity(graph::ReduceKind::sum, value, node.type().dtype) : result;
}

Result<ItemId> pad(OperandItems& program, const Node& node, Value value, const std::vector<Index>& indices,
                   ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const auto& a = node.as<graph::PadAttributes>();
  const Dims& extents = graph.type(node.operands[0]).dims;
  std::vector<Index> inner;
  ItemId inside = -1;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    Index index = pool.offset(indices[d], -a.low[d]);
    const std::int64_t step = a.interior[d] + 1, end = (extents[d] - 1) * step + 1;
    if (pool.low(index) < 0 || pool.high(index) >= end) inside = program.both(inside, program.in_range(index, 0, end));
    if (step > 1) {
      // Only indices that are multiples of the step hold an element; keep them non-negative for the remainder.
      const Index shifted = pool.offset(index, ((a.low[d] + step - 1) / step) * step);
      inside = program.both(inside, program.in_range(pool.remainder(shifted, step), 0, 1));
      index = pool.offset(pool.divide(shifted, step), -((a.low[d] + step - 1) / step));
    }
    inner.push_back(index);
  }
  STITCH_ASSIGN(const ItemId fill, program.item(node.operands[1], {}, -1));
  if (inside < 0) return program.item(node.operands[0], inner, guard);
  STITCH_ASSIGN(const ItemId element, program.item(node.operands[0], inner, program.both(guard, inside)));
  return program.compute(Op::select, value, node.type().dtype, {inside, element, fill});
}

Result<ItemId> gather(OperandItems& program, const Node& node, const std::vector<Index>& indices, ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const auto& a = node.as<graph::GatherAttributes>();
  const graph::TensorType& operand = graph.type(node.operands[0]);
  const graph::TensorType& index_type = graph.type(node.operands[1]);
  std::vector<Index> batch, window;
  for (std::size_t d = 0; d < indices.size(); ++d) (contains(a.offset_dims, d) ? window : batch).push_back(indices[d]);

  std::vector<Index> inner(operand.dims.size(), pool.constant(0));
  std::size_t next = 0;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (!contains(a.collapsed_slice_dims, d) && !contains(a.operand_batching_dims, d)) inner[d] = window[next++];
  }
  // Position of the index vector: the batch indices with the vector's own dimension put in.
  std::vector<Index> position = batch;
  const bool has_vector = a.index_vector_dim < index_type.rank();
  if (has_vector) position.insert(position.begin() + a.index_vector_dim, pool.constant(0));
  for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
    inner[a.operand_batching_dims[k]] = position[a.start_indices_batching_dims[k]];
  }
  for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
    const std::size_t d = a.start_index_map[k];
    if (has_vector) position[a.index_vector_dim] = pool.constant(k);
    STITCH_ASSIGN(const ItemId start, program.item(node.operands[1], position, guard));
    inner[d] = pool.add(inner[d], program.dynamic_index(start, operand.dims[d] - a.slice_sizes[d]));
  }
  return program.item(node.operands[0], inner, guard);
}

Result<ItemId> dynamic_slice(OperandItems& program, const Node& node, const std::vector<Index>& indices, ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const graph::TensorType& operand = graph.type(node.operands[0]);
  std::vector<Index> inner;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, program.item(node.operands[d + 1], {}, -1));
    inner.push_back(pool.add(indices[d], program.dynamic_index(start, operand.dims[d] - node.type().dims[d])));
  }
  return program.item(node.operands[0], inner, guard);
}

Result<ItemId> dynamic_update_slice(OperandItems& program, const Node& node, Value value,
                                    const std::vector<Index>& indices, ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const graph::TensorType& operand = graph.type(node.operands[0]);
  const graph::TensorType& update = graph.type(node.operands[1]);
  std::vector<Index> inner;
  ItemId inside = -1;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, program.item(node.operands[d + 2], {}, -1));
    const Index from = program.dynamic_index(start, operand.dims[d] - update.dims[d]);
    inner.push_back(pool.subtract(indices[d], from));
    if (update.dims[d] != operand.dims[d])
      inside = program.both(inside, program.in_range(inner.back(), 0, update.dims[d]));
  }
  if (inside < 0) return program.item(node.operands[1], inner, guard);
  const ItemId outside = program.compute(Op::bit_not, {}, DType::pred, {inside});
  STITCH_ASSIGN(const ItemId fresh, program.item(node.operands[1], inner, program.both(guard, inside)));
  STITCH_ASSIGN(const ItemId old, program.item(node.operands[0], indices, program.both(guard, outside)));
  return program.compute(Op::select, value, node.type().dtype, {inside, fresh, old});
}

}  // namespace

Result<ItemId> layout_item(OperandItems& program, const Node& node, Value value, const std::vector<Index>& indices,
                           ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const Value operand = node.operands.empty() ? Value{} : node.operands[0];
  std::vector<Index> inner;
  switch (node.op) {
    case Op::broadcast:
      for (const std::int64_t d : node.as<graph::BroadcastAttributes>().mapping) inner.push_back(indices[d]);
      return program.item(operand, inner, guard);
    case Op::reshape: {
      const Index flat = pool.linear(indices, graph::row_major_strides(node.type().dims));
      return program.item(operand, pool.delinearise(flat, graph.type(operand).dims), guard);
    }
    case Op::transpose: {
      const auto& permutation = node.as<graph::TransposeAttributes>().permutation;
      inner.resize(permutation.size());
      for (std::size_t d = 0; d < permutation.size(); ++d) inner[permutation[d]] = indices[d];
      return program.item(operand, inner, guard);
    }
    case Op::slice: {
      const auto& a = node.as<graph::SliceAttributes>();
      for (std::size_t d = 0; d < indices.size(); ++d)
        inner.push_back(pool.offset(pool.scale(indices[d], a.strides[d]), a.starts[d]));
      return program.item(operand, inner, guard);
    }
    case Op::reverse: {
      inner = indices;
      for (const std::int64_t d : node.as<graph::ReverseAttributes>().dimensions) {
        const std::size_t at = d;
        inner[at] = pool.subtract(pool.constant(node.type().dims[at] - 1), indices[at]);
      }
      return program.item(operand, inner, guard);
    }
    case Op::concatenate: return concatenate(program, node, value, indices, guard);
    case Op::pad: return pad(program, node, value, indices, guard);
    case Op::gather: return gather(program, node, indices, guard);
    case Op::dynamic_slice: return dynamic_slice(program, node, indices, guard);
    case Op::dynamic_update_slice: return dynamic_update_slice(program, node, value, indices, guard);
    default: return make_error(ErrorKind::constraint, "{} cannot be computed inside a kernel", to_string(node.op));
  }
}

}  // namespace stitch::kernel
