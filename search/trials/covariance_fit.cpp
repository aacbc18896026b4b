#include "search/trials/covariance_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stitch::search {
namespace {

using Vector = std::vector<double>;

constexpr double least_log = -8, most_log = 5;  ///< of every parameter; beyond, nothing changes any more

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Vector flatten(const CovarianceParameters& parameters) {
  Vector flat = parameters.log_weight;
  flat.push_back(parameters.log_variance);
  flat.push_back(parameters.log_noise);
  return flat;
}

}  // namespace

/// Negative log posterior density over (log_weight…, log_variance, log_noise), and its gradient.
class CovarianceFit::Objective {
 public:
  Objective(const CandidateFeatures& features, std::span<const std::size_t> observed, std::vector<double> targets,
            const CovariancePrior& prior)
      : n_(observed.size()),
        groups_(features.list.size()),
        targets_(std::move(targets)),
        prior_mean_(flatten(prior.mean)),
        prior_sd_(prior.weight_sd) {
    distance_.assign(groups_, std::vector<float>(n_ * n_));
    for (std::size_t g = 0; g < groups_; ++g) {
      const Feature& feature = features.list[g];
      for (std::size_t i = 0; i < n_; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          const float difference = feature.values[observed[i]] - feature.values[observed[j]];
          distance_[g][i * n_ + j] = feature.label ? (difference == 0 ? 0.0F : 1.0F) : difference * difference;
        }
      }
    }
  }

  double operator()(const Vector& at, Vector& gradient) {
    const double variance = std::exp(at[groups_]), noise = std::exp(at[groups_ + 1]) + noise_floor;
    build(at, variance, noise);
    if (!factorise()) return std::numeric_limits<double>::infinity();
    invert();
    return likelihood(at, variance, noise, gradient) + prior(at, gradient);
  }

 private:
  /// correlation_: m(r) below the diagonal; slope_: dm/dr²; lower_: K.
  void build(const Vector& at, double variance, double noise) {
    squared_.assign(n_ * n_, 0.0F);
    for (std::size_t g = 0; g < groups_; ++g) {
      const float weight = std::exp(2 * at[g]);
      const float* from = distance_[g].data();
      float* to = squared_.data();
      for (std::size_t k = 0; k < n_ * n_; ++k) to[k] += weight * from[k];
    }
    correlation_.resize(n_ * n_);
    slope_.resize(n_ * n_);
    lower_.resize(n_ * n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const std::size_t k = i * n_ + j;
        const double r = std::sqrt(5.0 * squared_[k]), e = std::exp(-r);
        correlation_[k] = (1 + r + r * r / 3) * e;
        slope_[k] = -5.0 / 6.0 * (1 + r) * e;
        lower_[k] = variance * correlation_[k];
      }
      lower_[i * n_ + i] = variance + noise;
    }
  }

  bool factorise() {
    for (std::size_t i = 0; i < n_; ++i) {
      double* row = &lower_[i * n_];
      for (std::size_t j = 0; j <= i; ++j) {
        const double* other = &lower_[j * n_];
        double sum = row[j];
        for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
        if (j < i)
          row[j] = sum / other[j];
        else if (!(sum > 1e-12))
          return false;
        else
          row[i] = std::sqrt(sum);
      }
    }
    return true;
  }

  /// inverse_: lower part of K⁻¹ = L⁻ᵀ L⁻¹; alpha_ = K⁻¹ y.
  void invert() {
    // Row i of `transposed` is column i of L⁻¹, so that inner loops run along memory.
    transposed_.assign(n_ * n_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      const double diagonal = 1 / lower_[i * n_ + i];
      for (std::size_t c = 0; c < i; ++c) {
        double sum = 0;
        const double *row = &lower_[i * n_], *column = &transposed_[c * n_];
        for (std::size_t k = c; k < i; ++k) sum += row[k] * column[k];
        transposed_[c * n_ + i] = -sum * diagonal;
      }
      transposed_[i * n_ + i] = diagonal;
    }
    inverse_.resize(n_ * n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        const double *a = &transposed_[i * n_], *b = &transposed_[j * n_];
        for (std::size_t k = i; k < n_; ++k) sum += a[k] * b[k];
        inverse_[i * n_ + j] = sum;
      }
    }
    alpha_.assign(n_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        alpha_[i] += inverse_[i * n_ + j] * targets_[j];
        alpha_[j] += inverse_[i * n_ + j] * targets_[i];
      }
      alpha_[i] += inverse_[i * n_ + i] * targets_[i];
    }
  }

  double likelihood(const Vector& at, double variance, double noise, Vector& gradient) {
    double value = 0, trace = 0, by_variance = 0;
    std::vector<float>& inner = squared_;  // no longer needed
    for (std::size_t i = 0; i < n_; ++i) {
      value += 0.5 * alpha_[i] * targets_[i] + std::log(lower_[i * n_ + i]);
      for (std::size_t j = 0; j < i; ++j) {
        const std::size_t k = i * n_ + j;
        const double w = alpha_[i] * alpha_[j] - inverse_[k];
        by_variance += 2 * w * correlation_[k];
        inner[k] = 2 * w * slope_[k] * variance;
      }
      const double w = alpha_[i] * alpha_[i] - inverse_[i * n_ + i];
      trace += w;
      by_variance += w;
    }
    for (std::size_t g = 0; g < groups_; ++g) {
      double sum = 0;
      for (std::size_t i = 0; i < n_; ++i) {
        float part = 0;
        for (std::size_t j = 0; j < i; ++j) part += inner[i * n_ + j] * distance_[g][i * n_ + j];
        sum += part;
      }
      gradient[g] = -sum * std::exp(2 * at[g]);
    }
    gradient[groups_] = -0.5 * by_variance * variance;
    gradient[groups_ + 1] = -0.5 * trace * (noise - noise_floor);
    return value;
  }

  double prior(const Vector& at, Vector& gradient) const {
    double value = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double sd = i < groups_ ? prior_sd_ : i == groups_ ? 1.0 : 1.5;
      const double z = (at[i] - prior_mean_[i]) / sd;
      value += 0.5 * z * z;
      gradient[i] += z / sd;
    }
    return value;
  }

  std::size_t n_, groups_;
  Vector targets_, prior_mean_;
  double prior_sd_;
  std::vector<std::vector<float>> distance_;
  std::vector<float> squared_;
  Vector correlation_, slope_, lower_, transposed_, inverse_, alpha_;
};

