#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_functions.h"
#include "graph/reference/evaluate_options.h"
#include "graph/reference/evaluate_storage.h"

namespace stitch::graph::reference {

// Accumulators: what reductions, windows, scans and scatters keep per result element. Each takes elements one by one
// with their bounds and gives the combined value with its bound, infinities, NaN and overflow included.

/// What finishing needs to know beside the elements.
struct Accumulation {
  Accumulation(DType type, const ErrorModel& error_model);

  DType dtype;
  Rounding rounding;  ///< of floating dtypes
  ErrorModel model;
  bool may_be_one_sided = false;  ///< the result's bound: evaluate_functions.h
  bool rounds_each = false;  ///< kernels may round to a narrow dtype after every element (atomics), not only at the end
  bool in_parts = false;     ///< of products: each is three, of operands in two parts (F32Arithmetic)
  /// Of products that may be added to others in one sum (added_products.h), the others' terms of an element.
  std::int64_t other_terms = 0;
  /// Of products whose sums have few bits (narrow_sums.h): how many are added so, and the operands' normal numbers.
  std::int64_t narrow_part = 0;
  double smallest_left = 0, smallest_right = 0;
};

template <class T>
struct Accumulated {
  T value;
  double bound;
};

/// Totals of a sum's elements.
struct SumTotals {
  double magnitude = 0;  ///< Σ|x| of the finite ones
  double error = 0;      ///< Σe
  std::int64_t count = 0;
  bool integers = true;  ///< every element is an integer
  bool special = false;  ///< some element is infinite or NaN
  bool nan = false;      ///< some element is NaN
};
Accumulated<double> finish_sum(double value, const SumTotals& totals, const Accumulation& a);

/// Σ x. With `compensated` (Neumaier 1974), because in f64 the reference must be better than the kernel.
template <bool bounded, bool compensated>
class FloatSum {
 public:
  using Value = double;
  void add(double x, double e) {
    if constexpr (compensated) {
      const double sum = value_ + x;
      const double lost = std::fabs(value_) >= std::fabs(x) ? (value_ - sum) + x : (x - sum) + value_;
      lost_ += std::isfinite(sum) ? lost : 0;
      value_ = sum;
    } else {
      value_ += x;
    }
    if constexpr (bounded) {
      ++totals_.count;
      const bool finite = x - x == 0;
      totals_.magnitude += finite ? std::fabs(x) : 0;
      totals_.error += e;
      totals_.integers &= (x + integer_shift) - integer_shift == x;
      totals_.special |= !finite;
      totals_.nan |= x != x;
    }
  }
  [[nodiscard]] Accumulated<double> finish(const Accumulation& a) const {
    if constexpr (!bounded) return {value_ + lost_, 0};
    return finish_sum(value_ + lost_, totals_, a);
  }

 private:
  static constexpr double integer_shift = 0x1.8p52;  // adding and subtracting it rounds to an integer

  double value_ = 0, lost_ = 0;
  SumTotals totals_;
};

/// Totals of a product's elements.
struct ProductTotals {
  double reach = 1;  ///< Π(|x| + e)
  double above = 1;  ///< of the factors beyond 1
  double below = 1;  ///< of the factors below 1
  double log2 = 0;   ///< of the reach, which may leave the range of a double
  std::int64_t count = 0;
  bool exact = true, unchecked = false;
  bool infinite = false, zero = false, nan = false;  ///< whether some factor is
};
Accumulated<double> finish_product(double value, const ProductTotals& totals, const Accumulation& a);

/// Π x.
template <bool bounded>
class FloatProduct {
 public:
  using Value = double;
  void add(double x, double e) {
    value_ *= x;
    if constexpr (bounded) {
      const double most = std::fabs(x) + e;
      ++totals_.count;
      totals_.reach *= most;
      totals_.log2 += std::log2(most);
      totals_.above *= std::max(1.0, most);
      totals_.below *= std::min(1.0, std::fabs(x));
      totals_.unchecked |= e == unchecked;
      totals_.exact &= e == 0;
      totals_.infinite |= std::isinf(x);
      totals_.zero |= x == 0;
      totals_.nan |= x != x;
    }
  }
  [[nodiscard]] Accumulated<double> finish(const Accumulation& a) const {
    if constexpr (!bounded) return {value_, 0};
    return finish_product(value_, totals_, a);
  }

