#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/trials/candidate_space.h"

namespace stitch::search {

/// Matérn-5/2 covariance with a length scale per feature: k = variance · m(r), r² = Σ_f w_f² |x_f − x'_f|²,
/// m(r) = (1 + √5 r + 5r²/3) exp(−√5 r); Rasmussen and Williams, Gaussian Processes for Machine Learning, section 4.2.
struct CovarianceParameters {
  std::vector<double> log_weight;  ///< per feature log w_f: inverse length scales, in units of the feature's range
  double log_variance = 0;
  double log_noise = -4.6;  ///< variance of a measurement, beyond `noise_floor`
};

/// Added to every noise variance: keeps the factor well conditioned in single precision.
inline constexpr double noise_floor = 1e-4;

/// Exact Gaussian-process regression whose test points are known beforehand: all candidates of a space. Keeps the
/// Cholesky factor L of the observed points and V = L⁻¹ K(observed, all), so that one observation more costs O(n·N),
/// and so does the posterior mean for new targets. Targets have mean zero a priori.
class GaussianProcess {
 public:
  GaussianProcess(const CandidateFeatures& features, CovarianceParameters parameters);

  /// One observed candidate more.
  void add(std::size_t candidate);
  /// Takes the last one back.
  void remove_last();
  [[nodiscard]] std::size_t observations() const { return observed_.size(); }
  /// Posterior mean of every candidate, given the targets of the observed ones in the order in which they were added.
  [[nodiscard]] std::vector<float> mean(std::span<const double> targets) const;
  /// Posterior variance of every candidate, without noise; of the order of the targets' variance.
  [[nodiscard]] std::span<const float> variance() const { return variance_; }
  /// Correlation of a candidate with every other, in [0, 1].
  void correlations(std::size_t candidate, std::span<float> to) const;

 private:
  const CandidateFeatures* features_;
  CovarianceParameters parameters_;
  std::vector<std::vector<float>> scaled_;  ///< the features' values times their weights; labels as they are
  std::vector<std::size_t> observed_;
  std::vector<std::vector<double>> factor_;   ///< rows of L
  std::vector<std::vector<float>> whitened_;  ///< rows of V
  std::vector<float> variance_;
};

/// Matérn-5/2 correlation at a squared distance.
float matern(float squared);

}  // namespace stitch::search
