#include "costmodel/constants/constant_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/analytical.h"

namespace stitch::costmodel {
namespace {

using Vector = std::vector<double>;

/// Constants as places within their bounds, 0 … 1: all of one scale.
Vector places_of(const AnalyticalConstants& constants) {
  Vector places;
  for (const ConstantRow& row : constant_table())
    places.push_back((constants.*row.field - row.low) / (row.high - row.low));
  return places;
}

AnalyticalConstants constants_at(const Vector& places) {
  AnalyticalConstants constants;
  const auto table = constant_table();
  for (std::size_t i = 0; i < table.size(); ++i)
    constants.*table[i].field = table[i].low + places[i] * (table[i].high - table[i].low);
  return constants;
}

/// Solves a symmetric positive definite system, of which the lower half is read, in place; false when it is not.
bool solve(std::vector<Vector> matrix, Vector& right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
      if (i == j && !(sum > 0)) return false;
      matrix[i][j] = i == j ? std::sqrt(sum) : sum / matrix[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= matrix[k][i] * right[k];
    right[i] /= matrix[i][i];
  }
  return true;
}

class Fit {
 public:
  Fit(std::span<const FitSample> samples, const DeviceSpec& device, const FitOptions& options)
      : samples_(samples), device_(device), options_(options), start_(places_of({})) {
    std::map<Hash128, double> counts;
    for (const FitSample& sample : samples) ++counts[sample.kernel];
    kernels_ = counts.size();
    for (const FitSample& sample : samples) weights_.push_back(1 / counts[sample.kernel]);
  }

  ConstantFit run() {
    Vector at = start_;
    double cost = cost_of(at), damping = 1e-2;
    ConstantFit fit;
    fit.error_before = error_of(at);
    for (; fit.rounds < options_.rounds && damping < 1e8; ++fit.rounds) {
      linearise(at);
      double next_cost = cost;
      Vector next;
      // Steps become shorter until one is downhill.
      while (damping < 1e8) {
        next = stepped(at, damping);
        next_cost = next.empty() ? cost : cost_of(next);
        if (next_cost < cost) break;
        damping *= 4;
      }
      if (!(next_cost < cost)) break;
      const bool settled = cost - next_cost < 1e-9 * cost;
      at = std::move(next);
      cost = next_cost;
      damping = std::max(1e-9, damping / 3);
      if (settled) break;
    }
    fit.constants = constants_at(at);
    fit.error_after = error_of(at);
    fit.samples = samples_.size();
    fit.kernels = kernels_;
    const AnalyticalConstants before;
    const auto table = constant_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (std::fabs(at[i] - start_[i]) < 1e-3) {
        fit.constants.*table[i].field = before.*table[i].field;
        continue;
      }
      fit.changed.push_back(
          {table[i].name, before.*table[i].field, fit.constants.*table[i].field, at[i] <= 1e-9 || at[i] >= 1 - 1e-9});
    }
    return fit;
  }

 private:
  [[nodiscard]] double residual(std::size_t i, const AnalyticalConstants& constants) const {
    return std::log(analytical_us(samples_[i].quantities, device_, constants) / samples_[i].measured_us);
  }
  [[nodiscard]] double squares(const Vector& at) const {
    const AnalyticalConstants constants = constants_at(at);
    double sum = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const double r = residual(i, constants);
      sum += weights_[i] * r * r;
    }
    return sum;
  }
  [[nodiscard]] double cost_of(const Vector& at) const {
    double sum = squares(at);
    for (std::size_t p = 0; p < at.size(); ++p) sum += options_.hold * (at[p] - start_[p]) * (at[p] - start_[p]);
    return sum;
  }
  [[nodiscard]] double error_of(const Vector& at) const { return std::sqrt(squares(at) / kernels_); }

  /// Normal equations of the residuals around a place; derivatives by differences, inwards at a bound.
  void linearise(const Vector& at) {
    const std::size_t n = at.size();
    normal_.assign(n, Vector(n, 0));
    gradient_.assign(n, 0);
    constexpr double step = 1e-4;
    std::vector<AnalyticalConstants> moved;
    Vector signs;
    for (std::size_t p = 0; p < n; ++p) {
      Vector there = at;
      signs.push_back(at[p] + step <= 1 ? step : -step);
      there[p] += signs.back();
      moved.push_back(constants_at(there));
    }
    const AnalyticalConstants here = constants_at(at);
    Vector slope(n);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const double r = residual(i, here);
      for (std::size_t p = 0; p < n; ++p) slope[p] = (residual(i, moved[p]) - r) / signs[p];
      for (std::size_t p = 0; p < n; ++p) {
        gradient_[p] += weights_[i] * slope[p] * r;
        for (std::size_t q = 0; q <= p; ++q) normal_[p][q] += weights_[i] * slope[p] * slope[q];
      }
    }
    for (std::size_t p = 0; p < n; ++p) {
      normal_[p][p] += options_.hold;
      gradient_[p] += options_.hold * (at[p] - start_[p]);
    }
  }

  /// One damped step, cut off at the bounds; empty when there is none.
  [[nodiscard]] Vector stepped(const Vector& at, double damping) const {
    std::vector<Vector> matrix = normal_;
    for (std::size_t p = 0; p < at.size(); ++p) matrix[p][p] *= 1 + damping;
    Vector step = gradient_;
    if (!solve(std::move(matrix), step)) return {};
    Vector next = at;
    for (std::size_t p = 0; p < at.size(); ++p) next[p] = std::clamp(at[p] - step[p], 0.0, 1.0);
    return next;
  }

  std::span<const FitSample> samples_;
  const DeviceSpec& device_;
  const FitOptions options_;
  const Vector start_;
  std::int64_t kernels_ = 0;
  Vector weights_;
  std::vector<Vector> normal_;  ///< lower half
  Vector gradient_;
};

}  // namespace

Result<ConstantFit> fit_constants(std::span<const FitSample> samples, const DeviceSpec& device,
                                  const FitOptions& options) {
  if (samples.empty()) return make_error(ErrorKind::invalid_argument, "fitting constants: no measured candidate");
  for (const FitSample& sample : samples) {
    if (!(std::isfinite(sample.measured_us) && sample.measured_us > 0))
      return make_error(ErrorKind::invalid_argument, "fitting constants: {} is no time", sample.measured_us);
  }
  return Fit(samples, device, options).run();
}

nlohmann::json to_document(const ConstantFit& fit) {
  nlohmann::json changed = nlohmann::json::array();
  for (const FittedConstant& each : fit.changed) {
    changed.push_back({{"name", std::string(each.name)},
                       {"before", each.before},
                       {"after", each.after},
                       {"at_bound", each.at_bound}});
  }
  return {
      {"constants", to_document(fit.constants)}, {"changed", std::move(changed)}, {"error_before", fit.error_before},
      {"error_after", fit.error_after},          {"samples", fit.samples},        {"kernels", fit.kernels}};
}

}  // namespace stitch::costmodel
