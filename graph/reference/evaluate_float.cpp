#include <array>
#include <type_traits>

#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_exponential.h"
#include "graph/reference/evaluate_functions.h"
#include "graph/reference/evaluate_trigonometric.h"

// Element-wise operators from floats to floats, with their bounds.

namespace stitch::graph::reference {

Rounding::Rounding(DType type, const ErrorModel& model) : dtype(type) {
  const DType accumulator = info(type).accumulator;
  const bool is_narrow = accumulator != type;
  ulp = 2 * unit_roundoff(accumulator) * (accumulator == DType::f64 ? 2 : 1);
  narrow = is_narrow ? unit_roundoff(type) : 0;
  // Half of f64's smallest number is none.
  floor = std::max(0.5 * smallest_subnormal(accumulator), smallest_subnormal(DType::f64)) +
          (is_narrow ? 0.5 * smallest_subnormal(type) : 0) + (model.flush_denormals ? smallest_normal(accumulator) : 0);
  largest = largest_finite(type);
  overflow = largest_finite(accumulator);
  normal = smallest_normal(type);
  split = type == DType::f64 ? 0 : std::ldexp(1.0, 52 - info(type).mantissa_bits) + 1;
  exact_integers = std::ldexp(1.0, info(type).mantissa_bits + 1);
}

Settled settle(const Rounding& rounding, double value, double formula, const double* corners, std::size_t count) {
  const double margin = rounding.margin();
  bool all_nan = true, all_positive = true, all_negative = true, all_finite = true, all_same = true;
  for (std::size_t i = 0; i < count; ++i) {
    const double c = corners[i];
    all_nan &= std::isnan(c);
    all_positive &= c > rounding.overflow * (1 + margin) || c == unchecked;
    all_negative &= c < -rounding.overflow * (1 + margin) || c == -unchecked;
    all_finite &= std::fabs(c) < rounding.overflow * (1 - margin);
    all_same &= c == value;
  }
  if (all_nan) return {value, 0};
  if (all_positive) return {unchecked, 0};
  if (all_negative) return {-unchecked, 0};
  if (!all_finite) return {value, unchecked};
  if (!std::isfinite(formula)) formula = all_same ? rounding.error(std::fabs(value), 16) : unchecked;
  constexpr double e4m3_end = 464;  // half-way from f8e4m3's largest number to the next, which would be 480
  const bool beyond = rounding.dtype == DType::f8e4m3 && std::fabs(value) - formula > e4m3_end;
  if (beyond) return {std::copysign(unchecked, value), 0};  // see doubt_infinities
  return {value, std::fabs(value) + formula < rounding.largest ? formula : unchecked};
}

namespace {

/// F::value of operands of this type.
template <class F, class... X>
requires requires(DType dtype, X... x) { F::value(dtype, x...); } || requires(X... x) {
  F::value(x...);
}
double of_type(DType dtype, X... x) {
  if constexpr (requires { F::value(dtype, x...); }) {
    return F::value(dtype, x...);
  } else {
    return F::value(x...);
  }
}

/// F::spread likewise.
template <class F, class... X>
double spread_of_type(DType dtype, X... x) {
  if constexpr (requires { F::spread(dtype, x...); }) {
    return F::spread(dtype, x...);
  } else {
    return F::spread(x...);
  }
}

/// Whether the formula's bound holds: the element is finite together with it, and its operands say something (what is
/// not checked may be NaN, of which bounded functions make NaN).
template <std::size_t operands>
bool settled(const Chunk& c, std::size_t i) {
  bool known = std::fabs(c.floats[i]) + c.bounds[i] < c.rounding->largest;
  for (std::size_t k = 0; k < operands; ++k) known &= (c.in[k].bounds[i] >= 0) & (c.in[k].bounds[i] < unchecked);
  return known;
}

template <std::size_t operands>
bool all_settled(const Chunk& c) {
  bool all = true;
  for (std::size_t i = 0; i < c.count; ++i) all &= settled<operands>(c, i);
  return all;
}

template <class F>
void settle_unary(const Chunk& c) {
  for (std::size_t i = 0; i < c.count; ++i) {
    if (settled<1>(c, i)) continue;
    const double x = c.in[0].floats[i], e = c.in[0].bounds[i];
    if (e < 0) {
      // The exponential of what is far enough below zero, or −∞, is zero.
      c.bounds[i] = std::is_same_v<F, Exp> && x < 0 && std::exp(e) == 0 ? 0 : unchecked;
      continue;
    }
    // With what is nearest to zero: where both ends leave the domain of acos, some between them may not.
    const double corners[] = {c.floats[i], of_type<F>(c.dtype, x - e), of_type<F>(c.dtype, x + e),
                              of_type<F>(c.dtype, std::min(std::max(0.0, x - e), x + e))};
    // Which infinity it is says the sign of a zero, which no operator promises.
    const bool at_pole = std::is_same_v<F, Rsqrt> && x == 0;
    const Settled s = e == unchecked || at_pole ? Settled{c.floats[i], unchecked}
                                                : settle(*c.rounding, c.floats[i], c.bounds[i], corners, 4);
    c.floats[i] = s.value;
    c.bounds[i] = s.bound;
  }
}

/// Whether `infinite` + (`other` ± `error`) may be finite: Rounding::least_return.
bool may_come_back(const Rounding& rounding, double infinite, double other, double error) {
  if (!std::isinf(infinite) || !std::isfinite(other)) return false;
  return std::copysign(1.0, infinite) * other - error <= -rounding.least_return();
}

/// The bound of a value of which some operand's is one-sided.
template <class F>
double bound_of_one_sided(const Chunk& c, std::size_t i) {
  const double ex = c.in[0].bounds[i], ey = c.in[1].bounds[i], value = c.floats[i];
  if (ex == unchecked || ey == unchecked || !std::isfinite(value)) return unchecked;
  const Reach x = reach_of(c.in[0].floats[i], ex), y = reach_of(c.in[1].floats[i], ey);
  if constexpr (std::is_same_v<F, Maximum> || std::is_same_v<F, Minimum>) {
    return bound_within({F::value(x.low, y.low), F::value(x.high, y.high)}, value, c.may_be_one_sided);
  } else if constexpr (std::is_same_v<F, Add> || std::is_same_v<F, Subtract>) {
    const Reach addend = std::is_same_v<F, Add> ? y : Reach{-y.high, -y.low};
    // Of opposite signs the sum has no end, and may be NaN.
    const double e = bound_within({x.low + addend.low, x.high + addend.high}, value, c.may_be_one_sided);
    return bound_of_overflow(-e, c.rounding->error(-e, 0.5), e < 0);
  } else {
    return unchecked;
  }
}

template <class F>
void settle_binary(const Chunk& c) {
  for (std::size_t i = 0; i < c.count; ++i) {
    if (settled<2>(c, i)) continue;
    const double x = c.in[0].floats[i], ex = c.in[0].bounds[i], y = c.in[1].floats[i], ey = c.in[1].bounds[i];
    if (ex < 0 || ey < 0) {
      c.bounds[i] = bound_of_one_sided<F>(c, i);
      continue;
    }
    const double corners[] = {c.floats[i], of_type<F>(c.dtype, x - ex, y - ey), of_type<F>(c.dtype, x - ex, y + ey),
                              of_type<F>(c.dtype, x + ex, y - ey), of_type<F>(c.dtype, x + ex, y + ey)};
    // A contracted a·b - c has no infinite product, and so no NaN where an overflow leads to one.
    const bool from_infinity = std::isnan(c.floats[i]) && (std::isinf(x) || std::isinf(y)) && x == x && y == y;
    bool comes_back = false;
    if constexpr (std::is_same_v<F, Add> || std::is_same_v<F, Subtract>) {
      const double addend = std::is_same_v<F, Add> ? y : -y;
      comes_back = may_come_back(*c.rounding, x, addend, ey) || may_come_back(*c.rounding, addend, x, ex);
    }
    // Whatever the corners agree on, 0 / 0 may be between them.
    constexpr bool divides = std::is_same_v<F, Divide> || std::is_same_v<F, Remainder>;
    const bool by_zero = divides && ey > 0 && std::fabs(y) <= ey;
    // Nor are the powers of a negative base NaN at the integers between exponents that are none.
    constexpr bool is_power = std::is_same_v<F, Power>;
    const bool by_integer = is_power && ey > 0 && x - ex < 0 && std::floor(y + ey) >= std::ceil(y - ey);
    // One to any power is one, and anything to the power of zero, NaN not excepted.
    const bool by_nan = is_power && ((std::isnan(y) && ex > 0 && std::fabs(x - 1) <= ex) ||
                                     (std::isnan(x) && ey > 0 && std::fabs(y) <= ey));
    const bool uncertain =
        ex == unchecked || ey == unchecked || from_infinity || comes_back || by_zero || by_integer || by_nan;
    Settled s = uncertain ? Settled{c.floats[i], unchecked} : settle(*c.rounding, c.floats[i], c.bounds[i], corners, 5);
    if constexpr (std::is_same_v<F, Add> || std::is_same_v<F, Subtract>) {
      if (!uncertain && s.bound == unchecked) s.bound = bound_of_overflow(s.value, c.bounds[i], c.may_be_one_sided);
    }
    // Which infinity it is says the sign of a zero, as above.
    const bool at_pole = std::isinf(s.value) && ((std::is_same_v<F, Divide> && y == 0) || (is_power && x == 0));
    c.floats[i] = s.value;
    c.bounds[i] = at_pole ? unchecked : s.bound;
  }
}

template <class F>
void unary(const Chunk& c) {
  const double* x = c.in[0].floats;
  for (std::size_t i = 0; i < c.count; ++i) c.floats[i] = of_type<F>(c.dtype, x[i]);
  if (c.bounds == nullptr) return;
  const double* e = c.in[0].bounds;
  const Rounding& r = *c.rounding;
  const ElementError error = element_error(F::op);
  for (std::size_t i = 0; i < c.count; ++i) {
    const double y = c.floats[i], spread = spread_of_type<F>(c.dtype, x[i], e[i], y), magnitude = std::fabs(y) + spread;
    if constexpr (std::is_base_of_v<IntegerValued, F>) {
      c.bounds[i] = spread + (e[i] > 0 && magnitude > r.exact_integers ? r.narrow * magnitude : 0);
    } else if constexpr (std::is_base_of_v<Exact, F>) {
      c.bounds[i] = spread;
    } else {
      c.bounds[i] = spread + r.error(magnitude, error.ulps) + error.per_argument * r.ulp * F::amplified(x[i], y);
    }
  }
  if (!all_settled<1>(c)) settle_unary<F>(c);
}

/// IEEE additions and multiplications: nothing is rounded when exact operands give a representable result.
template <class F>
constexpr bool correctly_rounded = std::is_same_v<F, Add> || std::is_same_v<F, Subtract> || std::is_same_v<F, Multiply>;

/// Their bounds below f64. Free of branches, so that it is vectorised: these are most of what there is to compute.
template <class F>
void bound_correctly_rounded(const Chunk& c) {
  const Rounding& r = *c.rounding;
  const double relative = 0.5 * r.ulp + r.narrow, floor = r.floor, split = r.split, normal = r.normal;
  const double *x = c.in[0].floats, *y = c.in[1].floats, *ex = c.in[0].bounds, *ey = c.in[1].bounds;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double z = c.floats[i], spread = F::spread(x[i], ex[i], y[i], ey[i], z), magnitude = std::fabs(z);
    const double scaled = z * split, inexact = spread + relative * (magnitude + spread) + floor;
    const bool representable =
        (scaled - (scaled - z) == z) & ((magnitude >= normal) | (magnitude == 0));  // Rounding::representable
    c.bounds[i] = (spread == 0) & representable ? 0 : inexact;
  }
}

/// In f64 the reference rounds as well: what looks exact may have been rounded to it, unless integers were multiplied.
template <class F>
void bound_double(const Chunk& c) {
  const Rounding& r = *c.rounding;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double x = c.in[0].floats[i], y = c.in[1].floats[i], z = c.floats[i];
    const double spread = F::spread(x, c.in[0].bounds[i], y, c.in[1].bounds[i], z);
    const bool known = !std::is_same_v<F, Multiply> || (std::nearbyint(x) == x && std::nearbyint(y) == y);
    c.bounds[i] = spread == 0 && known && r.representable(z) ? 0 : spread + r.error(std::fabs(z) + spread, 0.5);
  }
}

