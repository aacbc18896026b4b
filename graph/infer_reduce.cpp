#include "graph/infer_checks.h"

// Inference of reductions, windows and contractions.

namespace stitch::graph {
namespace {

/// A window that slides over `dims`, one entry per dimension.
struct Window {
  const Dims &dims, &sizes, &strides, &low, &high, &base_dilation, &window_dilation;
};

/// Output extents of a window.
Result<Dims> window_extents(const Window& w) {
  for (const auto& [name, list] : {std::pair<std::string_view, const Dims&>{"sizes", w.sizes},
                                   {"strides", w.strides},
                                   {"low", w.low},
                                   {"high", w.high},
                                   {"base_dilation", w.base_dilation},
                                   {"window_dilation", w.window_dilation}}) {
    STITCH_TRY(check_length(name, list, w.dims.size()));
    STITCH_TRY(check_magnitude(name, list));
  }
  Dims result;
  for (std::size_t d = 0; d < w.dims.size(); ++d) {
    if (w.sizes[d] < 1 || w.strides[d] < 1 || w.base_dilation[d] < 1 || w.window_dilation[d] < 1) {
      return bad("window: size {}, stride {}, dilations {} and {} in dimension {} must be positive", w.sizes[d],
                 w.strides[d], w.base_dilation[d], w.window_dilation[d], d);
    }
    if (w.dims[d] > most_elements / w.base_dilation[d] || w.sizes[d] > most_elements / w.window_dilation[d]) {
      return bad("window: dilated extent in dimension {} is out of range", d);
    }
    const std::int64_t base = w.dims[d] == 0 ? 0 : (w.dims[d] - 1) * w.base_dilation[d] + 1;
    const std::int64_t window = (w.sizes[d] - 1) * w.window_dilation[d] + 1;
    const std::int64_t padded = base + w.low[d] + w.high[d];
    result.push_back(padded < window ? 0 : (padded - window) / w.strides[d] + 1);
  }
  return result;
}

Status check_extreme(std::string_view attribute, ReduceKind kind) {
  if (kind == ReduceKind::max || kind == ReduceKind::min) return {};
  return bad("attribute '{}': {} is neither max nor min", attribute, to_string(kind));
}

Status check_reducer(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::replace) return bad("attribute 'kind': replace does not reduce");
  return check_combiner("kind", kind, dtype);
}

Status check_number(OperandTypes operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dtype == DType::pred) return bad("operand {} is pred, not a number", i);
  }
  return {};
}

}  // namespace

Result<Types> infer_reduce(const TensorType& operand, const ReduceAttributes& a) {
  STITCH_TRY(check_dimensions("dimensions", a.dimensions, operand.rank()));
  STITCH_TRY(check_sorted("dimensions", a.dimensions));
  STITCH_TRY(check_reducer(a.kind, operand.dtype));
  return Types{{operand.dtype, without(operand.dims, a.dimensions)}};
}

Result<Types> infer_arg_reduce(const TensorType& operand, const ArgReduceAttributes& a) {
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, operand.rank()));
  STITCH_TRY(check_extreme("kind", a.kind));
  STITCH_TRY(check_number({&operand, 1}));
  if (operand.dims[a.dimension] == 0) return bad("the reduced dimension {} is empty", a.dimension);
  if (!is_integer(a.index_dtype)) return bad("attribute 'index_dtype': {} is no integer", to_string(a.index_dtype));
  const Dims dims = without(operand.dims, {a.dimension});
  return Types{{operand.dtype, dims}, {a.index_dtype, dims}};
}

Result<Types> infer_max_exp_sum(const TensorType& operand, const MaxExpSumAttributes& a) {
  STITCH_TRY(check_dimensions("dimensions", a.dimensions, operand.rank()));
  STITCH_TRY(check_sorted("dimensions", a.dimensions));
  if (operand.dtype != DType::f32 && operand.dtype != DType::f64)
    return bad("operand 0 is {}: sums of exponentials are of f32 or f64", to_string(operand.dtype));
  for (const std::int64_t d : a.dimensions) {
    if (operand.dims[d] == 0) return bad("dimension {} of operand 0 is empty: nothing has no maximum", d);
  }
  const TensorType result{operand.dtype, without(operand.dims, a.dimensions)};
  return Types{result, result};
}

