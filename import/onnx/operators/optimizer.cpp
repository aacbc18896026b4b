// Optimizers (ai.onnx.preview.training): rate and step, then for n tensors all values, all gradients, all states.
#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// How many tensors are updated, when each comes with `per_tensor` inputs.
Result<std::size_t> tensor_count(Call& c, std::size_t per_tensor) {
  const std::size_t given = c.inputs.size() - 2;
  if (given % per_tensor != 0) return Call::wrong("{} tensors do not make groups of {}", given, per_tensor);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
  }
  return given / per_tensor;
}

/// The gradient with the regularisation's share.
Value regularised(Call& c, Value gradient, Value x, double norm) {
  return norm == 0.0 ? gradient : add(c.b, gradient, mul(c.b, x, norm));
}

/// A scalar input in the dtype of x.
Value scalar_for(Call& c, std::size_t input, Value x) { return c.b.convert(c.b.reshape(c.in(input), {}), c.dtype(x)); }

}  // namespace

Result<Values> adagrad(Call& c) {
  STITCH_ASSIGN(const std::size_t n, tensor_count(c, 3));
  STITCH_ASSIGN(const double decay, c.node.number("decay_factor", 0.0));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-6));
  STITCH_ASSIGN(const double norm, c.node.number("norm_coefficient", 0.0));
  Values results(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const Value x = c.in(2 + i), sum = c.in(2 + 2 * n + i);
    const Value step = scalar_for(c, 1, x);
    const Value rate = div(c.b, scalar_for(c, 0, x), add(c.b, mul(c.b, step, decay), 1.0));
    const Value gradient = regularised(c, c.in(2 + n + i), x, norm);
    const Value squares = add(c.b, sum, square(c.b, gradient));
    const Value scaled = div(c.b, gradient, add(c.b, sqrt(c.b, squares), epsilon));
    results[i] = sub(c.b, x, mul(c.b, rate, scaled));
    results[n + i] = squares;
  }
  return results;
}

Result<Values> adam(Call& c) {
  STITCH_ASSIGN(const std::size_t n, tensor_count(c, 4));
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 0.9));
  STITCH_ASSIGN(const double beta, c.node.number("beta", 0.999));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-6));
  STITCH_ASSIGN(const double norm, c.node.number("norm_coefficient", 0.0));
  STITCH_ASSIGN(const double norm_post, c.node.number("norm_coefficient_post", 0.0));
  Values results(3 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const Value x = c.in(2 + i);
    const Value step = scalar_for(c, 1, x), rate = scalar_for(c, 0, x);
    const Value gradient = regularised(c, c.in(2 + n + i), x, norm);
    const Value first = add(c.b, mul(c.b, c.in(2 + 2 * n + i), alpha), mul(c.b, gradient, 1.0 - alpha));
    const Value second = add(c.b, mul(c.b, c.in(2 + 3 * n + i), beta), mul(c.b, square(c.b, gradient), 1.0 - beta));
    const auto correction = [&](double factor) {
      return sub(c.b, like(c.b, step, 1.0), c.b.binary(Op::power, like(c.b, step, factor), step));
    };
    const Value adjusted = div(c.b, mul(c.b, rate, sqrt(c.b, correction(beta))), correction(alpha));
    // At step 0 nothing is corrected.
    const Value started = compare(c.b, Comparison::gt, step, 0.0);
    const Value effective = c.b.select(started, adjusted, rate);
    const Value moved = sub(c.b, x, div(c.b, mul(c.b, effective, first), add(c.b, sqrt(c.b, second), epsilon)));
    results[i] = mul(c.b, moved, 1.0 - norm_post);
    results[n + i] = first;
    results[2 * n + i] = second;
  }
  return results;
}

Result<Values> momentum(Call& c) {
  STITCH_ASSIGN(const std::size_t n, tensor_count(c, 3));
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 0.0));
  STITCH_ASSIGN(const double beta, c.node.number("beta", 0.0));
  STITCH_ASSIGN(const double norm, c.node.number("norm_coefficient", 0.0));
  STITCH_ASSIGN(const std::string mode, c.node.text("mode", "standard"));
  if (mode != "standard" && mode != "nesterov") return Call::wrong("attribute 'mode' is '{}'", mode);
  Values results(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const Value x = c.in(2 + i), old = c.in(2 + 2 * n + i), rate = scalar_for(c, 0, x);
    const Value gradient = regularised(c, c.in(2 + n + i), x, norm);
    // In the first step the gradient counts in full.
    const Value first = compare(c.b, Comparison::gt, scalar_for(c, 1, x), 0.0);
    const Value share = c.b.select(first, c.b.scalar(c.dtype(x), beta), c.b.scalar(c.dtype(x), 1.0));
    const Value next = add(c.b, mul(c.b, old, alpha), mul(c.b, gradient, share));
    const Value direction = mode == "standard" ? next : add(c.b, gradient, mul(c.b, next, alpha));
    results[i] = sub(c.b, x, mul(c.b, rate, direction));
    results[n + i] = next;
  }
  return results;
}

}  // namespace stitch::import::onnx
