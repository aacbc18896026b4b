#include "graph/infer.h"

#include <algorithm>
#include <numeric>

#include "graph/graph.h"

namespace stitch::graph {
namespace {

using Types = std::vector<TensorType>;
using Operands = std::span<const TensorType>;

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::invalid_argument, format, std::forward<Args>(args)...);
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Every entry of `list` is a dimension of a rank-`rank` tensor, none twice.
Status check_dimensions(std::string_view attribute, const Dims& list, int rank) {
  std::vector<bool> seen(at(rank), false);
  for (const std::int64_t d : list) {
    if (d < 0 || d >= rank) return bad("attribute '{}': {} is not a dimension of rank {}", attribute, d, rank);
    if (seen[at(d)]) return bad("attribute '{}': dimension {} appears twice", attribute, d);
    seen[at(d)] = true;
  }
  return {};
}

Status check_length(std::string_view attribute, const Dims& list, int rank) {
  if (static_cast<int>(list.size()) == rank) return {};
  return bad("attribute '{}' has {} entries for rank {}", attribute, list.size(), rank);
}

Status check_extents(const Dims& dims) {
  for (const std::int64_t extent : dims) {
    if (extent < 0) return bad("attribute 'dims': negative extent in {}", to_string(dims));
  }
  // 2^40 elements is beyond any device; bounding it keeps all index arithmetic below from overflowing.
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) {
    if (extent > (std::int64_t{1} << 40) || (count *= std::max<std::int64_t>(extent, 1)) > (std::int64_t{1} << 40)) {
      return bad("attribute 'dims': {} has too many elements", to_string(dims));
    }
  }
  return {};
}

bool contains(const Dims& list, std::int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

bool in_domain(OpDomain domain, DType dtype) {
  switch (domain) {
    case OpDomain::any: return true;
    case OpDomain::number: return dtype != DType::pred;
    case OpDomain::floating: return is_floating(dtype);
    case OpDomain::integer: return is_integer(dtype);
    case OpDomain::bits: return is_integer(dtype) || dtype == DType::pred;
  }
  return false;
}

Result<Types> infer_elementwise(Op op, Operands operands, const Attributes& attributes) {
  const OpInfo& row = info(op);
  const std::size_t first_data = op == Op::select ? 1 : 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dims != operands[0].dims) {
      return bad("operand {} has shape {}, operand 0 has {}", i, to_string(operands[i]), to_string(operands[0]));
    }
    if (i >= first_data && operands[i].dtype != operands[first_data].dtype) {
      return bad("operand {} is {}, operand {} is {}", i, to_string(operands[i].dtype), first_data,
                 to_string(operands[first_data].dtype));
    }
    if (i >= first_data && !in_domain(row.domain, operands[i].dtype)) {
      return bad("operand {} is {}, which {} does not take", i, to_string(operands[i].dtype), row.name);
    }
  }
  TensorType result = operands[first_data];
  switch (op) {
    case Op::select:
      if (operands[0].dtype != DType::pred) return bad("operand 0 is {}, not pred", to_string(operands[0].dtype));
      break;
    case Op::compare:
    case Op::is_finite:
    case Op::is_nan:
    case Op::is_inf: result.dtype = DType::pred; break;
    case Op::convert: result.dtype = std::get<ConvertAttributes>(attributes).dtype; break;
    case Op::bitcast_convert:
      result.dtype = std::get<ConvertAttributes>(attributes).dtype;
      if (byte_size(result.dtype) != byte_size(operands[0].dtype)) {
        return bad("attribute 'dtype': {} and {} differ in size", to_string(result.dtype),
                   to_string(operands[0].dtype));
      }
      break;
    case Op::threefry2x32:
      if (result.dtype != DType::u32) return bad("operands are {}, not u32", to_string(result.dtype));
      return Types{result, result};
    default: break;
  }
  return Types{result};
}

