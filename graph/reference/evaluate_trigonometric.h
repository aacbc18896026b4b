#pragma once

#include <numbers>

#include "graph/reference/evaluate_exponential.h"

namespace stitch::graph::reference {

// Circular and hyperbolic functions and their inverses; evaluate_functions.h says what a struct has.

/// |cos x| from sin x and the other way round; the constant covers the cancellation near 1.
inline double complement(double y) { return std::sqrt(std::max(0.0, (1 - y) * (1 + y))) + 1e-8; }

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

/// Operand 0 is the ordinate.
struct Atan2 : BinaryDefaults {
  static constexpr Op op = Op::atan2;
  static double value(double y, double x) { return std::atan2(y, x); }
  /// Seen from the origin, a disc of radius e at distance r spans asin(e/r) ≤ e/(r - e); the cut is at ±π, where the
  /// sign of a zero decides, which no operator promises: a sum or a maximum of zeros has either.
  static double spread(double y, double ey, double x, double ex, double) {
    if (y == 0 && x <= 0) return 2 * std::numbers::pi;
    if (ex == 0 && ey == 0) return 0;
    const double r = std::hypot(x, y), e = std::hypot(ex, ey);
    if (r <= e || (x < 0 && ey > 0 && std::fabs(y) <= ey)) return 2 * std::numbers::pi;
    return std::min(std::numbers::pi, e / (r - e));
  }
};

using TrigonometricFunctions = Functions<Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Atan2>;

}  // namespace stitch::graph::reference
