#include "lab/products/product_draft.h"

namespace stitch::lab {
namespace {

/// Sizes of a dimension that windows move along, so that at least one fits.
struct MovingWindow {
  std::int64_t extent, window, stride, low, high, holes, dilation;
  [[nodiscard]] std::int64_t span() const { return (extent - 1) * holes + 1 + low + high; }
  [[nodiscard]] std::int64_t reach() const { return (window - 1) * dilation + 1; }
  [[nodiscard]] std::int64_t places() const { return (span() - reach()) / stride + 1; }
};

MovingWindow draw_moving(ProductDraft& draft, std::int64_t most) {
  MovingWindow m{draft.between(1, most), draft.of<std::int64_t>({1, 1, 2, 3, 3, 3, 5, 7}), 1, 0, 0, 1, 1};
  if (draft.one_in(3)) m.stride = draft.between(2, 3);
  if (draft.one_in(2)) m.low = m.high = m.window / 2;
  if (draft.one_in(8)) m.high = draft.between(0, 2);
  if (draft.one_in(8)) m.holes = 2;  // a transposed convolution
  if (draft.one_in(8)) m.dilation = 2;
  while (m.span() < m.reach()) ++m.extent;
  return m;
}

void set_extent(Dims& dims, std::int64_t at, std::int64_t extent) { dims[static_cast<std::size_t>(at)] = extent; }

}  // namespace

RandomProduct draw_convolution(ProductDraft& draft) {
  graph::Builder& b = draft.b;
  const std::int64_t rank = draft.of<std::int64_t>({1, 2, 2, 2, 2, 3});
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.one_in(12) ? DType::s8 : draft.half();
  const DType result = dtype == DType::s8 ? DType::s32 : draft.one_in(2) ? DType::f32 : dtype;
  graph::Constraints constraints;
  if (dtype == DType::f32) constraints.tf32 = draft.one_in(3);
  graph::ConvolutionAttributes a;
  a.result = result;
  const bool depthwise = draft.one_in(8);
  if (depthwise || draft.one_in(5)) a.feature_groups = depthwise ? 8 * draft.between(1, 4) : draft.between(2, 3);
  const std::int64_t of_group = depthwise ? 1 : draft.one_in(3) ? draft.between(1, 9) : 8 * draft.between(1, 6);
  const std::int64_t results = a.feature_groups * (depthwise ? draft.between(1, 2) : draft.extent(64));
  const std::int64_t images = draft.between(1, 3);
  // Features last, as TensorFlow and JAX have them, or first, as PyTorch has.
  const bool last = draft.one_in(2);
  a.input_feature = a.output_feature = last ? rank + 1 : 1;
  a.kernel_input_feature = last ? rank : 1;
  a.kernel_output_feature = last ? rank + 1 : 0;
  Dims input(rank + 2), kernel(rank + 2), output(rank + 2);
  set_extent(input, 0, images);
  set_extent(output, 0, images);
  set_extent(input, a.input_feature, of_group * a.feature_groups);
  set_extent(output, a.output_feature, results);
  set_extent(kernel, a.kernel_input_feature, of_group);
  set_extent(kernel, a.kernel_output_feature, results);
  for (std::int64_t s = 0; s < rank; ++s) {
    const MovingWindow m = draw_moving(draft, rank == 1 ? 60 : rank == 2 ? 12 : 5);
    a.input_spatial.push_back(last ? s + 1 : s + 2);
    a.kernel_spatial.push_back(last ? s : s + 2);
    set_extent(input, a.input_spatial.back(), m.extent);
    set_extent(kernel, a.kernel_spatial.back(), m.window);
    set_extent(output, a.input_spatial.back(), m.places());
    a.strides.push_back(m.stride);
    a.low.push_back(m.low);
    a.high.push_back(m.high);
    a.input_dilation.push_back(m.holes);
    a.kernel_dilation.push_back(m.dilation);
    a.window_reversal.push_back(draft.one_in(10));
  }
  a.output_spatial = a.input_spatial;
  const Value x = b.parameter(dtype, input), w = b.parameter(dtype, kernel);
  Value y = b.add(Op::convolution, {x, w}, a);
  const std::string neighbour = draft.of<std::string>({"", "bias", "scaled bias", "residual"});
  const auto of_feature = [&] { return b.broadcast(b.parameter(result, {results}), output, {a.output_feature}); };
  if (neighbour == "scaled bias") y = b.binary(Op::multiply, y, of_feature());
  if (neighbour == "bias" || neighbour == "scaled bias") y = b.binary(Op::add, y, of_feature());
  if (neighbour == "residual") y = b.binary(Op::add, y, b.parameter(result, output));
  if (!neighbour.empty()) y = b.binary(Op::maximum, y, b.filled(result, output, 0));
  const std::string name(graph::to_string(dtype));
  return finished(draft, {y}, depthwise ? "depthwise convolution" : "convolution",
                  constraints.tf32 ? name + " by TF32" : name, neighbour, constraints);
}

}  // namespace stitch::lab