CovarianceFit::CovarianceFit(const CandidateFeatures& features, std::span<const std::size_t> observed,
                             std::vector<double> targets, const CovarianceParameters& start,
                             const CovariancePrior& prior)
    : objective_(std::make_unique<Objective>(features, observed, std::move(targets), prior)), at_(flatten(start)) {
  gradient_.resize(at_.size());
  value_ = evaluate(at_, gradient_);
}

CovarianceFit::~CovarianceFit() = default;
CovarianceFit::CovarianceFit(CovarianceFit&&) noexcept = default;
CovarianceFit& CovarianceFit::operator=(CovarianceFit&&) noexcept = default;

double CovarianceFit::evaluate(const Vector& at, Vector& gradient) {
  ++evaluations_;
  return (*objective_)(at, gradient);
}

/// The two-loop recursion.
Vector CovarianceFit::direction() const {
  Vector downhill = gradient_;
  Vector factor(history_.size());
  for (std::size_t h = history_.size(); h-- > 0;) {
    factor[h] = dot(history_[h].step, downhill) / dot(history_[h].step, history_[h].change);
    for (std::size_t i = 0; i < downhill.size(); ++i) downhill[i] -= factor[h] * history_[h].change[i];
  }
  if (!history_.empty()) {
    const Curvature& last = history_.back();
    const double scale = dot(last.step, last.change) / dot(last.change, last.change);
    for (double& value : downhill) value *= scale;
  }
  for (std::size_t h = 0; h < history_.size(); ++h) {
    const double beta = dot(history_[h].change, downhill) / dot(history_[h].step, history_[h].change);
    for (std::size_t i = 0; i < downhill.size(); ++i) downhill[i] += history_[h].step[i] * (factor[h] - beta);
  }
  for (double& value : downhill) value = -value;
  return downhill;
}

bool CovarianceFit::advance() {
  Vector towards = direction();
  double slope = dot(towards, gradient_);
  if (!(slope < 0)) {
    history_.clear();
    towards = direction();
    slope = dot(towards, gradient_);
  }
  if (!std::isfinite(value_) || !(slope < -1e-6)) return false;
  double longest = 0;
  for (const double component : towards) longest = std::max(longest, std::abs(component));
  // A first step is a guess; none moves a logarithm by more than two.
  double length = std::min(history_.empty() ? 0.5 / longest : 1.0, 2.0 / longest);
  Vector next(at_.size()), gradient(at_.size());
  for (int tried = 0; tried < 4; ++tried, length *= 0.3) {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      next[i] = std::clamp(at_[i] + length * towards[i], least_log, most_log);
    }
    const double value = evaluate(next, gradient);
    if (!(value < value_ + 1e-4 * length * slope)) continue;
    const bool flat = value_ - value < 1e-4;
    accept(std::move(next), std::move(gradient), value);
    return !flat;
  }
  return false;
}

void CovarianceFit::accept(Vector next, Vector gradient, double value) {
  Curvature seen{next, gradient};
  for (std::size_t i = 0; i < at_.size(); ++i) {
    seen.step[i] -= at_[i];
    seen.change[i] -= gradient_[i];
  }
  if (dot(seen.step, seen.change) > 1e-10) history_.push_back(std::move(seen));
  if (history_.size() > 8) history_.pop_front();
  at_ = std::move(next);
  gradient_ = std::move(gradient);
  value_ = value;
}

CovarianceParameters CovarianceFit::best() const {
  CovarianceParameters fitted;
  fitted.log_weight.assign(at_.begin(), at_.end() - 2);
  fitted.log_variance = at_[at_.size() - 2];
  fitted.log_noise = at_.back();
  return fitted;
}

CovariancePrior default_prior(const CandidateFeatures& features) {
  CovariancePrior prior;
  for (const Feature& feature : features.list) prior.mean.log_weight.push_back(feature.minor ? -1.5 : 0.0);
  return prior;
}

}  // namespace stitch::search
