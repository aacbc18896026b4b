#pragma once

#include "import/onnx/call.h"

namespace stitch::import::onnx {

/// The window of a convolution or pooling over the spatial dimensions, one entry each.
struct Window {
  Dims sizes, strides, dilations, low, high;

  [[nodiscard]] std::int64_t span(std::size_t d) const { return (sizes[d] - 1) * dilations[d] + 1; }
};

/// Reads kernel_shape (or takes `sizes`, where the weights tell), strides, dilations and pads or auto_pad. Values
/// beyond what any tensor could need are errors, so that arithmetic with them cannot overflow.
Result<Window> read_window(Call& c, const Dims& spatial, std::optional<Dims> sizes);

}  // namespace stitch::import::onnx
