#include "search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace stitch::search {
namespace {

// Bounds of the work that one update spends on newer kernel parameters; with them a proposal among 20,000 candidates
// after 450 trials stays below 50 ms on one core.
constexpr double most_fit_work = 1e7;       ///< evaluations times n³
constexpr double most_factor_work = 1.6e7;  ///< multiply-adds
constexpr double kernel_work = 15;          ///< multiply-adds that one evaluation of the kernel takes as long as

constexpr double failures_doubted = 0.5;  ///< trials' worth of belief that a candidate runs

/// Log times above the fastest, compressed where they are far above.
std::vector<double> compress(std::span<const double> log_times, double tail) {
  const double fastest = *std::ranges::min_element(log_times);
  std::vector<double> compressed;
  for (const double time : log_times) compressed.push_back(tail * std::log1p((time - fastest) / tail));
  return compressed;
}

/// Brings values to mean zero and unit spread; returns both as they were.
std::pair<double, double> standardise(std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean) / n;
  const double spread = std::sqrt(square) + 1e-9;
  for (double& value : values) value = (value - mean) / spread;
  return {mean, spread};
}

}  // namespace

Surrogate::Surrogate(const CandidateSpace& space, const TransferPrior* prior, SurrogateOptions options)
    : space_(&space), prior_(prior), options_(options), features_(space.features()) {
  log_valid_.assign(space.size(), 0.0F);
  kernel_prior_ = default_prior(features_);
  if (prior_ != nullptr) learn_from_neighbour();
  parameters_ = kernel_prior_.mean;
}

void Surrogate::learn_from_neighbour() {
  std::vector<std::size_t> measured;
  std::vector<double> log_times;
  for (std::size_t i = 0; i < space_->size(); ++i) {
    if (prior_->failed[i] != 0) continue;
    measured.push_back(i);
    log_times.push_back(static_cast<double>(prior_->log_time[i]));
  }
  std::vector<double> values = compress(log_times, options_.tail);
  const double slowest = *std::ranges::max_element(values);
  Feature expected{std::vector<float>(space_->size())};
  {
    std::vector<double> all(prior_->log_time.begin(), prior_->log_time.end());
    all = compress(all, options_.tail);
    double mx = *std::ranges::max_element(all);
    (void)slowest;
    for (size_t i = 0; i < all.size(); ++i) expected.values[i] = float(all[i] / mx);
  }
  standardise(values);
  KernelFit fit = fit_to(measured, values, features_);
  while (fit.evaluations() < options_.fit_evaluations && fit.advance()) {
  }
  kernel_prior_.mean.log_weight = fit.best().log_weight;
  kernel_prior_.mean.log_weight.push_back(0.0);
  kernel_prior_.weight_sd = 0.7;
  features_.list.push_back(std::move(expected));
}

void Surrogate::observe(std::size_t candidate, double log_time) {
  observed_.push_back(candidate);
  log_times_.push_back(log_time);
}

void Surrogate::observe_failure(std::size_t candidate) { failed_.push_back(candidate); }

std::vector<double> Surrogate::rescale() {
  scale_.fastest = *std::ranges::min_element(log_times_);
  std::vector<double> values = compress(log_times_, options_.tail);
  std::tie(scale_.mean, scale_.spread) = standardise(values);
  return values;
}

double Surrogate::to_log_time(double value) const {
  const double compressed = value * scale_.spread + scale_.mean;
  return scale_.fastest + options_.tail * std::expm1(compressed / options_.tail);
}

