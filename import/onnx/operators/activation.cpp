// Activation functions and dropout. f16 and bf16 compute in f32 where several primitives follow each other.
#include <cmath>
#include <numbers>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// `body` on the input in the type that decompositions compute in, and back.
template <class Body>
Result<Values> in_wide(Call& c, const Body& body) {
  const Value x = widen(c.b, c.in(0));
  return Values{c.b.convert(body(x), c.dtype(c.in(0)))};
}

Value hard_sigmoid_of(graph::Builder& b, Value x, double alpha, double beta) {
  return max(b, min(b, add(b, mul(b, x, alpha), beta), 1.0), 0.0);
}

/// log(1 + exp(x)) without overflow.
Value softplus_of(graph::Builder& b, Value x) {
  const Value tail = b.unary(Op::log1p, exp(b, b.unary(Op::negate, b.unary(Op::abs, x))));
  return add(b, max(b, x, 0.0), tail);
}

}  // namespace

Result<Values> relu(Call& c) { return Values{max(c.b, c.in(0), 0.0)}; }

Result<Values> leaky_relu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 0.01));
  return in_wide(c, [&](Value x) { return c.b.select(compare(c.b, Comparison::lt, x, 0.0), mul(c.b, x, alpha), x); });
}

Result<Values> prelu(Call& c) {
  Value slope = c.in(1);
  // Up to opset 6 a vector of slopes belongs to the channels.
  if (c.version < 7 && c.rank(slope) == 1 && c.rank(c.in(0)) > 1) {
    Dims dims(c.rank(c.in(0)) - 1, 1);
    dims[0] = c.dims(slope)[0];
    slope = c.b.reshape(slope, dims);
  }
  const Value negative = compare(c.b, Comparison::lt, c.in(0), 0.0);
  return Values{select(c.b, negative, mul(c.b, c.in(0), slope), c.in(0))};
}

Result<Values> elu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  return in_wide(c, [&](Value x) {
    return c.b.select(compare(c.b, Comparison::lt, x, 0.0), mul(c.b, c.b.unary(Op::expm1, x), alpha), x);
  });
}

Result<Values> celu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  return in_wide(c, [&](Value x) {
    const Value tail = mul(c.b, c.b.unary(Op::expm1, div(c.b, x, alpha)), alpha);
    return add(c.b, max(c.b, x, 0.0), min(c.b, tail, 0.0));
  });
}

Result<Values> selu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.67326319217681884765625));
  STITCH_ASSIGN(const double gamma, c.node.number("gamma", 1.05070102214813232421875));
  return in_wide(c, [&](Value x) {
    const Value tail = mul(c.b, c.b.unary(Op::expm1, x), alpha);
    return mul(c.b, c.b.select(compare(c.b, Comparison::le, x, 0.0), tail, x), gamma);
  });
}

Result<Values> thresholded_relu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  const Value x = c.in(0);
  return Values{c.b.select(compare(c.b, Comparison::gt, x, alpha), x, like(c.b, x, 0.0))};
}

Result<Values> shrink(Call& c) {
  STITCH_ASSIGN(const double bias, c.node.number("bias", 0.0));
  STITCH_ASSIGN(const double lambda, c.node.number("lambd", 0.5));
  const Value x = c.in(0);
  const Value below = compare(c.b, Comparison::lt, x, -lambda), above = compare(c.b, Comparison::gt, x, lambda);
  const Value inner = c.b.select(above, sub(c.b, x, bias), like(c.b, x, 0.0));
  return Values{c.b.select(below, add(c.b, x, bias), inner)};
}

Result<Values> hard_sigmoid(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 0.2));
  STITCH_ASSIGN(const double beta, c.node.number("beta", 0.5));
  return in_wide(c, [&](Value x) { return hard_sigmoid_of(c.b, x, alpha, beta); });
}

Result<Values> hard_swish(Call& c) {
  return in_wide(c, [&](Value x) { return mul(c.b, x, hard_sigmoid_of(c.b, x, 1.0 / 6.0, 0.5)); });
}

Result<Values> swish(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  return in_wide(c, [&](Value x) { return mul(c.b, x, c.b.unary(Op::logistic, mul(c.b, x, alpha))); });
}

Result<Values> softplus(Call& c) {
  return in_wide(c, [&](Value x) { return softplus_of(c.b, x); });
}

Result<Values> softsign(Call& c) {
  return in_wide(c, [&](Value x) { return div(c.b, x, add(c.b, c.b.unary(Op::abs, x), 1.0)); });
}

Result<Values> mish(Call& c) {
  return in_wide(c, [&](Value x) { return mul(c.b, x, tanh(c.b, softplus_of(c.b, x))); });
}

Result<Values> gelu(Call& c) {
  STITCH_ASSIGN(const std::string approximate, c.node.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return Call::wrong("attribute 'approximate' is '{}'", approximate);
  }
  return in_wide(c, [&](Value x) {
    Value inner;
    if (approximate == "none") {
      inner = c.b.unary(Op::erf, mul(c.b, x, std::numbers::sqrt2 / 2));
    } else {
      const Value cubic = mul(c.b, mul(c.b, square(c.b, x), x), 0.044715);
      inner = tanh(c.b, mul(c.b, add(c.b, x, cubic), std::sqrt(2 / std::numbers::pi)));
    }
    return mul(c.b, mul(c.b, x, 0.5), add(c.b, inner, 1.0));
  });
}

/// com.microsoft: x · sigmoid(1.702 x).
Result<Values> quick_gelu(Call& c) {
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.702));
  return in_wide(c, [&](Value x) { return mul(c.b, x, c.b.unary(Op::logistic, mul(c.b, x, alpha))); });
}

/// com.microsoft: Gelu, BiasGelu and FastGelu (tanh) share the optional bias.
Result<Values> bias_gelu(Call& c) {
  const bool fast = c.node.op() == "FastGelu";
  Value x = c.in(0);
  if (c.has(1)) x = add(c.b, x, c.in(1));
  x = widen(c.b, x);
  Value inner;
  if (fast) {
    const Value cubic = mul(c.b, mul(c.b, square(c.b, x), x), 0.044715);
    inner = tanh(c.b, mul(c.b, add(c.b, x, cubic), std::sqrt(2 / std::numbers::pi)));
  } else {
    inner = c.b.unary(Op::erf, mul(c.b, x, std::numbers::sqrt2 / 2));
  }
  return Values{c.b.convert(mul(c.b, mul(c.b, x, 0.5), add(c.b, inner, 1.0)), c.dtype(c.in(0)))};
}

/// Identity where it does nothing (inference, or a ratio of 0); the random mask of training cannot be reproduced.
Result<Values> dropout(Call& c) {
  bool training = false;
  double ratio = 0.5;
  if (c.version < 7) {
    STITCH_ASSIGN(const std::int64_t is_test, c.node.integer("is_test", 0));
    training = is_test == 0;
  } else if (c.version >= 12 && c.has(2)) {
    STITCH_ASSIGN(const std::int64_t mode, c.need_integer(2));
    training = mode != 0;
  }
  if (training && c.version >= 12) {
    if (c.has(1)) {
      STITCH_ASSIGN(const std::vector<double> given, c.need_numbers(1));
      if (given.size() == 1) ratio = given[0];
    }
  }
  if (training && ratio != 0.0) return Call::unsupported("its random mask cannot be reproduced");
  const DType mask = c.version >= 10 ? DType::pred : c.dtype(c.in(0));
  return Values{c.in(0), c.wants(1) ? c.b.filled(mask, c.dims(c.in(0)), 1.0) : Value{}};
}

}  // namespace stitch::import::onnx
