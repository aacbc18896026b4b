#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"

/// Combiners of scans, and the recursion that jax.lax.associative_scan makes of one.
namespace stitch::graph::test {

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

/// One level of the recursion: what it combines, what it makes of it, and the level below.
struct ScanLevel {
  Values elements, left, right, reduced;  ///< reduced: neighbours left and right combined
  Values odd, even_left, even_right, even, results;
  std::shared_ptr<ScanLevel> below;
};

/// jax.lax.associative_scan (jax 0.10: _src/lax/control_flow/loops.py).
inline std::shared_ptr<ScanLevel> scan_levels(Builder& b, const Combine& combine, const Values& elements,
                                              std::int64_t d) {
  auto level = std::make_shared<ScanLevel>();
  level->elements = elements;
  const std::int64_t count = b.dims(elements[0])[d];
  if (count < 2) {
    level->results = elements;
    return level;
  }
  const auto each = [&](const Values& of, std::int64_t start, std::int64_t limit, std::int64_t stride) {
    Values slices;
    for (const Value x : of) slices.push_back(along(b, x, d, start, limit, stride));
    return slices;
  };
  level->left = each(elements, 0, -1, 2);
  level->right = each(elements, 1, count, 2);
  level->reduced = combine(b, level->left, level->right);
  level->below = scan_levels(b, combine, level->reduced, d);
  level->odd = level->below->results;
  if (count >= 3) {
    level->even_left = count % 2 == 0 ? each(level->odd, 0, -1, 1) : level->odd;
    level->even_right = each(elements, 2, count, 2);
    level->even = combine(b, level->even_left, level->even_right);
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Value first = along(b, elements[i], d, 0, 1);
    if (!level->even.empty()) first = b.concatenate({first, level->even[i]}, d);
    const DType dtype = b.dtype(first);
    const auto spread = [&](Value x, bool late) {
      Dims low(b.dims(x).size(), 0), high = low, interior = low;
      low[d] = late ? 1 : 0;
      interior[d] = 1;
      high[d] = count - low[d] - (2 * b.dims(x)[d] - 1);
      return b.pad(x, b.scalar(dtype, 0), low, high, interior);
    };
    level->results.push_back(
        b.binary(dtype == DType::pred ? Op::bit_or : Op::add, spread(first, false), spread(level->odd[i], true)));
  }
  return level;
}

/// The scan alone; `each_level` sees the tuple of every level, from the innermost out.
inline Values written_out(Builder& b, const Combine& combine, const Values& elements, std::int64_t d,
                          const std::function<void(const Values&)>& each_level = {}) {
  const auto level = scan_levels(b, combine, elements, d);
  for (const ScanLevel* at = level.get(); each_level && at->below; at = at->below.get()) each_level(at->reduced);
  return level->results;
}

/// The cotangents of left and right of one combination, from those of what it combines to; a value that does not exist
/// (node -1) is a cotangent of zero.
using Transpose = std::function<std::pair<Values, Values>(Builder&, const Values& left, const Values& right,
                                                          const Values& combined, const Values& cotangents)>;

/// The cotangents of the elements, as jax writes them: transposes of slices are pads, those of pads slices of negative
/// pads. `cotangents`: of the results.
inline Values transposed(Builder& b, const Transpose& transpose, const ScanLevel& level, Values cotangents,
                         std::int64_t d) {
  const std::int64_t count = b.dims(level.elements[0])[d];
  if (!level.below) return cotangents;
  const auto there = [](Value x) { return x.node >= 0; };
  const auto padded = [&](Value x, std::int64_t low, std::int64_t high, std::int64_t interior = 0) {
    Dims lows(b.dims(x).size(), 0), highs = lows, interiors = lows;
    lows[d] = low;
    highs[d] = high;
    interiors[d] = interior;
    return b.pad(x, b.scalar(b.dtype(x), 0), lows, highs, interiors);
  };
  const auto spread = [&](Value x, std::int64_t low) {
    return padded(x, low, count - low - (2 * b.dims(x)[d] - 1), 1);
  };
  const auto accumulate = [&](Value& sum, Value x) { sum = there(sum) ? b.binary(Op::add, sum, x) : x; };

  Values elements(cotangents.size()), odd = elements, even = elements;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!there(cotangents[i])) continue;
    const std::int64_t firsts = (count + 1) / 2, others = count / 2;
    const Value first = along(b, padded(cotangents[i], 0, -(count - (2 * firsts - 1))), d, 0, 2 * firsts - 1, 2);
    odd[i] = along(b, padded(cotangents[i], -1, -(count - 2 * others)), d, 0, 2 * others - 1, 2);
    elements[i] = padded(along(b, first, d, 0, 1), 0, count - 1);
    if (firsts > 1) even[i] = along(b, first, d, 1, firsts);
  }
  if (!level.even.empty()) {
    const auto [left, right] = transpose(b, level.even_left, level.even_right, level.even, even);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (there(right[i])) accumulate(elements[i], spread(right[i], 2));
      if (there(left[i])) accumulate(odd[i], count % 2 == 0 ? padded(left[i], 0, 1) : left[i]);
    }
  }
  const Values reduced = transposed(b, transpose, *level.below, odd, d);
  const auto [left, right] = transpose(b, level.left, level.right, level.reduced, reduced);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (there(right[i])) accumulate(elements[i], spread(right[i], 1));
    if (there(left[i])) accumulate(elements[i], spread(left[i], 0));
  }
  return elements;
}