template <class F>
void binary(const Chunk& c) {
  const double *x = c.in[0].floats, *y = c.in[1].floats;
  for (std::size_t i = 0; i < c.count; ++i) c.floats[i] = of_type<F>(c.dtype, x[i], y[i]);
  if (c.bounds == nullptr) return;
  if constexpr (correctly_rounded<F>) {
    c.rounding->split == 0 ? bound_double<F>(c) : bound_correctly_rounded<F>(c);
  } else {
    const double *ex = c.in[0].bounds, *ey = c.in[1].bounds;
    const Rounding& r = *c.rounding;
    const ElementError error = element_error(F::op);
    for (std::size_t i = 0; i < c.count; ++i) {
      const double z = c.floats[i], spread = spread_of_type<F>(c.dtype, x[i], ex[i], y[i], ey[i], z);
      c.bounds[i] = spread;
      if constexpr (!std::is_base_of_v<Exact, F>) {
        c.bounds[i] +=
            r.error(std::fabs(z) + spread, error.ulps) + error.per_argument * r.ulp * F::amplified(x[i], y[i], z);
      }
    }
  }
  if (!all_settled<2>(c)) settle_binary<F>(c);
}

/// low, x, high. Monotone in each operand, so its interval is the clamp of the operands' ends.
void clamp(const Chunk& c) {
  const double *low = c.in[0].floats, *x = c.in[1].floats, *high = c.in[2].floats;
  const auto value = [](double l, double v, double h) { return nan_min(nan_max(v, l), h); };
  for (std::size_t i = 0; i < c.count; ++i) c.floats[i] = value(low[i], x[i], high[i]);
  if (c.bounds == nullptr) return;
  const double *el = c.in[0].bounds, *ex = c.in[1].bounds, *eh = c.in[2].bounds;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double y = c.floats[i], reach = std::max({el[i], ex[i], eh[i]});
    if (std::min({el[i], ex[i], eh[i]}) < 0) {
      c.bounds[i] = unchecked;
    } else if (reach == 0) {
      c.bounds[i] = 0;
    } else if (reach == unchecked) {
      c.bounds[i] = unchecked;
    } else {
      const double corners[] = {y, value(low[i] - el[i], x[i] - ex[i], high[i] - eh[i]),
                                value(low[i] + el[i], x[i] + ex[i], high[i] + eh[i])};
      const double spread = std::max(corners[2] - y, y - corners[1]);
      const Settled s = settle(*c.rounding, y, spread, corners, 3);
      c.floats[i] = s.value;
      c.bounds[i] = s.bound;
    }
  }
}

