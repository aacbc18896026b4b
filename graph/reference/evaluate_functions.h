#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/reference/evaluate_error.h"

namespace stitch::graph::reference {

// One struct per floating operator:
//   value(x…)            the function in double
//   spread(x, e…, y)     how far it can move when its operands move within their bounds; y = value(x…)
//   op                   its row in element_error's table
//   amplified(x…, y)     the magnitude that element_error's per_argument multiplies (absolute)
// Spreads are upper bounds from the slope on the interval; sources are elementary calculus, given where not obvious.

inline constexpr double unchecked = std::numeric_limits<double>::infinity();

struct UnaryDefaults {
  static double amplified(double, double) { return 0; }
};

/// Operators that round nothing: exact on exact operands.
struct Exact {};

/// e^t - 1 ≤ t (1 + t) and e^t ≤ 1 + 2t up to t = 1: errors are small, and a library call is not.
inline double growth(double t) { return t < 1 ? t * (1 + t) : std::expm1(t); }
inline double factor(double t) { return t < 1 ? 1 + 2 * t : std::exp(t); }

/// |cos x| from sin x and the other way round; the constant covers the cancellation near 1.
inline double complement(double y) { return std::sqrt(std::max(0.0, (1 - y) * (1 + y))) + 1e-8; }

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

struct Exp {
  static constexpr Op op = Op::exp;
  static double value(double x) { return std::exp(x); }
  static double spread(double, double e, double y) { return y * growth(e); }
  static double amplified(double x, double y) { return y == 0 ? 0 : std::fabs(x) * y; }
};

struct Expm1 {
  static constexpr Op op = Op::expm1;
  static double value(double x) { return std::expm1(x); }
  static double spread(double, double e, double y) { return (y + 1) * growth(e); }
  static double amplified(double x, double y) { return std::isinf(x) ? 0 : std::fabs(x * y); }
};

/// log of z with relative error r = e/z: -log(1 - r) ≤ r / (1 - r).
inline double log_spread(double z, double e) { return e == 0 ? 0 : e < z ? e / (z - e) : unchecked; }

struct Log : UnaryDefaults {
  static constexpr Op op = Op::log;
  static double value(double x) { return std::log(x); }
  static double spread(double x, double e, double) { return log_spread(x, e); }
};

struct Log1p : UnaryDefaults {
  static constexpr Op op = Op::log1p;
  static double value(double x) { return std::log1p(x); }
  static double spread(double x, double e, double) { return log_spread(1 + x, e); }
};

struct Sqrt : UnaryDefaults {
  static constexpr Op op = Op::sqrt;
  static double value(double x) { return std::sqrt(x); }
  /// |√(x±e) - √x| ≤ e/√x while x ≥ e; beyond, the argument may be negative.
  static double spread(double x, double e, double y) { return e == 0 ? 0 : e <= x ? e / y : unchecked; }
};

/// Of an argument that is ≥ 0 in every correct kernel: near zero the root moves by at most √e.
struct SqrtOfNonnegative : Sqrt {
  static double spread(double x, double e, double y) { return e == 0 ? 0 : e <= x ? e / y : std::sqrt(e); }
};

struct Rsqrt : UnaryDefaults {
  static constexpr Op op = Op::rsqrt;
  static double value(double x) { return 1 / std::sqrt(x); }
  /// (1 - r)^-1/2 - 1 ≤ r / (2 (1 - r)), r = e/x.
  static double spread(double x, double e, double y) { return e == 0 ? 0 : e < x ? 0.5 * y * e / (x - e) : unchecked; }
};

struct Cbrt : UnaryDefaults {
  static constexpr Op op = Op::cbrt;
  static double value(double x) { return std::cbrt(x); }
  /// Slope y/(3x) at most doubled while e ≤ |x|/2; |∛a - ∛b| ≤ ∛(4 |a - b|) anywhere.
  static double spread(double x, double e, double y) {
    if (e == 0) return 0;
    return 2 * e <= std::fabs(x) ? 2 * std::fabs(y) * e / (3 * std::fabs(x)) : std::cbrt(4 * e);
  }
};

struct Logistic {
  static constexpr Op op = Op::logistic;
  static double value(double x) { return 1 / (1 + std::exp(-x)); }
  /// The logarithm of the slope y(1 - y) has slope at most 1.
  static double spread(double, double e, double y) { return std::min(1.0, e * y * (1 - y) * factor(e)); }
  static double amplified(double x, double y) { return std::isinf(x) ? 0 : std::fabs(x) * y * (1 - y); }
};

struct Erf : UnaryDefaults {
  static constexpr Op op = Op::erf;
  static double value(double x) { return std::erf(x); }
  static double spread(double x, double e, double) {
    if (e == 0) return 0;
    const double nearest = std::max(0.0, std::fabs(x) - e);
    return std::min(2.0, e * 2 * std::numbers::inv_sqrtpi * std::exp(-nearest * nearest));
  }
};

struct Erfc {
  static constexpr Op op = Op::erfc;
  static double value(double x) { return std::erfc(x); }
  static double spread(double x, double e, double y) { return Erf::spread(x, e, y); }
  static double amplified(double x, double y) { return y == 0 || y == 2 ? 0 : x * x * std::min(y, 2 - y); }
};

struct Sin {
  static constexpr Op op = Op::sin;
  static double value(double x) { return std::sin(x); }
  static double spread(double, double e, double y) { return std::min(2.0, e * std::min(1.0, complement(y) + 0.5 * e)); }
  static double amplified(double x, double) { return std::fabs(x); }
};

struct Cos {
  static constexpr Op op = Op::cos;
  static double value(double x) { return std::cos(x); }
  static double spread(double, double e, double y) { return std::min(2.0, e * std::min(1.0, complement(y) + 0.5 * e)); }
  static double amplified(double x, double) { return std::fabs(x); }
};

struct Tan {
  static constexpr Op op = Op::tan;
  static double value(double x) { return std::tan(x); }
  /// tan(x + e) - y = t (1 + y²) / (1 - y t), t = tan e.
  static double spread(double, double e, double y) {
    if (e == 0) return 0;
    const double t = e < 1.5 ? std::tan(e) : unchecked;
    return std::fabs(y) * t < 1 ? t * (1 + y * y) / (1 - std::fabs(y) * t) : unchecked;
  }
  static double amplified(double x, double y) { return (1 + y * y) * std::fabs(x); }
};

/// asin and acos: slope 1/√(1 - m²) at the farthest point m; near ±1 the arc over a drop of e is at most π/2 √(2e).
inline double arc_spread(double x, double e) {
  if (e == 0) return 0;
  const double m = std::fabs(x) + e;
  if (m > 1) return unchecked;
  return std::min(e / std::sqrt((1 - m) * (1 + m)), std::numbers::pi / 2 * std::sqrt(2 * e));
}

struct Asin : UnaryDefaults {
  static constexpr Op op = Op::asin;
  static double value(double x) { return std::asin(x); }
  static double spread(double x, double e, double) { return arc_spread(x, e); }
};

struct Acos : UnaryDefaults {
  static constexpr Op op = Op::acos;
  static double value(double x) { return std::acos(x); }
  static double spread(double x, double e, double) { return arc_spread(x, e); }
};

struct Atan : UnaryDefaults {
  static constexpr Op op = Op::atan;
  static double value(double x) { return std::atan(x); }
  static double spread(double x, double e, double) {
    const double nearest = std::max(0.0, std::fabs(x) - e);
    return std::min(std::numbers::pi, e / (1 + nearest * nearest));
  }
};

struct Sinh {
  static constexpr Op op = Op::sinh;
  static double value(double x) { return std::sinh(x); }
  /// ∫ cosh over e ≤ cosh x ∫ e^t.
  static double spread(double, double e, double y) { return std::sqrt(1 + y * y) * growth(e); }
  static double amplified(double x, double y) { return std::isinf(x) ? 0 : std::fabs(x * y); }
};

struct Cosh {
  static constexpr Op op = Op::cosh;
  static double value(double x) { return std::cosh(x); }
  static double spread(double x, double e, double y) {
    return e == 0 ? 0 : growth(e) * (std::sinh(std::fabs(x)) + e * y);
  }
  static double amplified(double x, double y) { return std::isinf(x) ? 0 : std::fabs(x * y); }
};

struct Tanh : UnaryDefaults {
  static constexpr Op op = Op::tanh;
  static double value(double x) { return std::tanh(x); }
  /// The logarithm of the slope 1 - y² has slope at most 2.
  static double spread(double, double e, double y) {
    return std::min(2.0, e * std::min(1.0, (1 - y * y) * factor(2 * e)));
  }
};

struct Asinh : UnaryDefaults {
  static constexpr Op op = Op::asinh;
  static double value(double x) { return std::asinh(x); }
  static double spread(double x, double e, double) {
    const double nearest = std::max(0.0, std::fabs(x) - e);
    return e == 0 ? 0 : e / std::sqrt(1 + nearest * nearest);
  }
};

struct Acosh : UnaryDefaults {
  static constexpr Op op = Op::acosh;
  static double value(double x) { return std::acosh(x); }
  /// Slope 1/√(m² - 1) at the nearest point m; from 1 the rise over e is at most √(2e).
  static double spread(double x, double e, double) {
    if (e == 0) return 0;
    const double m = x - e;
    return m < 1 ? unchecked : std::min(e / std::sqrt((m - 1) * (m + 1)), std::sqrt(4 * e));
  }
};

struct Atanh : UnaryDefaults {
  static constexpr Op op = Op::atanh;
  static double value(double x) { return std::atanh(x); }
  static double spread(double x, double e, double) {
    if (e == 0) return 0;
    const double m = std::fabs(x) + e;
    return m < 1 ? e / ((1 - m) * (1 + m)) : unchecked;
  }
};

struct BinaryDefaults {
  static double amplified(double, double, double) { return 0; }
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

struct Power {
  static constexpr Op op = Op::power;
  static double value(double x, double y) { return std::pow(x, y); }
  /// Through the logarithm y ln|x|; a negative base needs an exact exponent.
  static double spread(double x, double ex, double y, double ey, double p) {
    if (ex == 0 && ey == 0) return 0;
    const double base = std::fabs(x);
    if (x < 0 && ey > 0) return unchecked;
    if (base <= ex) return y >= 1 && ey == 0 && y == std::floor(y) ? std::pow(base + ex, y) + std::fabs(p) : unchecked;
    if (base == 0) return y > ey ? 0 : unchecked;
    const double log_change = ex / (base - ex);
    const double change = (std::fabs(y) + ey) * log_change + ey * std::fabs(std::log(base));
    return std::fabs(p) * std::expm1(change);
  }
  static double amplified(double, double, double p) {
    const double magnitude = std::fabs(p);
    return magnitude > 0 && std::isfinite(magnitude) ? magnitude * std::fabs(std::log(magnitude)) : 0;
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

/// Operand 0 is the ordinate.
struct Atan2 : BinaryDefaults {
  static constexpr Op op = Op::atan2;
  static double value(double y, double x) { return std::atan2(y, x); }
  /// Seen from the origin, a disc of radius e at distance r spans asin(e/r) ≤ e/(r - e); the cut is at ±π.
  static double spread(double y, double ey, double x, double ex, double) {
    if (ex == 0 && ey == 0) return 0;
    const double r = std::hypot(x, y), e = std::hypot(ex, ey);
    if (r <= e || (x < 0 && ey > 0 && std::fabs(y) <= ey)) return 2 * std::numbers::pi;
    return std::min(std::numbers::pi, e / (r - e));
  }
};

}  // namespace stitch::graph::reference
