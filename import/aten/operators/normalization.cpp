// Softmax and layer normalisation. 16-bit inputs compute in f32 and are rounded once.
#include <algorithm>
#include <numeric>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

struct Shifted {
  Value x;         ///< minus the maximum along the dimension
  Value sum;       ///< of its exponentials, kept as 1
  Dims dimension;  ///< one, none for a scalar
};

Shifted shifted(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  Dims dimension;
  if (!b.dims(x).empty()) dimension.push_back(c.dimension("dim", std::ssize(b.dims(x))));
  const Value below = emit::sub(b, x, emit::reduce_keep(b, ReduceKind::max, x, dimension));
  return {below, emit::reduce_keep(b, ReduceKind::sum, emit::exp(b, below), dimension), dimension};
}

}  // namespace

Values softmax(Call& c) {
  const Shifted s = shifted(c);
  return {emit::div(c.b, emit::exp(c.b, s.x), s.sum)};
}

Values log_softmax(Call& c) {
  const Shifted s = shifted(c);
  return {emit::sub(c.b, s.x, emit::log(c.b, s.sum))};
}

/// Results: the normalised input, the mean, one over the standard deviation.
Values layer_norm(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("input"));
  const std::int64_t rank = std::ssize(b.dims(x)), last = std::ssize(c.integers("normalized_shape"));
  if (last > rank) c.wrong("normalized_shape", fmt::format("at most {} extents", rank));
  Dims dimensions(std::min(last, rank));
  std::iota(dimensions.begin(), dimensions.end(), rank - std::ssize(dimensions));
  const Value mean = emit::mean_keep(b, x, dimensions);
  const Value apart = emit::sub(b, x, mean);
  const Value variance = emit::mean_keep(b, emit::square(b, apart), dimensions);
  const Value scale = emit::rsqrt(b, emit::add(b, variance, c.number("eps", 1e-5)));
  Value y = emit::mul(b, apart, scale);
  if (c.has("weight")) y = emit::mul(b, y, emit::widen(b, c.tensor("weight")));
  if (c.has("bias")) y = emit::add(b, y, emit::widen(b, c.tensor("bias")));
  return {y, b.reshape(mean, c.result(1).dims), b.reshape(scale, c.result(2).dims)};
}

}  // namespace stitch::import::aten
