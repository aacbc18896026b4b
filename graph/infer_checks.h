#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "graph/tensor_type.h"

namespace stitch::graph {

// What the inference rules (infer*.cpp) share: checks whose errors name the attribute, and the rules' own prototypes.

using Types = std::vector<TensorType>;
using OperandTypes = std::span<const TensorType>;

inline constexpr int most_dimensions = 64;

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::invalid_argument, format, std::forward<Args>(args)...);
}

/// a followed by b.
Dims joined(const Dims& a, const Dims& b);
/// Extents of `dims` without the dimensions listed in `removed`.
Dims without(const Dims& dims, const Dims& removed);

/// Every entry of `list` is a dimension of a rank-`rank` tensor, none twice.
Status check_dimensions(std::string_view attribute, const Dims& list, int rank);
Status check_sorted(std::string_view attribute, const Dims& list);
Status check_length(std::string_view attribute, const Dims& list, std::int64_t rank);
/// No entry is larger in magnitude than most_elements.
Status check_magnitude(std::string_view attribute, const Dims& list);
/// Non-negative extents of at most most_elements elements.
Status check_extents(std::string_view what, const Dims& dims);
/// `kind` combines values of `dtype`: sums and products need numbers, bit operators integers or pred.
Status check_combiner(std::string_view attribute, ReduceKind kind, DType dtype);

Result<Types> infer_dynamic_slice(OperandTypes operands, const DynamicSliceAttributes& a);
Result<Types> infer_dynamic_update_slice(OperandTypes operands);
Result<Types> infer_gather(OperandTypes operands, const GatherAttributes& a);
Result<Types> infer_scatter(OperandTypes operands, const ScatterAttributes& a);

Result<Types> infer_reduce(const TensorType& operand, const ReduceAttributes& a);
Result<Types> infer_arg_reduce(const TensorType& operand, const ArgReduceAttributes& a);
Result<Types> infer_max_exp_sum(const TensorType& operand, const MaxExpSumAttributes& a);
Result<Types> infer_reduce_window(const TensorType& operand, const ReduceWindowAttributes& a);
Result<Types> infer_select_and_scatter(OperandTypes operands, const SelectAndScatterAttributes& a);
Result<Types> infer_scan(const TensorType& operand, const ScanAttributes& a);
Result<Types> infer_sort(OperandTypes operands, const SortAttributes& a);
Result<Types> infer_dot(OperandTypes operands, const DotAttributes& a);
Result<Types> infer_convolution(OperandTypes operands, const ConvolutionAttributes& a);

}  // namespace stitch::graph
