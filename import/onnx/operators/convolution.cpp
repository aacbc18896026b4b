// Convolutions: plain, transposed, and of quantised tensors. Layout N C spatial..., weights M C/groups spatial....
#include <algorithm>

#include "import/convolutions.h"
#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/operators/window.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// x * weights for two operands of one type, without bias.
Result<Value> convolve(Call& c, Value x, Value weights) {
  const Dims &in = c.dims(x), &kernel = c.dims(weights);
  if (in.size() < 3 || kernel.size() != in.size()) {
    return Call::wrong("{} and {} are no input and weights", graph::to_string(in), graph::to_string(kernel));
  }
  STITCH_ASSIGN(const std::int64_t groups, c.node.integer("group", 1));
  if (groups < 1 || kernel[0] % groups != 0) return Call::wrong("attribute 'group' is {}", groups);
  STITCH_ASSIGN(const Window w, read_window(c, Dims(in.begin() + 2, in.end()), Dims(kernel.begin() + 2, kernel.end())));
  return import::convolution(c.b, x, weights, w, groups);
}

/// Pads of a transposed convolution, from `pads`, or so that the result has the size that output_shape or auto_pad ask.
Result<Window> transposed_window(Call& c, const Dims& spatial, const Dims& kernel, const Dims& output_padding) {
  STITCH_ASSIGN(Window w, read_window(c, spatial, Dims(kernel.begin() + 2, kernel.end())));
  STITCH_ASSIGN(const std::string automatic, c.node.text("auto_pad", "NOTSET"));
  STITCH_ASSIGN(const std::optional<Dims> wanted, c.node.integers("output_shape"));
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!wanted && !same) return w;
  const std::size_t count = spatial.size();
  if (wanted && wanted->size() < count) return Call::wrong("attribute 'output_shape' has too few entries");
  for (std::size_t d = 0; d < count; ++d) {
    const std::int64_t target = wanted ? (*wanted)[wanted->size() - count + d] : spatial[d] * w.strides[d];
    const std::int64_t full = w.strides[d] * (spatial[d] - 1) + output_padding[d] + w.span(d);
    if (target < 0 || target > (1LL << 40)) return Call::wrong("attribute 'output_shape' has {}", target);
    const std::int64_t total = full - target;
    // A result larger than the windows reach is filled up at its end.
    w.low[d] = total < 0 ? 0 : automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.high[d] = total - w.low[d];
  }
  return w;
}

}  // namespace

Result<Values> conv(Call& c) {
  STITCH_ASSIGN(const Value y, convolve(c, c.in(0), c.in(1)));
  return Values{c.has(2) ? with_bias(c.b, y, c.in(2)) : y};
}

/// The gradient of a convolution: the input dilated by the strides, the kernel reversed.
Result<Values> conv_transpose(Call& c) {
  STITCH_TRY(c.need_rank(0, 3));
  const Dims in = c.dims(c.in(0)), kernel = c.dims(c.in(1));
  if (kernel.size() != in.size()) return Call::wrong("the weights have another rank than the input");
  const Dims spatial(in.begin() + 2, in.end());
  STITCH_ASSIGN(const std::int64_t groups, c.node.integer("group", 1));
  if (groups < 1 || kernel[0] % groups != 0 || in[1] != kernel[0])
    return Call::wrong("attribute 'group' is {}", groups);
  STITCH_ASSIGN(const Dims output_padding, c.node.integers("output_padding", Dims(spatial.size(), 0)));
  if (output_padding.size() != spatial.size()) return Call::wrong("attribute 'output_padding' does not fit");
  for (const std::int64_t extra : output_padding) {
    if (extra < 0 || extra > (1LL << 31)) return Call::wrong("attribute 'output_padding' has {}", extra);
  }
  STITCH_ASSIGN(const Window w, transposed_window(c, spatial, kernel, output_padding));
  const Value y = transposed_convolution(c.b, c.in(0), c.in(1), w, output_padding, groups);
  return Values{c.has(2) ? with_bias(c.b, y, c.in(2)) : y};
}

namespace {

/// A quantised tensor as s32, less its zero point: one for all, or one for each extent of dimension 0.
Value shifted(Call& c, std::size_t input, std::size_t zero_point) {
  const Value wide = c.b.convert(c.in(input), DType::s32);
  if (!c.has(zero_point)) return wide;
  const Value zero = c.b.convert(c.in(zero_point), DType::s32);
  if (graph::element_count(c.dims(zero)) == 1) return sub(c.b, wide, c.b.reshape(zero, {}));
  return c.b.binary(Op::subtract, wide, spread(c.b, zero, c.dims(wide), {0}));
}

}  // namespace

Result<Values> conv_integer(Call& c) {
  STITCH_ASSIGN(const Value y, convolve(c, shifted(c, 0, 2), shifted(c, 1, 3)));
  return Values{y};
}

/// Inputs: x, its scale and zero point, w, its scale and zero point, the result's scale and zero point, bias.
Result<Values> qlinear_conv(Call& c) {
  STITCH_ASSIGN(Value y, convolve(c, shifted(c, 0, 2), shifted(c, 3, 5)));
  if (c.has(8)) y = with_bias(c.b, y, c.in(8));
  const Value wide = c.b.convert(y, DType::f32);
  const Value weight_scale = c.b.convert(c.in(4), DType::f32);
  const bool scalar = graph::element_count(c.dims(weight_scale)) == 1;
  const Value per_channel = scalar ? c.b.reshape(weight_scale, {}) : weight_scale;
  const auto single = [&](std::size_t i) { return c.b.reshape(c.b.convert(c.in(i), DType::f32), {}); };
  const Value factor = div(c.b, mul(c.b, single(1), per_channel), single(6));
  const Value scaled =
      scalar ? mul(c.b, wide, factor) : c.b.binary(Op::multiply, wide, spread(c.b, factor, c.dims(wide), {1}));
  return Values{saturate_quantised(c.b, scaled, c.b.reshape(c.in(7), {}))};
}

}  // namespace stitch::import::onnx