Result<Types> infer_reduce_window(const TensorType& operand, const ReduceWindowAttributes& a) {
  STITCH_TRY(check_reducer(a.kind, operand.dtype));
  STITCH_ASSIGN(Dims dims,
                window_extents({operand.dims, a.sizes, a.strides, a.low, a.high, a.base_dilation, a.window_dilation}));
  return Types{{operand.dtype, std::move(dims)}};
}

Result<Types> infer_select_and_scatter(OperandTypes operands, const SelectAndScatterAttributes& a) {
  STITCH_TRY(check_extreme("select", a.select));
  STITCH_TRY(check_number(operands));
  const Dims ones(operands[0].dims.size(), 1);
  STITCH_ASSIGN(Dims dims, window_extents({operands[0].dims, a.sizes, a.strides, a.low, a.high, ones, ones}));
  const TensorType source{operands[0].dtype, std::move(dims)};
  if (operands[1] != source) {
    return bad("operand 1 is {}, the windows give {}", to_string(operands[1]), to_string(source));
  }
  return Types{operands[0]};
}

Result<Types> infer_scan(const TensorType& operand, const ScanAttributes& a) {
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, operand.rank()));
  STITCH_TRY(check_reducer(a.kind, operand.dtype));
  return Types{operand};
}

Result<Types> infer_sort(OperandTypes operands, const SortAttributes& a) {
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, operands[0].rank()));
  const std::int64_t extent = operands[0].dims[a.dimension];
  if (a.count < 0 || a.count > extent) return bad("attribute 'count': {} of {} elements", a.count, extent);
  Types results;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dims != operands[0].dims)
      return bad("operand {} has shape {}, operand 0 has {}", i, to_string(operands[i]), to_string(operands[0]));
    results.push_back(operands[i]);
    results.back().dims[a.dimension] = a.count;
  }
  return results;
}

Result<Types> infer_dot(OperandTypes operands, const DotAttributes& a) {
  const TensorType& lhs = operands[0];
  const TensorType& rhs = operands[1];
  STITCH_TRY(check_number(operands));
  if (is_floating(lhs.dtype) != is_floating(rhs.dtype) || is_floating(lhs.dtype) != is_floating(a.result)) {
    return bad("operands {} and {} and attribute 'result' {} mix integers and floats", to_string(lhs.dtype),
               to_string(rhs.dtype), to_string(a.result));
  }
  const Dims lhs_used = joined(a.lhs_batch, a.lhs_contracting), rhs_used = joined(a.rhs_batch, a.rhs_contracting);
  STITCH_TRY(check_dimensions("lhs_batch/lhs_contracting", lhs_used, lhs.rank()));
  STITCH_TRY(check_dimensions("rhs_batch/rhs_contracting", rhs_used, rhs.rank()));
  if (a.lhs_batch.size() != a.rhs_batch.size()) return bad("attribute 'lhs_batch' and 'rhs_batch' differ in length");
  if (a.lhs_contracting.size() != a.rhs_contracting.size()) {
    return bad("attribute 'lhs_contracting' and 'rhs_contracting' differ in length");
  }
  TensorType result{a.result, {}};
  for (std::size_t i = 0; i < a.lhs_batch.size(); ++i) {
    const std::int64_t left = lhs.dims[a.lhs_batch[i]], right = rhs.dims[a.rhs_batch[i]];
    if (left != right) return bad("batch dimension {} is {} on the left, {} on the right", i, left, right);
    result.dims.push_back(left);
  }
  for (std::size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    const std::int64_t left = lhs.dims[a.lhs_contracting[i]], right = rhs.dims[a.rhs_contracting[i]];
    if (left != right) return bad("contracted dimension {} is {} on the left, {} on the right", i, left, right);
  }
  result.dims = joined(joined(result.dims, without(lhs.dims, lhs_used)), without(rhs.dims, rhs_used));
  return Types{result};
}

