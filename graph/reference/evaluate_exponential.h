#pragma once

#include <numbers>

#include "graph/reference/evaluate_functions.h"

namespace stitch::graph::reference {

// Exponentials, logarithms, roots, powers, and what is made of them; evaluate_functions.h says what a struct has.

/// e^t - 1 ≤ t (1 + t) and e^t ≤ 1 + 2t up to t = 1: errors are small, and a library call is not.
inline double growth(double t) { return t < 1 ? t * (1 + t) : std::expm1(t); }
inline double factor(double t) { return t < 1 ? 1 + 2 * t : std::exp(t); }

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

struct ErfInv : UnaryDefaults {
  static constexpr Op op = Op::erf_inv;
  /// Winitzki's approximation (2008: to 2e-3), then Halley's steps, each of which triples the digits. Near 1 through
  /// erfc, because 1 - x is exact there. Within 2 units of roundoff everywhere.
  static double value(double signed_x) {
    const double x = std::fabs(signed_x);
    if (x == 1) return std::copysign(unchecked, signed_x);
    if (!(x < 1)) return std::numeric_limits<double>::quiet_NaN();
    constexpr double slope = 1 / std::numbers::inv_sqrtpi / 2, a = 0.147;  // slope of the inverse at 0
    const double tail = std::log((1 - x) * (1 + x)), shift = 2 / (std::numbers::pi * a) + tail / 2;
    double y = x < 1e-3 ? slope * x : std::sqrt(std::sqrt(shift * shift - tail / a) - shift);
    for (int turn = 0; turn < 3; ++turn) {
      const double error = x < 0.5 ? std::erf(y) - x : (1 - x) - std::erfc(y);
      const double step = error * slope * std::exp(y * y);
      y -= step / (1 + y * step);
    }
    return std::copysign(y, signed_x);
  }
  /// The slope √π/2 e^y² grows with |y|: that at the farthest point.
  static double spread(double x, double e, double) {
    if (e == 0) return 0;
    const double farthest = std::fabs(x) + e;
    if (!(farthest < 1)) return unchecked;
    const double y = value(farthest);
    return e / std::numbers::inv_sqrtpi / 2 * std::exp(y * y) * (1 + 1e-12);
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

using ExponentialFunctions = Functions<Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Cbrt, Logistic, Erf, Erfc, ErfInv, Power>;

}  // namespace stitch::graph::reference
