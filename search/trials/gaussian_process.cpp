#include "search/trials/gaussian_process.h"

#include <algorithm>
#include <cmath>

namespace stitch::search {

float matern(float squared) {
  const float r = std::sqrt(5.0F * squared);
  return (1.0F + r + r * r / 3.0F) * std::exp(-r);
}

GaussianProcess::GaussianProcess(const CandidateFeatures& features, CovarianceParameters parameters)
    : features_(&features), parameters_(std::move(parameters)) {
  for (std::size_t f = 0; f < features.list.size(); ++f) {
    scaled_.push_back(features.list[f].values);
    if (features.list[f].label) continue;
    const float weight = std::exp(parameters_.log_weight[f]);
    for (float& value : scaled_.back()) value *= weight;
  }
  variance_.assign(features.size, std::exp(parameters_.log_variance));
}

void GaussianProcess::correlations(std::size_t candidate, std::span<float> to) const {
  std::fill(to.begin(), to.end(), 0.0F);
  float* squared = to.data();
  for (std::size_t f = 0; f < scaled_.size(); ++f) {
    const float* values = scaled_[f].data();
    const float own = values[candidate];
    if (features_->list[f].label) {
      const float apart = std::exp(2 * parameters_.log_weight[f]);
      for (std::size_t i = 0; i < to.size(); ++i) squared[i] += values[i] == own ? 0.0F : apart;
    } else {
      for (std::size_t i = 0; i < to.size(); ++i) squared[i] += (values[i] - own) * (values[i] - own);
    }
  }
  for (float& value : to) value = matern(value);
}

void GaussianProcess::add(std::size_t candidate) {
  const std::size_t n = observed_.size(), size = features_->size;
  const double variance = std::exp(parameters_.log_variance);
  std::vector<float> next(size);
  correlations(candidate, next);
  for (float& value : next) value *= static_cast<float>(variance);
  std::vector<double> row(n + 1);
  double square = variance + std::exp(parameters_.log_noise) + noise_floor;
  for (std::size_t j = 0; j < n; ++j) {
    row[j] = whitened_[j][candidate];
    square -= row[j] * row[j];
  }
  row[n] = std::sqrt(std::max(square, 1e-6 * variance));
  float* to = next.data();
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4) {  // four rows at a time: the row being made stays in registers
    const float *a = whitened_[j].data(), *b = whitened_[j + 1].data(), *c = whitened_[j + 2].data(),
                *d = whitened_[j + 3].data();
    const float p = row[j], q = row[j + 1], r = row[j + 2], s = row[j + 3];
    for (std::size_t i = 0; i < size; ++i) to[i] -= p * a[i] + q * b[i] + r * c[i] + s * d[i];
  }
  for (; j < n; ++j) {
    const float p = row[j];
    const float* a = whitened_[j].data();
    for (std::size_t i = 0; i < size; ++i) to[i] -= p * a[i];
  }
  const float inverse = 1.0 / row[n];
  for (std::size_t i = 0; i < size; ++i) {
    to[i] *= inverse;
    variance_[i] = std::max(0.0F, variance_[i] - to[i] * to[i]);
  }
  factor_.push_back(std::move(row));
  whitened_.push_back(std::move(next));
  observed_.push_back(candidate);
}

void GaussianProcess::remove_last() {
  for (std::size_t i = 0; i < variance_.size(); ++i) variance_[i] += whitened_.back()[i] * whitened_.back()[i];
  factor_.pop_back();
  whitened_.pop_back();
  observed_.pop_back();
}

std::vector<float> GaussianProcess::mean(std::span<const double> targets) const {
  const std::size_t n = observed_.size(), size = features_->size;
  std::vector<float> solved(n);
  std::vector<double> exact(n);
  for (std::size_t i = 0; i < n; ++i) {
    double rest = targets[i];
    for (std::size_t j = 0; j < i; ++j) rest -= factor_[i][j] * exact[j];
    exact[i] = rest / factor_[i][i];
    solved[i] = exact[i];
  }
  std::vector<float> sum(size);
  float* to = sum.data();
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const float *a = whitened_[j].data(), *b = whitened_[j + 1].data(), *c = whitened_[j + 2].data(),
                *d = whitened_[j + 3].data();
    const float p = solved[j], q = solved[j + 1], r = solved[j + 2], s = solved[j + 3];
    for (std::size_t i = 0; i < size; ++i) to[i] += p * a[i] + q * b[i] + r * c[i] + s * d[i];
  }
  for (; j < n; ++j) {
    const float* a = whitened_[j].data();
    for (std::size_t i = 0; i < size; ++i) to[i] += solved[j] * a[i];
  }
  return sum;
}

}  // namespace stitch::search