Result<Types> infer_broadcast(const TensorType& operand, const BroadcastAttributes& a) {
  STITCH_TRY(check_extents(a.dims));
  STITCH_TRY(check_length("mapping", a.mapping, operand.rank()));
  const int rank = static_cast<int>(a.dims.size());
  STITCH_TRY(check_dimensions("mapping", a.mapping, rank));
  if (!std::is_sorted(a.mapping.begin(), a.mapping.end())) {
    return bad("attribute 'mapping': {} is not increasing (transpose instead)", to_string(a.mapping));
  }
  for (std::size_t i = 0; i < a.mapping.size(); ++i) {
    if (operand.dims[i] != a.dims[at(a.mapping[i])]) {
      return bad("attribute 'mapping': operand dimension {} of extent {} becomes dimension {} of extent {}", i,
                 operand.dims[i], a.mapping[i], a.dims[at(a.mapping[i])]);
    }
  }
  return Types{{operand.dtype, a.dims}};
}

Result<Types> infer_reshape(const TensorType& operand, const ReshapeAttributes& a) {
  STITCH_TRY(check_extents(a.dims));
  if (element_count(a.dims) != operand.elements()) {
    return bad("attribute 'dims': {} has {} elements, the operand {} has {}", to_string(a.dims), element_count(a.dims),
               to_string(operand), operand.elements());
  }
  return Types{{operand.dtype, a.dims}};
}

Result<Types> infer_transpose(const TensorType& operand, const TransposeAttributes& a) {
  STITCH_TRY(check_length("permutation", a.permutation, operand.rank()));
  STITCH_TRY(check_dimensions("permutation", a.permutation, operand.rank()));
  TensorType result{operand.dtype, {}};
  for (const std::int64_t d : a.permutation) result.dims.push_back(operand.dims[at(d)]);
  return Types{result};
}

Result<Types> infer_slice(const TensorType& operand, const SliceAttributes& a) {
  STITCH_TRY(check_length("starts", a.starts, operand.rank()));
  STITCH_TRY(check_length("limits", a.limits, operand.rank()));
  STITCH_TRY(check_length("strides", a.strides, operand.rank()));
  TensorType result{operand.dtype, {}};
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (a.strides[d] < 1) return bad("attribute 'strides': {} in dimension {}", a.strides[d], d);
    if (a.starts[d] < 0 || a.starts[d] > a.limits[d] || a.limits[d] > operand.dims[d]) {
      return bad("slice [{}:{}] is out of range in dimension {} of {}", a.starts[d], a.limits[d], d,
                 to_string(operand));
    }
    result.dims.push_back((a.limits[d] - a.starts[d] + a.strides[d] - 1) / a.strides[d]);
  }
  return Types{result};
}

Status check_starts(Operands operands, std::size_t first, int rank) {
  if (static_cast<int>(operands.size() - first) != rank) {
    return bad("{} start indices for rank {}", operands.size() - first, rank);
  }
  for (std::size_t i = first; i < operands.size(); ++i) {
    if (operands[i].rank() != 0 || !is_integer(operands[i].dtype)) {
      return bad("operand {} is {}, not an integer scalar", i, to_string(operands[i]));
    }
  }
  return {};
}

Result<Types> infer_dynamic_slice(Operands operands, const DynamicSliceAttributes& a) {
  STITCH_TRY(check_starts(operands, 1, operands[0].rank()));
  STITCH_TRY(check_length("sizes", a.sizes, operands[0].rank()));
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] < 0 || a.sizes[d] > operands[0].dims[d]) {
      return bad("attribute 'sizes': {} in dimension {} of {}", a.sizes[d], d, to_string(operands[0]));
    }
  }
  return Types{{operands[0].dtype, a.sizes}};
}