void sqrt_by_sign(const Chunk& c) { c.in[0].nonnegative ? unary<SqrtOfNonnegative>(c) : unary<Sqrt>(c); }

using KernelTable = std::array<Kernel, std::numeric_limits<std::underlying_type_t<Op>>::max() + 1>;

/// The operator's place.
template <class Table>
constexpr auto& at(Table& table, Op op) {
  return table[static_cast<std::size_t>(op)];
}

template <class F>
constexpr bool is_unary = requires(double x, DType dtype) {
  of_type<F>(dtype, x);
};

template <class... F>
constexpr void add_kernels(KernelTable& table, Functions<F...>) {
  const auto add = [&]<class G>(std::type_identity<G>) {
    Kernel& kernel = at(table, G::op);
    if constexpr (is_unary<G>) {
      kernel = unary<G>;
    } else {
      kernel = binary<G>;
    }
  };
  (add(std::type_identity<F>()), ...);
}

constexpr KernelTable kernels = [] {
  KernelTable table{};
  add_kernels(table, ArithmeticFunctions());
  add_kernels(table, ExponentialFunctions());
  add_kernels(table, TrigonometricFunctions());
  at(table, Op::sqrt) = sqrt_by_sign;
  at(table, Op::clamp) = clamp;
  return table;
}();

}  // namespace

Kernel float_kernel(Op op) { return at(kernels, op); }

}  // namespace stitch::graph::reference
