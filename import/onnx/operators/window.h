#pragma once

#include "import/convolutions.h"
#include "import/onnx/call.h"

namespace stitch::import::onnx {

/// Reads kernel_shape (or takes `sizes`, where the weights tell), strides, dilations and pads or auto_pad. Values
/// beyond what any tensor could need are errors, so that arithmetic with them cannot overflow.
Result<Window> read_window(Call& c, const Dims& spatial, std::optional<Dims> sizes);

}  // namespace stitch::import::onnx