KernelFit Surrogate::fit_to(std::span<const std::size_t> candidates, std::span<const double> values,
                            const CandidateFeatures& features) const {
  const std::size_t n = candidates.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (n > options_.fit_points) {  // the faster ones matter most; the rest evenly from what is slower
    std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(values[i], i); });
    const std::size_t half = options_.fit_points / 2, rest = options_.fit_points - half;
    const std::size_t fast = std::max(half, n / 20);
    for (std::size_t k = 0; k < half; ++k) order[k] = order[k * fast / half];
    for (std::size_t k = 0; k < rest; ++k) order[half + k] = order[fast + k * (n - fast) / rest];
    order.resize(options_.fit_points);
  }
  std::vector<std::size_t> points;
  std::vector<double> targets;
  for (const std::size_t i : order) points.push_back(candidates[i]), targets.push_back(values[i]);
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / static_cast<double>(targets.size());
  for (double& target : targets) target -= mean;
  return {features, points, std::move(targets), parameters_.log_weight.empty() ? kernel_prior_.mean : parameters_,
          kernel_prior_};
}

Surrogate::Model::Model(const CandidateFeatures& features, const KernelParameters& parameters)
    : process(features, parameters), near_valid(features.size), near_failed(features.size) {}

bool Surrogate::catch_up(Model& model, double most_work) const {
  const auto size = static_cast<double>(space_->size());
  std::vector<float> near(space_->size());
  const auto count = [&](std::size_t candidate, std::vector<float>& sum) {
    model.process.correlations(candidate, near);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += near[i];
    most_work -= kernel_work * size;
  };
  for (; model.valid < observed_.size() && most_work > 0; ++model.valid) {
    most_work -= (kernel_work + static_cast<double>(model.valid)) * size;
    model.process.add(observed_[model.valid]);
    count(observed_[model.valid], model.near_valid);
  }
  for (; model.failed < failed_.size() && most_work > 0; ++model.failed)
    count(failed_[model.failed], model.near_failed);
  return model.valid == observed_.size() && model.failed == failed_.size();
}

void Surrogate::work(const std::vector<double>& values) {
  const std::size_t n = observed_.size();
  if (!fit_ && !next_ && n >= next_fit_) {
    fit_.emplace(fit_to(observed_, values, features_));
    next_fit_ = n + std::max<std::size_t>(5, n / 7);
  }
  if (fit_) {
    const double points = static_cast<double>(std::min(n, options_.fit_points));
    const int until = fit_->evaluations() + std::max(1, static_cast<int>(most_fit_work / (points * points * points)));
    bool more = true;
    while (more && fit_->evaluations() < until)
      more = fit_->evaluations() < options_.fit_evaluations && fit_->advance();
    if (!more) {
      parameters_ = fit_->best();
      fit_.reset();
      next_.emplace(features_, parameters_);
    }
  }
  if (next_ && catch_up(*next_, most_factor_work)) {
    current_ = std::move(next_);
    next_.reset();
  }
}

void Surrogate::estimate_failures() {
  if (failed_.empty() && prior_ == nullptr) return;
  const auto doubt = static_cast<float>(failures_doubted);
  for (std::size_t i = 0; i < log_valid_.size(); ++i) {
    const float expected = prior_ != nullptr && prior_->failed[i] != 0 ? 1.0F : 0.0F;
    log_valid_[i] = std::log((current_->near_valid[i] + doubt) /
                             (current_->near_valid[i] + current_->near_failed[i] + expected + doubt));
  }
}

void Surrogate::assume(std::size_t candidate) {
  current_->process.add(candidate);
  ++assumed_;
}

Prediction Surrogate::update() {
  for (; assumed_ > 0; --assumed_) current_->process.remove_last();
  std::vector<double> values = rescale();
  work(values);
  if (!current_) {  // the first fit is not through: the prior's kernel serves until then
    current_.emplace(features_, kernel_prior_.mean);
  }
  catch_up(*current_, std::numeric_limits<double>::infinity());
  estimate_failures();
  mean_ = current_->process.mean(values);
  Prediction prediction;
  prediction.best = *std::ranges::min_element(values);
  prediction.mean = mean_, prediction.variance = current_->process.variance(), prediction.log_valid = log_valid_;
  return prediction;
}

}  // namespace stitch::search