Result<Types> infer_dynamic_update_slice(Operands operands) {
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

Result<Types> infer_concatenate(Operands operands, const ConcatenateAttributes& a) {
  TensorType result = operands[0];
  if (a.dimension < 0 || a.dimension >= result.rank()) {
    return bad("attribute 'dimension': {} is not a dimension of {}", a.dimension, to_string(result));
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    TensorType expected = operands[0];
    if (operands[i].rank() == expected.rank()) expected.dims[at(a.dimension)] = operands[i].dims[at(a.dimension)];
    if (operands[i] != expected) {
      return bad("operand {} is {}, operand 0 is {}", i, to_string(operands[i]), to_string(operands[0]));
    }
    result.dims[at(a.dimension)] += operands[i].dims[at(a.dimension)];
  }
  return Types{result};
}

Result<Types> infer_pad(Operands operands, const PadAttributes& a) {
  const TensorType& operand = operands[0];
  STITCH_TRY(check_length("low", a.low, operand.rank()));
  STITCH_TRY(check_length("high", a.high, operand.rank()));
  STITCH_TRY(check_length("interior", a.interior, operand.rank()));
  if (operands[1].rank() != 0 || operands[1].dtype != operand.dtype) {
    return bad("operand 1 is {}, not a scalar of {}", to_string(operands[1]), to_string(operand.dtype));
  }
  TensorType result{operand.dtype, {}};
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (a.interior[d] < 0) return bad("attribute 'interior': {} in dimension {}", a.interior[d], d);
    const std::int64_t gaps = std::max<std::int64_t>(operand.dims[d] - 1, 0) * a.interior[d];
    const std::int64_t extent = operand.dims[d] + gaps + a.low[d] + a.high[d];
    if (extent < 0) return bad("padding leaves extent {} in dimension {}", extent, d);
    result.dims.push_back(extent);
  }
  STITCH_TRY(check_extents(result.dims));
  return Types{result};
}

/// Extents of `dims` without those listed in `removed`.
Dims without(const Dims& dims, const Dims& removed) {
  Dims rest;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!contains(removed, static_cast<std::int64_t>(d))) rest.push_back(dims[d]);
  }
  return rest;
}

Dims index_batch_dims(const Dims& indices, std::int64_t index_vector_dim) {
  return index_vector_dim == static_cast<std::int64_t>(indices.size()) ? indices : without(indices, {index_vector_dim});
}

Status check_index_operand(const TensorType& indices, std::int64_t index_vector_dim, std::size_t map_size) {
  if (!is_integer(indices.dtype)) return bad("operand 1 is {}, not integer", to_string(indices));
  if (index_vector_dim < 0 || index_vector_dim > indices.rank()) {
    return bad("attribute 'index_vector_dim': {} for indices {}", index_vector_dim, to_string(indices));
  }
  const std::int64_t length = index_vector_dim == indices.rank() ? 1 : indices.dims[at(index_vector_dim)];
  if (length != static_cast<std::int64_t>(map_size)) {
    return bad("index vectors have {} entries, the map names {} dimensions", length, map_size);
  }
  return {};
}

Result<Types> infer_gather(Operands operands, const GatherAttributes& a) {
  const TensorType& operand = operands[0];
  STITCH_TRY(check_index_operand(operands[1], a.index_vector_dim, a.start_index_map.size()));
  STITCH_TRY(check_length("slice_sizes", a.slice_sizes, operand.rank()));
  STITCH_TRY(check_dimensions("collapsed_slice_dims", a.collapsed_slice_dims, operand.rank()));
  STITCH_TRY(check_dimensions("operand_batching_dims", a.operand_batching_dims, operand.rank()));
  STITCH_TRY(check_dimensions("start_index_map", a.start_index_map, operand.rank()));
  STITCH_TRY(check_dimensions("start_indices_batching_dims", a.start_indices_batching_dims, operands[1].rank()));
  if (a.operand_batching_dims.size() != a.start_indices_batching_dims.size()) {
    return bad("attribute 'operand_batching_dims' and 'start_indices_batching_dims' differ in length");
  }
  Dims window;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    if (a.slice_sizes[d] < 0 || a.slice_sizes[d] > operand.dims[d]) {
      return bad("attribute 'slice_sizes': {} in dimension {} of {}", a.slice_sizes[d], d, to_string(operand));
    }
    if (contains(a.collapsed_slice_dims, dimension) || contains(a.operand_batching_dims, dimension)) {
      if (a.slice_sizes[d] > 1)
        return bad("attribute 'slice_sizes': collapsed dimension {} has {}", d, a.slice_sizes[d]);
    } else {
      window.push_back(a.slice_sizes[d]);
    }
  }
  const Dims batch = index_batch_dims(operands[1].dims, a.index_vector_dim);
  const int rank = static_cast<int>(batch.size() + window.size());
  if (a.offset_dims.size() != window.size()) {
    return bad("attribute 'offset_dims' has {} entries for {} window dimensions", a.offset_dims.size(), window.size());
  }
  STITCH_TRY(check_dimensions("offset_dims", a.offset_dims, rank));
  TensorType result{operand.dtype, {}};
  std::size_t next_window = 0, next_batch = 0;
  for (int d = 0; d < rank; ++d) {
    result.dims.push_back(contains(a.offset_dims, d) ? window[next_window++] : batch[next_batch++]);
  }
  return Types{result};
}

