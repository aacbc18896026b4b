#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/trials/covariance_fit.h"
#include "search/trials/gaussian_process.h"

namespace stitch::search {

struct AdaptiveOptions {
  std::size_t fit_points = 128;  ///< parameters of the covariance are fitted to at most so many observations
  int fit_evaluations = 40;      ///< of the likelihood, per fit
};

/// Parameters of the covariance fitted to the values of some candidates: to all of them, or to the low half of the
/// points that a fit may have (low is what a search is after) and an even selection of the rest. Runs to its end.
CovarianceParameters fit_covariance(const CandidateFeatures& features, std::span<const std::size_t> candidates,
                                    std::span<const double> values, const CovariancePrior& prior,
                                    const AdaptiveOptions& options);

/// A Gaussian process over all candidates of a space whose covariance follows what is observed: its parameters are
/// fitted anew when the observations have grown by a seventh. Fit and refactoring are spread over the updates, a
/// bounded amount of arithmetic each, so that none waits for them; the order of work depends on counts only, never on a
/// clock.
class AdaptiveProcess {
 public:
  /// The features outlive the process.
  AdaptiveProcess(const CandidateFeatures& features, CovariancePrior prior, AdaptiveOptions options);

  /// One observed candidate more, taken in by the next update.
  void observe(std::size_t candidate) { observed_.push_back(candidate); }
  [[nodiscard]] std::size_t observations() const { return observed_.size(); }
  /// Takes in what was observed and forgets what was assumed; posterior mean of every candidate for the values of the
  /// observed ones, in their order. Values are of mean zero and about unit spread. Whoever can do without it for a
  /// while bounds the work that an update spends on the first factorisation: nothing is returned until that is through.
  std::vector<float> update(std::span<const double> values, bool bounded = false);
  /// After an update: posterior variance of every candidate.
  [[nodiscard]] std::span<const float> variance() const { return current_->variance(); }
  /// Lowers the variance around a candidate as if it had been observed; until the next update.
  void assume(std::size_t candidate);

 private:
  void work(std::span<const double> values);
  /// Takes in observations until so many multiply-adds are spent; whether all are in.
  bool catch_up(GaussianProcess& process, double most_work) const;

  const CandidateFeatures* features_;
  CovariancePrior prior_;
  AdaptiveOptions options_;
  std::vector<std::size_t> observed_;
  CovarianceParameters parameters_;
  std::optional<CovarianceFit> fit_;
  std::optional<GaussianProcess> next_;  ///< with newer parameters of the covariance, not caught up yet
  std::optional<GaussianProcess> current_;
  bool usable_ = false;       ///< `current_` has caught up once
  std::size_t assumed_ = 0;   ///< the last observations of `current_`
  std::size_t next_fit_ = 0;  ///< when there are so many observations
};

}  // namespace stitch::search
