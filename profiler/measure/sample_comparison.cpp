#include "profiler/measure/sample_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace stitch::profiler {
namespace {

struct MedianInterval {
  double low = 0, median = 0, high = std::numeric_limits<double>::infinity();
};

/// The largest k with P(Binomial(n, 1/2) < k) ≤ tail: the median lies between the k-th smallest and the k-th largest
/// sample, each side failing with at most that probability; 0 when even the extremes are not safe.
std::size_t safe_rank(std::size_t n, double tail) {
  const double log_half = n * std::log(0.5);
  double below = 0;
  for (std::size_t k = 0; k < n / 2; ++k) {
    const double count = n, j = k;
    below += std::exp(std::lgamma(count + 1) - std::lgamma(j + 1) - std::lgamma(count - j + 1) + log_half);
    if (below > tail) return k;
  }
  return n / 2;
}

MedianInterval interval_of(std::span<const double> samples, double tail) {
  MedianInterval interval;
  if (samples.empty()) return interval;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size(), rank = safe_rank(n, tail);
  interval.median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  if (rank > 0) {
    interval.low = sorted[rank - 1];
    interval.high = sorted[n - rank];
  }
  return interval;
}

}  // namespace

std::string_view to_string(Comparison comparison) {
  switch (comparison) {
    case Comparison::faster: return "faster";
    case Comparison::slower: return "slower";
    case Comparison::ambiguous: break;
  }
  return "ambiguous";
}

std::string SampleComparison::describe() const {
  if (!unlike.empty()) return fmt::format("what cannot be compared with the incumbent: {}", unlike);
  if (!std::isfinite(high)) return fmt::format("{:.3f} of the incumbent, too few samples to tell", ratio);
  return fmt::format("{:.3f} of the incumbent ({:.3f} … {:.3f}): {}", ratio, low, high, to_string(verdict));
}

SampleComparison compare_samples(std::span<const double> incumbent, std::span<const double> challenger,
                                 const ComparisonOptions& options) {
  // Two intervals with two sides each share what may go wrong.
  const double tail = (1 - options.confidence) / 4;
  const MedianInterval old = interval_of(incumbent, tail), fresh = interval_of(challenger, tail);
  SampleComparison comparison;
  comparison.high = std::numeric_limits<double>::infinity();
  if (old.median <= 0 || fresh.median <= 0) return comparison;
  comparison.ratio = fresh.median / old.median;
  comparison.low = fresh.low / old.high;
  if (old.low > 0) comparison.high = fresh.high / old.low;
  if (comparison.high < 1 && comparison.ratio <= 1 - options.least_effect) comparison.verdict = Comparison::faster;
  if (comparison.low > 1 && 1 / comparison.ratio <= 1 - options.least_effect) comparison.verdict = Comparison::slower;
  return comparison;
}

std::string unlike_conditions(const Measurement& one, const Measurement& other) {
  const auto both = [](std::string_view a, std::string_view b) { return fmt::format("{} and {}", a, b); };
  const auto l2 = [](const Measurement& of) { return of.cold_l2 ? "cold L2" : "warm L2"; };
  const auto runs = [](const Measurement& of) { return of.cuda_graph ? "a CUDA graph" : "kernels"; };
  if (one.kind != other.kind || one.unit != other.unit) return both(one.unit, other.unit);
  if (one.cold_l2 != other.cold_l2) return both(l2(one), l2(other));
  if (one.cuda_graph != other.cuda_graph) return both(runs(one), runs(other));
  if (one.method != other.method) return both(one.method, other.method);
  return {};
}

SampleComparison compare_measurements(const Measurement& incumbent, const Measurement& challenger,
                                      const ComparisonOptions& options) {
  SampleComparison comparison;
  comparison.unlike = unlike_conditions(incumbent, challenger);
  return comparison.unlike.empty() ? compare_samples(incumbent.samples, challenger.samples, options) : comparison;
}

}  // namespace stitch::profiler
