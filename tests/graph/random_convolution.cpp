#include "tests/graph/random_convolution.h"

#include <algorithm>

#include "graph/builder.h"

namespace stitch::graph::test {

Graph random_convolution(Random& random) {
  const std::size_t spatial = 1 + random.below(2);
  const auto shuffled = [&](std::size_t rank) {
    Dims order;
    for (std::size_t d = 0; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
    for (std::size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
  };
  const auto below = [&](int most) { return static_cast<std::int64_t>(random.below(most)); };
  ConvolutionAttributes how;
  how.feature_groups = random.below(4) == 0 ? 2 : 1;
  how.batch_groups = how.feature_groups == 1 && random.below(6) == 0 ? 2 : 1;
  const std::int64_t groups = std::max(how.feature_groups, how.batch_groups);
  const std::int64_t channels = 1 + below(3), features = groups * (1 + below(2)),
                     images = (1 + below(3)) * how.batch_groups;
  const Dims in = shuffled(spatial + 2), kernel = shuffled(spatial + 2), out = shuffled(spatial + 2);
  Dims input(spatial + 2), filter(spatial + 2);
  how.input_batch = in[0];
  how.input_feature = in[1];
  how.kernel_output_feature = kernel[0];
  how.kernel_input_feature = kernel[1];
  how.output_batch = out[0];
  how.output_feature = out[1];
  input[in[0]] = images;
  input[in[1]] = channels * how.feature_groups;
  filter[kernel[0]] = features;
  filter[kernel[1]] = channels;
  for (std::size_t s = 0; s < spatial; ++s) {
    how.input_spatial.push_back(in[s + 2]);
    how.kernel_spatial.push_back(kernel[s + 2]);
    how.output_spatial.push_back(out[s + 2]);
    input[in[s + 2]] = 1 + below(7);
    filter[kernel[s + 2]] = 1 + below(4);
    how.strides.push_back(1 + below(2));
    how.kernel_dilation.push_back(1 + below(2));
    how.input_dilation.push_back(random.below(4) == 0 ? 2 : 1);
    const std::int64_t reach = (filter[kernel[s + 2]] - 1) * how.kernel_dilation[s];
    how.low.push_back(below(static_cast<int>(reach) + 2) - (random.below(8) == 0 ? 1 : 0));
    how.high.push_back(reach - below(3));
    how.window_reversal.push_back(random.below(3) == 0);
  }
  Builder builder;
  const Value x = builder.parameter(DType::f32, input);
  Value w = builder.parameter(DType::f32, filter);
  if (random.below(3) == 0) w = builder.reverse(w, how.kernel_spatial);
  Value y = builder.add(Op::convolution, {x, w}, how);
  if (random.below(2) == 0) y = builder.binary(Op::add, y, builder.parameter(DType::f32, builder.type(y).dims));
  auto graph = builder.finish({y});
  return graph.ok() ? *std::move(graph) : Graph();
}

}  // namespace stitch::graph::test
