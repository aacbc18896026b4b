#include "graph/infer_checks.h"

// Inference of the operators whose elements' places depend on data.

namespace stitch::graph {
namespace {

Status check_starts(OperandTypes operands, std::size_t first, int rank) {
  if (static_cast<std::int64_t>(operands.size()) - static_cast<std::int64_t>(first) != rank) {
    return bad("{} start indices for rank {}", operands.size() - first, rank);
  }
  for (std::size_t i = first; i < operands.size(); ++i) {
    if (operands[i].rank() != 0 || !is_integer(operands[i].dtype)) {
      return bad("operand {} is {}, not an integer scalar", i, to_string(operands[i]));
    }
  }
  return {};
}

Dims index_batch_dims(const Dims& indices, std::int64_t index_vector_dim) {
  return index_vector_dim == std::ssize(indices) ? indices : without(indices, {index_vector_dim});
}

/// What gather and scatter call differently and check alike.
struct IndexMap {
  std::string_view collapsed_name, map_name, batching_name, index_batching_name;
  const Dims &collapsed, &map, &batching, &index_batching;
  std::int64_t index_vector_dim;
};

/// Operand 1 holds index vectors; the lists that describe them fit both operands.
Status check_indices(const TensorType& operand, const TensorType& indices, const IndexMap& m) {
  if (!is_integer(indices.dtype)) return bad("operand 1 is {}, not integer", to_string(indices));
  if (m.index_vector_dim < 0 || m.index_vector_dim > indices.rank()) {
    return bad("attribute 'index_vector_dim': {} for indices {}", m.index_vector_dim, to_string(indices));
  }
  const std::int64_t length = m.index_vector_dim == indices.rank() ? 1 : indices.dims[m.index_vector_dim];
  if (length != std::ssize(m.map)) {
    return bad("index vectors have {} entries, '{}' names {} dimensions", length, m.map_name, m.map.size());
  }
  STITCH_TRY(check_dimensions(m.map_name, m.map, operand.rank()));
  STITCH_TRY(check_dimensions(m.collapsed_name, m.collapsed, operand.rank()));
  STITCH_TRY(check_sorted(m.collapsed_name, m.collapsed));
  STITCH_TRY(check_dimensions(m.batching_name, m.batching, operand.rank()));
  STITCH_TRY(check_dimensions(m.index_batching_name, m.index_batching, indices.rank()));
  if (m.batching.size() != m.index_batching.size()) {
    return bad("attribute '{}' and '{}' differ in length", m.batching_name, m.index_batching_name);
  }
  for (std::size_t i = 0; i < m.batching.size(); ++i) {
    if (contains(m.collapsed, m.batching[i]) || contains(m.map, m.batching[i])) {
      return bad("attribute '{}': dimension {} is also in '{}' or '{}'", m.batching_name, m.batching[i],
                 m.collapsed_name, m.map_name);
    }
    if (m.index_batching[i] == m.index_vector_dim) {
      return bad("attribute '{}': {} is the index vector dimension", m.index_batching_name, m.index_batching[i]);
    }
    if (operand.dims[m.batching[i]] != indices.dims[m.index_batching[i]]) {
      return bad("attribute '{}': dimension {} has extent {}, the indices have {}", m.batching_name, m.batching[i],
                 operand.dims[m.batching[i]], indices.dims[m.index_batching[i]]);
    }
  }
  return {};
}

}  // namespace

Result<Types> infer_dynamic_slice(OperandTypes operands, const DynamicSliceAttributes& a) {
  STITCH_TRY(check_starts(operands, 1, operands[0].rank()));
  STITCH_TRY(check_length("sizes", a.sizes, operands[0].rank()));
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] < 0 || a.sizes[d] > operands[0].dims[d]) {
      return bad("attribute 'sizes': {} in dimension {} of {}", a.sizes[d], d, to_string(operands[0]));
    }
  }
  return Types{{operands[0].dtype, a.sizes}};
}