namespace {

/// Ranks and dimension lists of a convolution.
Status check_convolution_layout(const TensorType& input, const TensorType& kernel, const ConvolutionAttributes& a) {
  const std::size_t spatial = a.input_spatial.size();
  if (input.dims.size() != spatial + 2 || kernel.dims.size() != spatial + 2 || a.kernel_spatial.size() != spatial ||
      a.output_spatial.size() != spatial) {
    return bad("ranks {} and {} do not fit {} spatial dimensions", input.rank(), kernel.rank(), spatial);
  }
  STITCH_TRY(check_dimensions("input_spatial/batch/feature", joined(a.input_spatial, {a.input_batch, a.input_feature}),
                              input.rank()));
  STITCH_TRY(check_dimensions("kernel_spatial/input/output",
                              joined(a.kernel_spatial, {a.kernel_input_feature, a.kernel_output_feature}),
                              kernel.rank()));
  STITCH_TRY(check_dimensions("output_spatial/batch/feature",
                              joined(a.output_spatial, {a.output_batch, a.output_feature}), input.rank()));
  if (!a.window_reversal.empty() && a.window_reversal.size() != spatial) {
    return bad("attribute 'window_reversal' has {} entries for {} spatial dimensions", a.window_reversal.size(),
               spatial);
  }
  return {};
}

/// Feature and batch groups divide what they group.
Status check_convolution_groups(const TensorType& input, const TensorType& kernel, const ConvolutionAttributes& a) {
  if (a.feature_groups < 1 || a.batch_groups < 1 || (a.feature_groups > 1 && a.batch_groups > 1)) {
    return bad("attributes 'feature_groups' {} and 'batch_groups' {} must be positive, one of them 1", a.feature_groups,
               a.batch_groups);
  }
  const std::int64_t features = input.dims[a.input_feature], batch = input.dims[a.input_batch];
  const std::int64_t inputs = kernel.dims[a.kernel_input_feature];
  const std::int64_t outputs = kernel.dims[a.kernel_output_feature];
  if (features % a.feature_groups != 0 || features / a.feature_groups != inputs) {
    return bad("input features {} ≠ kernel input features {} × {} groups", features, inputs, a.feature_groups);
  }
  if (outputs % a.feature_groups != 0 || outputs % a.batch_groups != 0) {
    return bad("kernel output features {} are not divided by {} groups", outputs,
               std::max(a.feature_groups, a.batch_groups));
  }
  if (batch % a.batch_groups != 0) return bad("batch {} is not divided by {} groups", batch, a.batch_groups);
  return {};
}

}  // namespace

Result<Types> infer_convolution(OperandTypes operands, const ConvolutionAttributes& a) {
  const TensorType& input = operands[0];
  const TensorType& kernel = operands[1];
  STITCH_TRY(check_number(operands));
  if (is_floating(input.dtype) != is_floating(kernel.dtype) || is_floating(input.dtype) != is_floating(a.result)) {
    return bad("operands {} and {} and attribute 'result' {} mix integers and floats", to_string(input.dtype),
               to_string(kernel.dtype), to_string(a.result));
  }
  STITCH_TRY(check_convolution_layout(input, kernel, a));
  STITCH_TRY(check_convolution_groups(input, kernel, a));
  Dims base, window;
  for (std::size_t i = 0; i < a.input_spatial.size(); ++i) {
    base.push_back(input.dims[a.input_spatial[i]]);
    window.push_back(kernel.dims[a.kernel_spatial[i]]);
  }
  STITCH_ASSIGN(const Dims extents,
                window_extents({base, window, a.strides, a.low, a.high, a.input_dilation, a.kernel_dilation}));
  TensorType result{a.result, Dims(extents.size() + 2)};
  result.dims[a.output_batch] = input.dims[a.input_batch] / a.batch_groups;
  result.dims[a.output_feature] = kernel.dims[a.kernel_output_feature];
  for (std::size_t i = 0; i < extents.size(); ++i) result.dims[a.output_spatial[i]] = extents[i];
  return Types{result};
}

}  // namespace stitch::graph
