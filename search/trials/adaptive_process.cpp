#include "search/trials/adaptive_process.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stitch::search {
namespace {

// Bounds of the work that one update spends on newer parameters of the covariance; with them a proposal among 20,000
// candidates after 450 trials stays below 50 ms on one core.
constexpr double most_fit_work = 1e7;       ///< evaluations times n³
constexpr double most_factor_work = 1.6e7;  ///< multiply-adds
constexpr double covariance_work = 15;      ///< multiply-adds that one evaluation of the covariance takes as long as

/// Which observations a fit is made to.
std::vector<std::size_t> select(std::span<const double> values, std::size_t most) {
  const std::size_t n = values.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (n <= most) return order;
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(values[i], i); });
  const std::size_t half = most / 2, rest = most - half, low = std::max(half, n / 20);
  for (std::size_t k = 0; k < half; ++k) order[k] = order[k * low / half];
  for (std::size_t k = 0; k < rest; ++k) order[half + k] = order[low + k * (n - low) / rest];
  order.resize(most);
  return order;
}

CovarianceFit begin_fit(const CandidateFeatures& features, std::span<const std::size_t> candidates,
                        std::span<const double> values, const CovarianceParameters& start, const CovariancePrior& prior,
                        std::size_t most_points) {
  std::vector<std::size_t> points;
  std::vector<double> targets;
  for (const std::size_t i : select(values, most_points)) {
    points.push_back(candidates[i]);
    targets.push_back(values[i]);
  }
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / targets.size();
  for (double& target : targets) target -= mean;
  return {features, points, std::move(targets), start, prior};
}

}  // namespace

CovarianceParameters fit_covariance(const CandidateFeatures& features, std::span<const std::size_t> candidates,
                                    std::span<const double> values, const CovariancePrior& prior,
                                    const AdaptiveOptions& options) {
  CovarianceFit fit = begin_fit(features, candidates, values, prior.mean, prior, options.fit_points);
  while (fit.evaluations() < options.fit_evaluations && fit.advance()) {
  }
  return fit.best();
}

AdaptiveProcess::AdaptiveProcess(const CandidateFeatures& features, CovariancePrior prior, AdaptiveOptions options)
    : features_(&features), prior_(std::move(prior)), options_(options), parameters_(prior_.mean) {}

bool AdaptiveProcess::catch_up(GaussianProcess& process, double most_work) const {
  const double size = features_->size;
  while (process.observations() < observed_.size() && most_work > 0) {
    most_work -= (covariance_work + process.observations()) * size;
    process.add(observed_[process.observations()]);
  }
  return process.observations() == observed_.size();
}

void AdaptiveProcess::work(std::span<const double> values) {
  const std::size_t n = observed_.size();
  if (!fit_ && !next_ && n >= next_fit_) {
    fit_.emplace(begin_fit(*features_, observed_, values, parameters_, prior_, options_.fit_points));
    next_fit_ = n + std::max<std::size_t>(5, n / 7);
  }
  if (fit_) {
    const double points = std::min(n, options_.fit_points);
    const int until = fit_->evaluations() + std::max(1, static_cast<int>(most_fit_work / (points * points * points)));
    bool more = true;
    while (more && fit_->evaluations() < until)
      more = fit_->evaluations() < options_.fit_evaluations && fit_->advance();
    if (!more) {
      parameters_ = fit_->best();
      fit_.reset();
      next_.emplace(*features_, parameters_);
    }
  }
  if (next_ && catch_up(*next_, most_factor_work)) {
    current_ = std::move(next_);
    next_.reset();
  }
}

std::vector<float> AdaptiveProcess::update(std::span<const double> values, bool bounded) {
  for (; assumed_ > 0; --assumed_) current_->remove_last();
  work(values);
  if (!current_) current_.emplace(*features_, prior_.mean);  // until the first fit is through
  usable_ = catch_up(*current_, bounded && !usable_ ? most_factor_work : std::numeric_limits<double>::infinity());
  return usable_ ? current_->mean(values) : std::vector<float>();
}

void AdaptiveProcess::assume(std::size_t candidate) {
  current_->add(candidate);
  ++assumed_;
}

}  // namespace stitch::search
