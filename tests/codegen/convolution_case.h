#pragma once

#include <string>

#include "graph/builder.h"
#include "tests/codegen/contraction_case.h"

/// Convolutions by their attributes.
namespace stitch::codegen::test {

using graph::Builder;
using graph::ConvolutionAttributes;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;
/// How the dimensions follow one another: as PyTorch has them, or with the features last.
enum class Order : std::uint8_t { features_first, features_last };

struct Convolution {
  std::string name;
  std::int64_t images = 2, features = 8, results = 16;
  Dims extents = {6, 7}, window = {3, 3};
  Dims strides = {}, padding = {}, input_dilation = {}, kernel_dilation = {};  ///< none: 1, of padding 0
  Dims high = {};  ///< padding behind the last element; none: as before the first
  DType dtype = DType::f16, result = DType::f32;
  Order order = Order::features_last;
  std::int64_t feature_groups = 1, batch_groups = 1;
  bool reversed = false;       ///< the window, by the attribute
  bool filters_first = false;  ///< of features last: [results, spatial…, features]
  std::string epilogue = {};   ///< "bias", "turned"; "flipped": the kernel by an operator before
  graph::Constraints constraints = {};
};
inline void PrintTo(const Convolution& each, std::ostream* out) { *out << each.name; }

/// Dimensions in an order, and their places.
struct Placed {
  Dims dims;
  std::int64_t first, second;
  Dims spatial;
};
inline Placed placed(std::int64_t first, std::int64_t second, const Dims& spatial, bool second_last) {
  Placed made{{first}, 0, second_last ? 1 + std::ssize(spatial) : 1, {}};
  if (!second_last) made.dims.push_back(second);
  for (std::size_t s = 0; s < spatial.size(); ++s) {
    made.spatial.push_back(std::ssize(made.dims));
    made.dims.push_back(spatial[s]);
  }
  if (second_last) made.dims.push_back(second);
  return made;
}

inline Dims or_all(const Dims& given, std::size_t rank, std::int64_t value) {
  return given.empty() ? Dims(rank, value) : given;
}

inline Result<graph::Graph> graph_of(const Convolution& c) {
  const std::size_t rank = c.extents.size();
  const bool last = c.order == Order::features_last;
  Builder b;
  ConvolutionAttributes a;
  a.strides = or_all(c.strides, rank, 1);
  a.low = or_all(c.padding, rank, 0);
  a.high = c.high.empty() ? a.low : c.high;
  a.input_dilation = or_all(c.input_dilation, rank, 1);
  a.kernel_dilation = or_all(c.kernel_dilation, rank, 1);
  a.window_reversal.assign(rank, c.reversed);
  a.feature_groups = c.feature_groups;
  a.batch_groups = c.batch_groups;
  a.result = c.result;
  Dims positions;
  for (std::size_t s = 0; s < rank; ++s) {
    const std::int64_t input = c.extents[s] == 0 ? 0 : (c.extents[s] - 1) * a.input_dilation[s] + 1;
    const std::int64_t window = (c.window[s] - 1) * a.kernel_dilation[s] + 1;
    const std::int64_t room = input + a.low[s] + a.high[s] - window;
    positions.push_back(room < 0 ? 0 : room / a.strides[s] + 1);
  }
  const Placed input = placed(c.images, c.features, c.extents, last);
  a.input_batch = input.first;
  a.input_feature = input.second;
  a.input_spatial = input.spatial;
  // The kernel of what has its features last: [spatial…, features, results].
  const std::int64_t inner = c.features / c.feature_groups;
  Dims kernel = c.window;
  if (last && c.filters_first) {
    kernel.insert(kernel.begin(), c.results);
    kernel.push_back(inner);
    a.kernel_output_feature = 0;
    a.kernel_input_feature = static_cast<std::int64_t>(rank) + 1;
  } else if (last) {
    kernel.insert(kernel.end(), {inner, c.results});
    a.kernel_input_feature = static_cast<std::int64_t>(rank);
    a.kernel_output_feature = a.kernel_input_feature + 1;
  } else {
    kernel.insert(kernel.begin(), {c.results, inner});
    a.kernel_output_feature = 0;
    a.kernel_input_feature = 1;
  }
  const std::int64_t before = !last ? 2 : c.filters_first ? 1 : 0;
  for (std::size_t s = 0; s < rank; ++s) a.kernel_spatial.push_back(static_cast<std::int64_t>(s) + before);
  const Placed output = placed(c.images / c.batch_groups, c.results, positions, last);
  a.output_batch = output.first;
  a.output_feature = output.second;
  a.output_spatial = output.spatial;
  const Value x = b.parameter(c.dtype, input.dims);
  Value w = b.parameter(c.dtype, kernel);
  if (c.epilogue == "flipped") w = b.add(Op::reverse, {w}, graph::ReverseAttributes{a.kernel_spatial});
  Value y = b.add(Op::convolution, {x, w}, a);
  if (c.epilogue == "bias") {
    const Value bias = b.broadcast(b.parameter(c.result, {c.results}), output.dims, {output.second});
    y = b.add(Op::maximum, {b.add(Op::add, {y, bias}), b.filled(c.result, output.dims, 0)});
  }
  if (c.epilogue == "turned") {
    Dims permutation;
    for (std::size_t d = output.dims.size(); d-- > 0;) permutation.push_back(static_cast<std::int64_t>(d));
    y = b.transpose(y, permutation);
  }
  auto graph = b.finish({y});
  if (graph) graph->constraints = c.constraints;
  return graph;
}

inline kernel::ContractionProblem problem_of(const Convolution& c) { return derived(graph_of(c)); }

}  // namespace stitch::codegen::test
