#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/literal.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph::reference {

// The floating operators in double: one struct per operator, and at the end of each header the list of its structs, of
// which evaluate_float.cpp makes kernels. Here the arithmetic; evaluate_exponential.h and evaluate_trigonometric.h have
// the functions. A struct has
//   op                   its row in the operator table, which says how far a kernel's own error may go
//   value(x…)            the function
//   spread(x, e…, y)     how far it can move when its operands move within their bounds; y = value(x…)
//   amplified(x…, y)     the magnitude that the row's error per argument multiplies (absolute); 0 by the defaults
// An operator that depends on the element type takes it as the first argument of value and spread. Spreads are upper
// bounds from the slope on the interval; sources are elementary calculus, given where not obvious.

/// The structs of a header.
template <class... F>
struct Functions {};

inline constexpr double unchecked = std::numeric_limits<double>::infinity();

// A negative bound −t is one-sided: every kernel's value has the reference's sign and a magnitude of at least t, is
// perhaps infinite, and never NaN. So masks of the lowest number are told from what says nothing, until an exponential
// makes zeros of them. Only nodes that Evaluation::plan_one_sided allows to have such bounds; no result has any.

/// The interval in which a kernel's value lies: x and its bound, which is not `unchecked`.
struct Reach {
  double low, high;
};
inline Reach reach_of(double x, double e) {
  if (e >= 0) return {x - e, x + e};
  return x < 0 ? Reach{-unchecked, e} : Reach{-e, unchecked};
}

/// The bound of a value that lies in `reach` and is not NaN.
inline double bound_within(Reach reach, double value, bool may_be_one_sided) {
  if (std::isfinite(reach.low) && std::isfinite(reach.high)) return std::max(reach.high - value, value - reach.low);
  if (!may_be_one_sided || !std::isfinite(value)) return unchecked;
  if (std::isfinite(reach.high) && reach.high < 0) return reach.high;
  if (std::isfinite(reach.low) && reach.low > 0) return -reach.low;
  return unchecked;
}

/// The bound of what may have overflowed, of which the formula says no more than how far it is from `value` otherwise.
inline double bound_of_overflow(double value, double formula, bool may_be_one_sided) {
  const double least = std::fabs(value) - formula;
  return may_be_one_sided && std::isfinite(least) && least > 0 ? -least : unchecked;
}

struct UnaryDefaults {
  static double amplified(double, double) { return 0; }
};

struct BinaryDefaults {
  static double amplified(double, double, double) { return 0; }
};

/// Operators that round nothing: exact on exact operands.
struct Exact {};

struct Negate : UnaryDefaults, Exact {
  static constexpr Op op = Op::negate;
  static double value(double x) { return -x; }
  static double spread(double, double e, double) { return e; }
};

struct Abs : UnaryDefaults, Exact {
  static constexpr Op op = Op::abs;
  static double value(double x) { return std::fabs(x); }
  static double spread(double, double e, double) { return e; }
};

