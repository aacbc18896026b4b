#pragma once

#include <string>
#include <vector>

#include "import/onnx/call.h"

namespace stitch::import::onnx {

/// An activation function of a recurrent operator, as its attributes name it.
struct Activation {
  std::string name;  ///< lower case
  double alpha = 0.0, beta = 0.0;
};

/// `activations`, `activation_alpha` and `activation_beta` for every direction, or the defaults of the operator.
/// Errors: an unknown name, or too few of them.
Result<std::vector<Activation>> read_activations(Call& c, const std::vector<std::string>& defaults,
                                                 std::int64_t directions);

Value apply_activation(graph::Builder& b, Value x, const Activation& activation);

}  // namespace stitch::import::onnx
