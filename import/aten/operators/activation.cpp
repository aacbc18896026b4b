// Activations that core ATen keeps. Those of 16-bit floats compute in f32 and are rounded once.
#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// x where it is positive, else `otherwise`.
Value positive_or(Builder& b, Value x, Value otherwise) {
  return b.select(emit::compare(b, graph::Comparison::gt, x, 0.0), x, otherwise);
}

}  // namespace

Values relu(Call& c) { return {emit::max(c.b, c.tensor("self"), 0.0)}; }

/// Hendrycks and Gimpel, 2016: x Φ(x), or its approximation by tanh.
Values gelu(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const Value half = emit::mul(b, x, 0.5);
  if (c.text("approximate") == "tanh") {
    constexpr double root = 0.79788456080286535588;  // √(2/π)
    const Value cube = emit::mul(b, emit::square(b, x), x);
    const Value inner = emit::mul(b, emit::add(b, x, emit::mul(b, cube, 0.044715)), root);
    return {emit::mul(b, half, emit::add(b, emit::tanh(b, inner), 1.0))};
  }
  constexpr double root = 0.70710678118654752440;
  return {emit::mul(b, half, emit::add(b, b.unary(Op::erf, emit::mul(b, x, root)), 1.0))};
}

Values leaky_relu(Call& c) {
  const Value x = emit::widen(c.b, c.tensor("self"));
  return {positive_or(c.b, x, emit::mul(c.b, x, c.number("negative_slope", 0.01)))};
}

Values elu(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const double alpha = c.number("alpha", 1.0), scale = c.number("scale", 1.0);
  const Value below = emit::mul(b, b.unary(Op::expm1, emit::mul(b, x, c.number("input_scale", 1.0))), alpha);
  return {emit::mul(b, positive_or(b, x, below), scale)};
}

Values hard_tanh(Call& c) {
  const DType dtype = c.result().dtype;
  const Value x = c.operand("self", dtype);
  const Value low = emit::like(c.b, x, c.number("min_val", -1.0)), high = emit::like(c.b, x, c.number("max_val", 1.0));
  return {c.b.add(Op::clamp, {low, x, high})};
}

}  // namespace stitch::import::aten