Result<Types> infer_scatter(Operands operands, const ScatterAttributes& a) {
  const TensorType& operand = operands[0];
  const TensorType& updates = operands[2];
  STITCH_TRY(check_index_operand(operands[1], a.index_vector_dim, a.scatter_dims_to_operand_dims.size()));
  STITCH_TRY(check_dimensions("inserted_window_dims", a.inserted_window_dims, operand.rank()));
  STITCH_TRY(check_dimensions("input_batching_dims", a.input_batching_dims, operand.rank()));
  STITCH_TRY(check_dimensions("scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims, operand.rank()));
  STITCH_TRY(check_dimensions("update_window_dims", a.update_window_dims, updates.rank()));
  STITCH_TRY(check_dimensions("scatter_indices_batching_dims", a.scatter_indices_batching_dims, operands[1].rank()));
  if (a.input_batching_dims.size() != a.scatter_indices_batching_dims.size()) {
    return bad("attribute 'input_batching_dims' and 'scatter_indices_batching_dims' differ in length");
  }
  if (updates.dtype != operand.dtype) {
    return bad("operand 2 is {}, operand 0 is {}", to_string(updates.dtype), to_string(operand.dtype));
  }
  const std::size_t windows = operand.dims.size() - a.inserted_window_dims.size() - a.input_batching_dims.size();
  if (a.update_window_dims.size() != windows) {
    return bad("attribute 'update_window_dims' has {} entries for {} window dimensions", a.update_window_dims.size(),
               windows);
  }
  const Dims batch = index_batch_dims(operands[1].dims, a.index_vector_dim);
  if (without(updates.dims, a.update_window_dims) != batch) {
    return bad("operand 2 {} does not match the indices {}", to_string(updates), to_string(operands[1]));
  }
  Dims window_operand_dims = a.inserted_window_dims;
  window_operand_dims.insert(window_operand_dims.end(), a.input_batching_dims.begin(), a.input_batching_dims.end());
  const Dims bounds = without(operand.dims, window_operand_dims);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (updates.dims[at(a.update_window_dims[i])] > bounds[i]) {
      return bad("operand 2 {}: window does not fit the operand {}", to_string(updates), to_string(operand));
    }
  }
  return Types{operand};
}

Result<Types> infer_reduce(const TensorType& operand, const ReduceAttributes& a) {
  STITCH_TRY(check_dimensions("dimensions", a.dimensions, operand.rank()));
  if (!std::is_sorted(a.dimensions.begin(), a.dimensions.end())) return bad("attribute 'dimensions' is not sorted");
  if (a.kind == ReduceKind::replace) return bad("attribute 'kind': replace does not reduce");
  return Types{{operand.dtype, without(operand.dims, a.dimensions)}};
}

Result<Types> infer_arg_reduce(const TensorType& operand, const ArgReduceAttributes& a) {
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, operand.rank()));
  if (a.kind != ReduceKind::max && a.kind != ReduceKind::min) return bad("attribute 'kind': neither max nor min");
  if (operand.dims[at(a.dimension)] == 0) return bad("the reduced dimension {} is empty", a.dimension);
  if (!is_integer(a.index_dtype)) return bad("attribute 'index_dtype': {} is no integer", to_string(a.index_dtype));
  const Dims dims = without(operand.dims, {a.dimension});
  return Types{{operand.dtype, dims}, {a.index_dtype, dims}};
}

/// Output extents of a window that slides over `dims`.
Result<Dims> window_extents(const Dims& dims, const Dims& sizes, const Dims& strides, const Dims& low, const Dims& high,
                            const Dims& base_dilation, const Dims& window_dilation) {
  Dims result;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (sizes[d] < 1 || strides[d] < 1 || base_dilation[d] < 1 || window_dilation[d] < 1) {
      return bad("window: size {}, stride {}, dilations {} and {} in dimension {} must be positive", sizes[d],
                 strides[d], base_dilation[d], window_dilation[d], d);
    }
    const std::int64_t base = dims[d] == 0 ? 0 : (dims[d] - 1) * base_dilation[d] + 1;
    const std::int64_t window = (sizes[d] - 1) * window_dilation[d] + 1;
    const std::int64_t padded = base + low[d] + high[d];
    result.push_back(padded < window ? 0 : (padded - window) / strides[d] + 1);
  }
  return result;
}