Result<Types> infer_dynamic_update_slice(OperandTypes operands) {
  STITCH_TRY(check_starts(operands, 2, operands[0].rank()));
  if (operands[1].rank() != operands[0].rank() || operands[1].dtype != operands[0].dtype) {
    return bad("operand 1 is {}, operand 0 is {}", to_string(operands[1]), to_string(operands[0]));
  }
  for (std::size_t d = 0; d < operands[0].dims.size(); ++d) {
    if (operands[1].dims[d] > operands[0].dims[d]) {
      return bad("operand 1 {} does not fit operand 0 {}", to_string(operands[1]), to_string(operands[0]));
    }
  }
  return Types{operands[0]};
}

Result<Types> infer_gather(OperandTypes operands, const GatherAttributes& a) {
  const TensorType& operand = operands[0];
  STITCH_TRY(check_indices(operand, operands[1],
                           {"collapsed_slice_dims", "start_index_map", "operand_batching_dims",
                            "start_indices_batching_dims", a.collapsed_slice_dims, a.start_index_map,
                            a.operand_batching_dims, a.start_indices_batching_dims, a.index_vector_dim}));
  STITCH_TRY(check_length("slice_sizes", a.slice_sizes, operand.rank()));
  Dims window;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    const std::int64_t dimension = d;
    if (a.slice_sizes[d] < 0 || a.slice_sizes[d] > operand.dims[d]) {
      return bad("attribute 'slice_sizes': {} in dimension {} of {}", a.slice_sizes[d], d, to_string(operand));
    }
    if (contains(a.collapsed_slice_dims, dimension) || contains(a.operand_batching_dims, dimension)) {
      if (a.slice_sizes[d] != 1) {
        return bad("attribute 'slice_sizes': collapsed dimension {} has {}", d, a.slice_sizes[d]);
      }
    } else {
      window.push_back(a.slice_sizes[d]);
    }
  }
  const Dims batch = index_batch_dims(operands[1].dims, a.index_vector_dim);
  const int rank = batch.size() + window.size();
  if (a.offset_dims.size() != window.size()) {
    return bad("attribute 'offset_dims' has {} entries for {} window dimensions", a.offset_dims.size(), window.size());
  }
  STITCH_TRY(check_dimensions("offset_dims", a.offset_dims, rank));
  STITCH_TRY(check_sorted("offset_dims", a.offset_dims));
  TensorType result{operand.dtype, {}};
  std::size_t next_window = 0, next_batch = 0;
  for (int d = 0; d < rank; ++d) {
    result.dims.push_back(contains(a.offset_dims, d) ? window[next_window++] : batch[next_batch++]);
  }
  return Types{result};
}

Result<Types> infer_scatter(OperandTypes operands, const ScatterAttributes& a) {
  const TensorType& operand = operands[0];
  const TensorType& updates = operands[2];
  STITCH_TRY(check_indices(operand, operands[1],
                           {"inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
                            "scatter_indices_batching_dims", a.inserted_window_dims, a.scatter_dims_to_operand_dims,
                            a.input_batching_dims, a.scatter_indices_batching_dims, a.index_vector_dim}));
  STITCH_TRY(check_combiner("combiner", a.combiner, operand.dtype));
  STITCH_TRY(check_dimensions("update_window_dims", a.update_window_dims, updates.rank()));
  STITCH_TRY(check_sorted("update_window_dims", a.update_window_dims));
  if (updates.dtype != operand.dtype) {
    return bad("operand 2 is {}, operand 0 is {}", to_string(updates.dtype), to_string(operand.dtype));
  }
  const Dims bounds = without(operand.dims, joined(a.inserted_window_dims, a.input_batching_dims));
  if (a.update_window_dims.size() != bounds.size()) {
    return bad("attribute 'update_window_dims' has {} entries for {} window dimensions", a.update_window_dims.size(),
               bounds.size());
  }
  const Dims batch = index_batch_dims(operands[1].dims, a.index_vector_dim);
  if (without(updates.dims, a.update_window_dims) != batch) {
    return bad("operand 2 {} does not match the indices {}", to_string(updates), to_string(operands[1]));
  }
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (updates.dims[a.update_window_dims[i]] > bounds[i]) {
      return bad("operand 2 {}: window does not fit the operand {}", to_string(updates), to_string(operand));
    }
  }
  return Types{operand};
}

}  // namespace stitch::graph