 private:
  double value_ = 1;
  ProductTotals totals_;
};

/// What combines to the other element, whatever it is; exact.
double float_identity(ReduceKind kind, DType dtype);
std::int64_t integer_identity(ReduceKind kind, DType dtype);

/// Largest (sign +1) or smallest (-1) element; NaN wins.
template <bool bounded, int sign>
class FloatExtreme {
 public:
  using Value = double;
  explicit FloatExtreme(DType dtype)
      : value_(sign * float_identity(sign > 0 ? ReduceKind::max : ReduceKind::min, dtype)),
        low_(value_),
        high_(value_) {}
  void add(double x, double e) {
    const double v = sign * x;  // the smallest is kept negated
    value_ = v > value_ || v != v ? v : value_;
    if constexpr (bounded) {
      const Reach reach = reach_of(v, e);
      low_ = std::max(low_, reach.low);
      high_ = std::max(high_, reach.high);
      unsure_ |= e == unchecked;
    }
  }
  [[nodiscard]] Accumulated<double> finish(const Accumulation& a) const {
    if constexpr (!bounded) return {sign * value_, 0};
    if (unsure_) return {sign * value_, unchecked};  // it may be NaN
    if (!std::isfinite(value_)) return {sign * value_, 0};
    return {sign * value_, bound_within({low_, high_}, value_, a.may_be_one_sided)};
  }

 private:
  double value_, low_, high_;
  bool unsure_ = false;
};

/// The last element.
template <class T>
class Replacement {
 public:
  using Value = T;
  void add(T x, double e) { value_ = x, bound_ = e; }
  [[nodiscard]] Accumulated<T> finish(const Accumulation&) const { return {value_, bound_}; }

 private:
  T value_ = 0;
  double bound_ = 0;
};

/// Keeps the low bits, extended as the dtype is.
std::int64_t wrap_integer(DType dtype, std::int64_t value);

/// Whether what is uncertain by `bound` may lie beyond the dtype's range, so that it wraps around.
bool may_wrap(DType dtype, std::int64_t value, double bound);

/// Integers and pred: exact, modulo 2^bits. Uncertain elements make an uncertain result, unless another one decides.
template <ReduceKind kind>
class IntegerAccumulator {
 public:
  using Value = std::int64_t;
  explicit IntegerAccumulator(DType dtype) : dtype_(dtype), value_(integer_identity(kind, dtype)) {}
  void add(std::int64_t x, double e) {
    const std::uint64_t u = x, v = value_;
    if constexpr (kind == ReduceKind::sum) value_ = v + u;
    if constexpr (kind == ReduceKind::product) value_ = v * u;
    if constexpr (kind == ReduceKind::max) value_ = less(value_, x) ? x : value_;
    if constexpr (kind == ReduceKind::min) value_ = less(x, value_) ? x : value_;
    if constexpr (kind == ReduceKind::bit_and) value_ &= x;
    if constexpr (kind == ReduceKind::bit_or) value_ |= x;
    if constexpr (kind == ReduceKind::bit_xor) value_ ^= x;
    error_ = kind == ReduceKind::sum ? error_ + e : std::max(error_, e);
    decided_ = decided_ || (e == 0 && x == deciding);
  }
  [[nodiscard]] Accumulated<std::int64_t> finish(const Accumulation&) const {
    const bool keeps_distance = kind == ReduceKind::sum || kind == ReduceKind::max || kind == ReduceKind::min;
    double bound = error_;
    if (dtype_ == DType::pred) {
      bound = decided_ ? 0 : std::min(error_, 1.0);
    } else if (!keeps_distance && bound > 0) {
      bound = unchecked;
    }
    const std::int64_t value = wrap_integer(dtype_, value_);
    if (kind == ReduceKind::sum && bound > 0 && may_wrap(dtype_, value, bound)) bound = unchecked;
    return {value, bound};
  }