inline std::pair<Values, Values> transposed_recurrence(Builder& b, const Values& l, const Values& r, const Values&,
                                                       const Values& g) {
  const auto times = [&](Value x, Value y) { return y.node < 0 ? y : b.binary(Op::multiply, x, y); };
  const auto plus = [&](Value x, Value y) { return x.node < 0 ? y : y.node < 0 ? x : b.binary(Op::add, x, y); };
  return {{times(r[0], g[0]), times(r[0], g[1])}, {plus(times(l[0], g[0]), times(l[1], g[1])), g[1]}};
}
inline std::pair<Values, Values> transposed_sum(Builder&, const Values&, const Values&, const Values&,
                                                const Values& g) {
  return {g, g};
}
inline Values multiplied(Builder& b, const Values& l, const Values& r) { return {b.binary(Op::multiply, l[0], r[0])}; }
inline std::pair<Values, Values> transposed_product(Builder& b, const Values& l, const Values& r, const Values&,
                                                    const Values& g) {
  return {{b.binary(Op::multiply, r[0], g[0])}, {b.binary(Op::multiply, l[0], g[0])}};
}
/// The rule of jnp.logaddexp, but for infinities.
inline std::pair<Values, Values> transposed_log_add_exp(Builder& b, const Values& l, const Values& r,
                                                        const Values& combined, const Values& g) {
  const auto part = [&](Value x) {
    return b.binary(Op::multiply, g[0], b.unary(Op::exp, b.binary(Op::subtract, x, combined[0])));
  };
  return {{part(l[0])}, {part(r[0])}};
}
/// As jax transposes a select: the right sum's cotangent comes from both sides of it.
inline std::pair<Values, Values> transposed_segment_sum(Builder& b, const Values&, const Values& r, const Values&,
                                                        const Values& g) {
  const Value zero = b.filled(b.dtype(g[1]), b.dims(g[1]), 0);
  const Value own = b.select(r[0], g[1], zero), both = b.select(r[0], zero, g[1]);
  return {{{}, both}, {{}, b.binary(Op::add, own, both)}};
}

/// A scan whose gradient is taken.
struct DifferentiatedScan {
  std::string name;
  Combine combine;
  Transpose transpose;
  std::vector<DType> dtypes;
  std::size_t scanned;  ///< the component of which the loss is a function
};
inline void PrintTo(const DifferentiatedScan& row, std::ostream* out) { *out << row.name; }

struct Differentiated {
  Values scanned, gradients;  ///< gradients: of the elements, where they have any
};

/// Forward and backward; `cotangent_of` makes the cotangent of what is scanned.
inline Differentiated differentiated(Builder& b, const DifferentiatedScan& row, const Values& x, std::int64_t d,
                                     bool reverse, const std::function<Value(Value)>& cotangent_of) {
  const auto turned = [&](Value v) { return reverse ? b.reverse(v, {d}) : v; };
  Values elements;
  for (const Value each : x) elements.push_back(turned(each));
  const auto levels = scan_levels(b, row.combine, elements, d);
  Differentiated made;
  for (const Value each : levels->results) made.scanned.push_back(turned(each));
  Values cotangents(x.size());
  cotangents[row.scanned] = turned(cotangent_of(made.scanned[row.scanned]));
  for (const Value each : transposed(b, row.transpose, *levels, cotangents, d)) {
    if (each.node >= 0) made.gradients.push_back(turned(each));
  }
  return made;
}

/// All parameters' gradients, and what is scanned.
inline std::function<Values(Builder&)> training(const DifferentiatedScan& row, const Dims& dims, std::int64_t d,
                                                bool reverse = false) {
  return [=](Builder& b) {
    Values x;
    for (const DType dtype : row.dtypes) x.push_back(b.parameter(dtype, dims));
    const Value cotangent = b.parameter(DType::f32, dims);
    const auto made = differentiated(b, row, x, d, reverse, [&](Value) { return cotangent; });
    Values results = made.gradients;
    results.push_back(made.scanned[row.scanned]);
    return results;
  };
}

inline std::vector<DifferentiatedScan> differentiated_scans() {
  constexpr DType f32 = DType::f32;
  return {{"sums", added, transposed_sum, {f32}, 0},
          {"products", multiplied, transposed_product, {f32}, 0},
          {"recurrence", recurrence, transposed_recurrence, {f32, f32}, 1},
          {"log_add_exp", log_add_exp, transposed_log_add_exp, {f32}, 0},
          {"segment_sums", segment_sum, transposed_segment_sum, {DType::pred, f32}, 1}};
}

}  // namespace stitch::graph::test