struct Sign : UnaryDefaults, Exact {
  static constexpr Op op = Op::sign;
  static double value(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
  static double spread(double x, double e, double) { return e == 0 || std::fabs(x) > e ? 0 : x == 0 ? 1 : 2; }
};

/// Monotone step functions: the steps within reach. Integers beyond what a narrow dtype holds may still be rounded.
struct IntegerValued {};
template <class F>
struct Step : UnaryDefaults, Exact, IntegerValued {
  static double spread(double x, double e, double y) {
    return e == 0 ? 0 : std::max(F::value(x + e) - y, y - F::value(x - e));
  }
};
struct Floor : Step<Floor> {
  static constexpr Op op = Op::floor;
  static double value(double x) { return std::floor(x); }
};
struct Ceil : Step<Ceil> {
  static constexpr Op op = Op::ceil;
  static double value(double x) { return std::ceil(x); }
};
struct RoundEven : Step<RoundEven> {
  static constexpr Op op = Op::round_even;
  static double value(double x) { return std::nearbyint(x); }
};
struct RoundAway : Step<RoundAway> {
  static constexpr Op op = Op::round_away;
  static double value(double x) { return std::round(x); }
};

struct Add : BinaryDefaults {
  static constexpr Op op = Op::add;
  static double value(double x, double y) { return x + y; }
  static double spread(double, double ex, double, double ey, double) { return ex + ey; }
};

struct Subtract : BinaryDefaults {
  static constexpr Op op = Op::subtract;
  static double value(double x, double y) { return x - y; }
  static double spread(double, double ex, double, double ey, double) { return ex + ey; }
};

struct Multiply : BinaryDefaults {
  static constexpr Op op = Op::multiply;
  static double value(double x, double y) { return x * y; }
  static double spread(double x, double ex, double y, double ey, double) {
    return std::fabs(x) * ey + (std::fabs(y) + ey) * ex;
  }
};

struct Divide : BinaryDefaults {
  static constexpr Op op = Op::divide;
  static double value(double x, double y) { return x / y; }
  static double spread(double, double ex, double y, double ey, double q) {
    const double gap = std::fabs(y) - ey;
    if (gap > 0) return (ex + std::fabs(q) * ey) / gap;
    return ey == 0 ? 0 : unchecked;
  }
};

struct Remainder : BinaryDefaults, Exact {
  static constexpr Op op = Op::remainder;
  static double value(double x, double y) { return std::fmod(x, y); }
  /// Continuous while the truncated quotient cannot change; else anything below the divisor.
  static double spread(double x, double ex, double y, double ey, double r) {
    if (ex == 0 && ey == 0) return 0;
    if (std::fabs(y) <= ey) return unchecked;
    const double q = std::fabs(x / y), steps = std::floor(q);
    const double reach = (ex + q * ey) / (std::fabs(y) - ey) + 4 * std::numeric_limits<double>::epsilon() * q;
    const bool safe = q - reach > steps && q + reach < steps + 1;
    return safe || q + reach < 1 ? ex + steps * ey : std::fabs(y) + ey + std::fabs(r);
  }
};

/// NaN wins; of zeros of both signs either.
inline double nan_max(double x, double y) { return (x != x) | (x > y) ? x : y; }
inline double nan_min(double x, double y) { return (x != x) | (x < y) ? x : y; }

struct Maximum : BinaryDefaults, Exact {
  static constexpr Op op = Op::maximum;
  static double value(double x, double y) { return nan_max(x, y); }
  static double spread(double x, double ex, double y, double ey, double m) {
    return std::max(std::max(x + ex, y + ey) - m, m - std::max(x - ex, y - ey));
  }
};

struct Minimum : BinaryDefaults, Exact {
  static constexpr Op op = Op::minimum;
  static double value(double x, double y) { return nan_min(x, y); }
  static double spread(double x, double ex, double y, double ey, double m) {
    return std::max(std::min(x + ex, y + ey) - m, m - std::min(x - ex, y - ey));
  }
};

/// The neighbour of x in its element type, on y's side. What a kernel keeps in f32 is rounded to the type first.
struct NextAfter : BinaryDefaults, Exact {
  static constexpr Op op = Op::nextafter;
  static double value(DType dtype, double exact_x, double exact_y) {
    const double x = round_to(dtype, exact_x), y = round_to(dtype, exact_y);
    if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
    if (x == y) return y;
    if (x == 0) return std::copysign(smallest_subnormal(dtype), y);
    std::uint64_t word = 0;
    std::byte memory[sizeof word] = {};
    store_element(dtype, x, memory);
    std::memcpy(&word, memory, sizeof word);
    word += (x < y) == (x > 0) ? 1 : -1;  // without its sign a float's bits grow with its magnitude
    std::memcpy(memory, &word, sizeof word);
    return load_element(dtype, memory);
  }
  /// A step is at most `gap`; where x or the side of y is not certain, results differ by that of x and three steps.
  static double spread(DType dtype, double x, double ex, double y, double ey, double) {
    const auto gap = [&](double magnitude) { return 2 * unit_roundoff(dtype) * magnitude + smallest_subnormal(dtype); };
    if (ex > 0) return ex + 3 * gap(std::fabs(x) + ex);
    const bool certain = ey == 0 || std::fabs(x - y) > ey + gap(std::fabs(y) + ey);
    return certain ? 0 : 3 * gap(std::fabs(x));
  }
};

using ArithmeticFunctions = Functions<Negate, Abs, Sign, Floor, Ceil, RoundEven, RoundAway, Add, Subtract, Multiply,
                                      Divide, Remainder, Maximum, Minimum, NextAfter>;

}  // namespace stitch::graph::reference