 private:
  /// The pred that alone decides; no value for the others.
  static constexpr std::int64_t deciding = kind == ReduceKind::max || kind == ReduceKind::bit_or    ? 1
                                           : kind == ReduceKind::min || kind == ReduceKind::bit_and ? 0
                                                                                                    : 2;
  [[nodiscard]] bool less(std::int64_t x, std::int64_t y) const {
    return dtype_ == DType::u64 ? static_cast<std::uint64_t>(x) < static_cast<std::uint64_t>(y) : x < y;
  }

  DType dtype_;
  std::int64_t value_;
  double error_ = 0;
  bool decided_ = false;
};

/// Calls use(accumulator) with a fresh accumulator of the right type.
template <class Use>
auto with_accumulator(ReduceKind kind, DType dtype, bool bounded, Use use) {
  if (!is_floating(dtype)) {
    switch (kind) {
      case ReduceKind::sum: return use(IntegerAccumulator<ReduceKind::sum>(dtype));
      case ReduceKind::product: return use(IntegerAccumulator<ReduceKind::product>(dtype));
      case ReduceKind::max: return use(IntegerAccumulator<ReduceKind::max>(dtype));
      case ReduceKind::min: return use(IntegerAccumulator<ReduceKind::min>(dtype));
      case ReduceKind::bit_and: return use(IntegerAccumulator<ReduceKind::bit_and>(dtype));
      case ReduceKind::bit_or: return use(IntegerAccumulator<ReduceKind::bit_or>(dtype));
      case ReduceKind::bit_xor: return use(IntegerAccumulator<ReduceKind::bit_xor>(dtype));
      case ReduceKind::replace: return use(Replacement<std::int64_t>());
    }
  }
  switch (kind) {
    case ReduceKind::product: return bounded ? use(FloatProduct<true>()) : use(FloatProduct<false>());
    case ReduceKind::max: return bounded ? use(FloatExtreme<true, 1>(dtype)) : use(FloatExtreme<false, 1>(dtype));
    case ReduceKind::min: return bounded ? use(FloatExtreme<true, -1>(dtype)) : use(FloatExtreme<false, -1>(dtype));
    case ReduceKind::replace: return use(Replacement<double>());
    default: break;
  }
  if (dtype == DType::f64) return bounded ? use(FloatSum<true, true>()) : use(FloatSum<false, true>());
  return bounded ? use(FloatSum<true, false>()) : use(FloatSum<false, false>());
}

/// Accumulators alive at once: they stay in the second-level cache.
inline constexpr std::int64_t slab_elements = 4096;

/// Calls visit(part) for consecutive parts of `out`, in row-major order, of at most `most` elements each.
template <class Visit>
Status for_each_slab(const Box& out, std::int64_t most, Visit visit) {
  if (out.elements() <= most) return visit(out);
  std::size_t d = 0;
  while (out.size[d] == 1) ++d;
  const std::int64_t row = out.elements() / out.size[d], step = std::max<std::int64_t>(1, most / row);
  for (std::int64_t i = 0; i < out.size[d]; i += step) {
    Box part = out;
    part.start[d] += i;
    part.size[d] = std::min(step, out.size[d] - i);
    STITCH_TRY(for_each_slab(part, most, visit));
  }
  return {};
}

/// Writes accumulators' results to elements [offset, offset + count) of a storage.
template <class Accumulator>
void finish_elements(const Accumulator* accumulators, std::int64_t count, const Accumulation& accumulation,
                     Storage& storage, std::int64_t offset) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto result = accumulators[i].finish(accumulation);
    if constexpr (std::is_same_v<typename Accumulator::Value, double>) {
      storage.floats[offset + i] = result.value;
    } else {
      storage.integers[offset + i] = result.value;
    }
    if (!storage.bounds.empty()) storage.bounds[offset + i] = result.bound;
  }
}

}  // namespace stitch::graph::reference
