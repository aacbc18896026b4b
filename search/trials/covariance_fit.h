#pragma once

#include <deque>
#include <memory>
#include <span>

#include "search/trials/gaussian_process.h"

namespace stitch::search {

/// Prior belief about parameters of the covariance: independent normal distributions of their logarithms.
struct CovariancePrior {
  CovarianceParameters mean;
  double weight_sd = 1;  ///< of the weights; 1 for the variance, 1.5 for the noise
};

/// What is believed of a space of which nothing is known: a feature's range is one length scale; what only tells a
/// parameter's values apart matters little until the data says otherwise.
CovariancePrior default_prior(const CandidateFeatures& features);

/// Parameters of the covariance of largest posterior density for the targets of some candidates (mean zero, about unit
/// variance): marginal likelihood (Rasmussen and Williams, section 5.4.1) times the prior, by L-BFGS (Nocedal and
/// Wright, Numerical Optimization, algorithm 7.4), in steps so that a caller can spread them over time. One evaluation
/// of n candidates costs O(n³ + n²·groups). Deterministic.
class CovarianceFit {
 public:
  CovarianceFit(const CandidateFeatures& features, std::span<const std::size_t> observed, std::vector<double> targets,
                const CovarianceParameters& start, const CovariancePrior& prior);
  ~CovarianceFit();
  CovarianceFit(CovarianceFit&&) noexcept;
  CovarianceFit& operator=(CovarianceFit&&) noexcept;

  /// One step: a direction and a search along it, at most four evaluations. False when no step is left to take.
  bool advance();
  /// Evaluations so far.
  [[nodiscard]] int evaluations() const { return evaluations_; }
  /// Negative log posterior density of the best parameters so far, up to a constant.
  [[nodiscard]] double loss() const { return value_; }
  [[nodiscard]] CovarianceParameters best() const;

 private:
  class Objective;
  struct Curvature {
    std::vector<double> step, change;
  };
  double evaluate(const std::vector<double>& at, std::vector<double>& gradient);
  [[nodiscard]] std::vector<double> direction() const;
  void accept(std::vector<double> next, std::vector<double> gradient, double value);

  std::unique_ptr<Objective> objective_;
  std::vector<double> at_, gradient_;
  double value_ = 0;
  std::deque<Curvature> history_;
  int evaluations_ = 0;
};

}  // namespace stitch::search