Result<Types> infer_reduce_window(const TensorType& operand, const ReduceWindowAttributes& a) {
  for (const auto& [name, list] : {std::pair<std::string_view, const Dims&>{"sizes", a.sizes},
                                   {"strides", a.strides},
                                   {"low", a.low},
                                   {"high", a.high},
                                   {"base_dilation", a.base_dilation},
                                   {"window_dilation", a.window_dilation}}) {
    STITCH_TRY(check_length(name, list, operand.rank()));
  }
  STITCH_ASSIGN(Dims dims,
                window_extents(operand.dims, a.sizes, a.strides, a.low, a.high, a.base_dilation, a.window_dilation));
  return Types{{operand.dtype, dims}};
}

Result<Types> infer_select_and_scatter(Operands operands, const SelectAndScatterAttributes& a) {
  for (const auto& [name, list] : {std::pair<std::string_view, const Dims&>{"sizes", a.sizes},
                                   {"strides", a.strides},
                                   {"low", a.low},
                                   {"high", a.high}}) {
    STITCH_TRY(check_length(name, list, operands[0].rank()));
  }
  if (a.select != ReduceKind::max && a.select != ReduceKind::min) return bad("attribute 'select': neither max nor min");
  const Dims ones(operands[0].dims.size(), 1);
  STITCH_ASSIGN(const Dims dims, window_extents(operands[0].dims, a.sizes, a.strides, a.low, a.high, ones, ones));
  if (operands[1] != TensorType{operands[0].dtype, dims}) {
    return bad("operand 1 is {}, the windows give {}", to_string(operands[1]),
               to_string(TensorType{operands[0].dtype, dims}));
  }
  return Types{operands[0]};
}

Result<Types> infer_dot(Operands operands, const DotAttributes& a) {
  const TensorType& lhs = operands[0];
  const TensorType& rhs = operands[1];
  const auto joined = [](const Dims& x, const Dims& y) {
    Dims both = x;
    both.insert(both.end(), y.begin(), y.end());
    return both;
  };
  STITCH_TRY(check_dimensions("lhs_batch/lhs_contracting", joined(a.lhs_batch, a.lhs_contracting), lhs.rank()));
  STITCH_TRY(check_dimensions("rhs_batch/rhs_contracting", joined(a.rhs_batch, a.rhs_contracting), rhs.rank()));
  if (a.lhs_batch.size() != a.rhs_batch.size()) return bad("attribute 'lhs_batch' and 'rhs_batch' differ in length");
  if (a.lhs_contracting.size() != a.rhs_contracting.size()) {
    return bad("attribute 'lhs_contracting' and 'rhs_contracting' differ in length");
  }
  TensorType result{a.result, {}};
  for (std::size_t i = 0; i < a.lhs_batch.size(); ++i) {
    if (lhs.dims[at(a.lhs_batch[i])] != rhs.dims[at(a.rhs_batch[i])]) return bad("batch dimension {} differs", i);
    result.dims.push_back(lhs.dims[at(a.lhs_batch[i])]);
  }
  for (std::size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    if (lhs.dims[at(a.lhs_contracting[i])] != rhs.dims[at(a.rhs_contracting[i])]) {
      return bad("contracted dimension {} is {} on the left, {} on the right", i, lhs.dims[at(a.lhs_contracting[i])],
                 rhs.dims[at(a.rhs_contracting[i])]);
    }
  }
  for (const std::int64_t extent : without(lhs.dims, joined(a.lhs_batch, a.lhs_contracting)))
    result.dims.push_back(extent);
  for (const std::int64_t extent : without(rhs.dims, joined(a.rhs_batch, a.rhs_contracting)))
    result.dims.push_back(extent);
  return Types{result};
}

