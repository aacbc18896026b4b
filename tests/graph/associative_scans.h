#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"

/// Combiners of scans, and the recursion that jax.lax.associative_scan makes of one.
namespace stitch::graph::testing {

using Values = std::vector<Value>;
using Combine = std::function<Values(Builder&, const Values& left, const Values& right)>;

/// h = a·h + b as pairs (a, b).
inline Values recurrence(Builder& b, const Values& l, const Values& r) {
  return {b.binary(Op::multiply, l[0], r[0]), b.binary(Op::add, b.binary(Op::multiply, r[0], l[1]), r[1])};
}
inline Values added(Builder& b, const Values& l, const Values& r) { return {b.binary(Op::add, l[0], r[0])}; }
/// max + log1p(exp(-|difference|)), as jnp.logaddexp has it but for NaN.
inline Values log_add_exp(Builder& b, const Values& l, const Values& r) {
  const Value apart = b.unary(Op::negate, b.unary(Op::abs, b.binary(Op::subtract, l[0], r[0])));
  return {b.binary(Op::add, b.binary(Op::maximum, l[0], r[0]), b.unary(Op::log1p, b.unary(Op::exp, apart)))};
}
/// A maximum and the sum of exponentials relative to it.
inline Values online_softmax(Builder& b, const Values& l, const Values& r) {
  const Value most = b.binary(Op::maximum, l[0], r[0]);
  const auto scaled = [&](const Values& x) {
    return b.binary(Op::multiply, x[1], b.unary(Op::exp, b.binary(Op::subtract, x[0], most)));
  };
  return {most, b.binary(Op::add, scaled(l), scaled(r))};
}
/// A flag (pred) where a segment begins, and its sum so far.
inline Values segment_sum(Builder& b, const Values& l, const Values& r) {
  return {b.binary(Op::bit_or, l[0], r[0]), b.select(r[0], r[1], b.binary(Op::add, l[1], r[1]))};
}
inline Values complex_product(Builder& b, const Values& l, const Values& r) {
  const auto times = [&](Value x, Value y) { return b.binary(Op::multiply, x, y); };
  return {b.binary(Op::subtract, times(l[0], r[0]), times(l[1], r[1])),
          b.binary(Op::add, times(l[0], r[1]), times(l[1], r[0]))};
}
/// Not associative.
inline Values mean(Builder& b, const Values& l, const Values& r) {
  const Value sum = b.binary(Op::add, l[0], r[0]);
  return {b.binary(Op::multiply, sum, b.filled(b.dtype(sum), b.dims(sum), 0.5))};
}

/// The region of an associative-scan.
inline std::shared_ptr<const Graph> combiner_of(const Combine& combine, const std::vector<DType>& dtypes) {
  Builder b("combiner");
  Values left, right;
  for (const DType dtype : dtypes) left.push_back(b.parameter(dtype, {}));
  for (const DType dtype : dtypes) right.push_back(b.parameter(dtype, {}));
  const Values results = combine(b, left, right);
  return std::make_shared<const Graph>(*b.finish(results));
}

/// A slice of one dimension, negative limits from the end.
inline Value along(Builder& b, Value x, std::int64_t d, std::int64_t start, std::int64_t limit,
                   std::int64_t stride = 1) {
  Dims starts(b.dims(x).size(), 0), limits = b.dims(x), strides(starts.size(), 1);
  starts[d] = start;
  limits[d] = limit > 0 ? limit : limits[d] + limit;
  strides[d] = stride;
  return b.slice(x, starts, limits, strides);
}

/// jax.lax.associative_scan (jax 0.10: _src/lax/control_flow/loops.py). `each_level` sees the tuple of every level.
inline Values written_out(Builder& b, const Combine& combine, const Values& elements, std::int64_t d,
                          const std::function<void(const Values&)>& each_level = {}) {
  const std::int64_t count = b.dims(elements[0])[d];
  if (count < 2) return elements;
  const auto each = [&](const Values& of, std::int64_t start, std::int64_t limit, std::int64_t stride) {
    Values slices;
    for (const Value x : of) slices.push_back(along(b, x, d, start, limit, stride));
    return slices;
  };
  const Values reduced = combine(b, each(elements, 0, -1, 2), each(elements, 1, count, 2));
  if (each_level) each_level(reduced);
  const Values odd = written_out(b, combine, reduced, d, each_level);
  const Values rest = each(elements, 2, count, 2);
  Values even = count < 3 ? Values() : combine(b, count % 2 == 0 ? each(odd, 0, -1, 1) : odd, rest);
  Values results;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Value first = along(b, elements[i], d, 0, 1);
    if (!even.empty()) first = b.concatenate({first, even[i]}, d);
    const DType dtype = b.dtype(first);
    const auto spread = [&](Value x, bool late) {
      Dims low(b.dims(x).size(), 0), high = low, interior = low;
      low[d] = late ? 1 : 0;
      interior[d] = 1;
      high[d] = count - low[d] - (2 * b.dims(x)[d] - 1);
      return b.pad(x, b.scalar(dtype, 0), low, high, interior);
    };
    results.push_back(
        b.binary(dtype == DType::pred ? Op::bit_or : Op::add, spread(first, false), spread(odd[i], true)));
  }
  return results;
}

}  // namespace stitch::graph::testing
