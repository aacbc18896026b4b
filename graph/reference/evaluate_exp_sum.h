#pragma once

#include <cmath>
#include <cstdint>

#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_exponential.h"

namespace stitch::graph::reference {

/// Σ exp(x − m) of a row with maximum m: exact but for the bounds where they are wanted.
template <bool bounded, bool compensated>
class ExpSum {
 public:
  using Value = double;
  ExpSum(double maximum, double bound, const Rounding& rounding)
      : maximum_(maximum), maximum_bound_(bound), rounding_(&rounding) {}

  void add(double x, double e) {
    const double below = x - maximum_, term = std::exp(below);
    double bound = 0;
    if constexpr (bounded) {
      ++count_;
      bound = term_bound(below, term, e);
      magnitude_ += std::isfinite(term) ? term : 0;
    }
    sum_.add(term, bound);
  }

  [[nodiscard]] Accumulated<double> finish(const Accumulation& a) const {
    Accumulated<double> result = sum_.finish(a);
    if constexpr (bounded)
      result.bound += sum_depth(count_, a.model) * (ulps_of_exp + 0.5) * rounding_->ulp * magnitude_;
    return result;
  }

 private:
  static constexpr double ulps_of_exp = 2;

  /// A kernel may have taken the term relative to the greatest of the elements before it, and have multiplied it by
  /// exp(m' − m) whenever there was a greater one, as often as it adds. The differences add up to one of at most
  /// x − m, so that what rounding them amplifies comes to the term's own once more; finish() has the rest.
  [[nodiscard]] double term_bound(double below, double term, double e) const {
    const double moved = e + maximum_bound_;
    if (moved == unchecked || maximum_bound_ < 0) return unchecked;
    // What is far enough below the maximum, or −∞, adds nothing: nor does what it was relative to one before it, which
    // the maximum's rescaling takes back.
    if (e < 0) return below < 0 && std::exp(moved - maximum_) == 0 ? 0 : unchecked;
    if (!std::isfinite(below) || std::isnan(term)) return 0;
    const double amplified = 2 * (1 + 0.5) * std::fabs(below);
    return term * growth(moved) + (ulps_of_exp + amplified) * rounding_->ulp * term + rounding_->floor;
  }

  double maximum_, maximum_bound_;
  const Rounding* rounding_;
  FloatSum<bounded, compensated> sum_;
  double magnitude_ = 0;  ///< Σ exp(x − m) of the finite ones
  std::int64_t count_ = 0;
};

}  // namespace stitch::graph::reference