Result<Types> infer_convolution(Operands operands, const ConvolutionAttributes& a) {
  const TensorType& input = operands[0];
  const TensorType& kernel = operands[1];
  const std::size_t spatial = a.input_spatial.size();
  if (input.dims.size() != spatial + 2 || kernel.dims.size() != spatial + 2 || a.kernel_spatial.size() != spatial ||
      a.output_spatial.size() != spatial) {
    return bad("ranks {} and {} do not fit {} spatial dimensions", input.rank(), kernel.rank(), spatial);
  }
  Dims input_dims = a.input_spatial, kernel_dims = a.kernel_spatial, output_dims = a.output_spatial;
  input_dims.insert(input_dims.end(), {a.input_batch, a.input_feature});
  kernel_dims.insert(kernel_dims.end(), {a.kernel_input_feature, a.kernel_output_feature});
  output_dims.insert(output_dims.end(), {a.output_batch, a.output_feature});
  STITCH_TRY(check_dimensions("input_spatial/batch/feature", input_dims, input.rank()));
  STITCH_TRY(check_dimensions("kernel_spatial/input/output", kernel_dims, kernel.rank()));
  STITCH_TRY(check_dimensions("output_spatial/batch/feature", output_dims, input.rank()));
  for (const auto& [name, list] : {std::pair<std::string_view, const Dims&>{"strides", a.strides},
                                   {"low", a.low},
                                   {"high", a.high},
                                   {"input_dilation", a.input_dilation},
                                   {"kernel_dilation", a.kernel_dilation}}) {
    STITCH_TRY(check_length(name, list, static_cast<int>(spatial)));
  }
  if (a.feature_groups < 1 || a.batch_groups < 1)
    return bad("attribute 'feature_groups' or 'batch_groups' is not positive");
  if (input.dims[at(a.input_feature)] != kernel.dims[at(a.kernel_input_feature)] * a.feature_groups) {
    return bad("input features {} ≠ kernel input features {} × {} groups", input.dims[at(a.input_feature)],
               kernel.dims[at(a.kernel_input_feature)], a.feature_groups);
  }
  Dims base, window;
  for (std::size_t i = 0; i < spatial; ++i) {
    base.push_back(input.dims[at(a.input_spatial[i])]);
    window.push_back(kernel.dims[at(a.kernel_spatial[i])]);
  }
  STITCH_ASSIGN(const Dims extents,
                window_extents(base, window, a.strides, a.low, a.high, a.input_dilation, a.kernel_dilation));
  TensorType result{a.result, Dims(spatial + 2)};
  result.dims[at(a.output_batch)] = input.dims[at(a.input_batch)] / a.batch_groups;
  result.dims[at(a.output_feature)] = kernel.dims[at(a.kernel_output_feature)];
  for (std::size_t i = 0; i < spatial; ++i) result.dims[at(a.output_spatial[i])] = extents[i];
  return Types{result};
}

/// Parameters of a region must be `operands`; its result types are returned.
Result<Types> region_types(const Graph& region, std::string_view what, Operands operands) {
  if (region.parameters().size() != operands.size()) {
    return bad("{} takes {} parameters, {} are given", what, region.parameters().size(), operands.size());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorType& type = region.node(region.parameters()[i]).type();
    if (type != operands[i]) {
      return bad("{}: parameter {} is {}, {} is given", what, i, to_string(type), to_string(operands[i]));
    }
  }
  Types types;
  for (const Value& value : region.results()) types.push_back(region.type(value));
  return types;
}

Result<Types> infer_loop(Operands operands, std::span<const std::shared_ptr<const Graph>> regions) {
  if (regions.size() != 2) return bad("has {} regions instead of body and condition", regions.size());
  STITCH_ASSIGN(Types carried, region_types(*regions[0], "body", operands));
  if (!std::equal(carried.begin(), carried.end(), operands.begin(), operands.end())) {
    return bad("the body's results are not the types it carries");
  }
  STITCH_ASSIGN(const Types decision, region_types(*regions[1], "condition", operands));
  if (decision != Types{{DType::pred, {}}}) return bad("the condition does not return one pred[]");
  return carried;
}

Result<Types> infer_conditional(Operands operands, std::span<const std::shared_ptr<const Graph>> regions) {
  if (regions.empty()) return bad("has no branches");
  if (operands[0].rank() != 0 || !(operands[0].dtype == DType::pred || is_integer(operands[0].dtype))) {
    return bad("operand 0 is {}, not a scalar selector", to_string(operands[0]));
  }
  STITCH_ASSIGN(Types first, region_types(*regions[0], "branch 0", operands.subspan(1)));
  for (std::size_t i = 1; i < regions.size(); ++i) {
    STITCH_ASSIGN(const Types other, region_types(*regions[i], fmt::format("branch {}", i), operands.subspan(1)));
    if (other != first) return bad("branches 0 and {} return different types", i);
  }
  return first;
}

Result<Types> infer_constant(const ConstantAttributes& a) {
  STITCH_TRY(check_extents(a.type.dims));
  if (static_cast<std::int64_t>(a.data.size()) != a.type.bytes()) {
    return bad("attribute 'data' has {} bytes, {} needs {}", a.data.size(), to_string(a.type), a.type.bytes());
  }
  return Types{a.type};
}

Result<Types> infer_iota(const IotaAttributes& a) {
  STITCH_TRY(check_extents(a.type.dims));
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, a.type.rank()));
  return Types{a.type};
}

}  // namespace

Result<Types> infer(Op op, Operands operands, const Attributes& attributes,
                    std::span<const std::shared_ptr<const Graph>> regions) {
  const OpInfo& row = info(op);
  const auto given = static_cast<int>(operands.size());
  if (given < row.min_operands || (row.max_operands >= 0 && given > row.max_operands)) {
    return bad("takes {}{} operands, {} are given", row.min_operands, row.max_operands < 0 ? " or more" : "", given);
  }
  if (attributes.index() != default_attributes(op).index()) return bad("has attributes of another operator");
  if (row.category == OpCategory::elementwise) return infer_elementwise(op, operands, attributes);
  switch (op) {
    case Op::parameter: {
      const TensorType& type = std::get<ParameterAttributes>(attributes).type;
      STITCH_TRY(check_extents(type.dims));
      return Types{type};
    }
    case Op::constant: return infer_constant(std::get<ConstantAttributes>(attributes));
    case Op::iota: return infer_iota(std::get<IotaAttributes>(attributes));
    case Op::broadcast: return infer_broadcast(operands[0], std::get<BroadcastAttributes>(attributes));
    case Op::reshape: return infer_reshape(operands[0], std::get<ReshapeAttributes>(attributes));
    case Op::transpose: return infer_transpose(operands[0], std::get<TransposeAttributes>(attributes));
    case Op::slice: return infer_slice(operands[0], std::get<SliceAttributes>(attributes));
    case Op::dynamic_slice: return infer_dynamic_slice(operands, std::get<DynamicSliceAttributes>(attributes));
    case Op::dynamic_update_slice: return infer_dynamic_update_slice(operands);
    case Op::concatenate: return infer_concatenate(operands, std::get<ConcatenateAttributes>(attributes));
    case Op::pad: return infer_pad(operands, std::get<PadAttributes>(attributes));
    case Op::reverse:
      STITCH_TRY(
          check_dimensions("dimensions", std::get<ReverseAttributes>(attributes).dimensions, operands[0].rank()));
      return Types{operands[0]};
    case Op::gather: return infer_gather(operands, std::get<GatherAttributes>(attributes));
    case Op::scatter: return infer_scatter(operands, std::get<ScatterAttributes>(attributes));
    case Op::reduce: return infer_reduce(operands[0], std::get<ReduceAttributes>(attributes));
    case Op::arg_reduce: return infer_arg_reduce(operands[0], std::get<ArgReduceAttributes>(attributes));
    case Op::reduce_window: return infer_reduce_window(operands[0], std::get<ReduceWindowAttributes>(attributes));
    case Op::select_and_scatter:
      return infer_select_and_scatter(operands, std::get<SelectAndScatterAttributes>(attributes));
    case Op::scan:
      STITCH_TRY(check_dimensions("dimension", {std::get<ScanAttributes>(attributes).dimension}, operands[0].rank()));
      return Types{operands[0]};
    case Op::dot: return infer_dot(operands, std::get<DotAttributes>(attributes));
    case Op::convolution: return infer_convolution(operands, std::get<ConvolutionAttributes>(attributes));
    case Op::opaque: return std::get<OpaqueAttributes>(attributes).results;
    case Op::loop: return infer_loop(operands, regions);
    case Op::conditional: return infer_conditional(operands, regions);
    default: return make_error(ErrorKind::internal, "no inference rule for {}", row.name);
  }
}

}  // namespace stitch::graph
