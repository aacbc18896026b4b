#include "profiler/measure/stopping_rule.h"

#include <algorithm>
#include <cmath>

namespace stitch::profiler {
namespace {

/// (largest − smallest) ÷ smallest; infinite when only the smallest is zero.
double relative_spread(double smallest, double largest) {
  if (largest == smallest) return 0;
  return (largest - smallest) / smallest;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::go_on: return "not stopped";
    case Verdict::precise: return "precise";
    case Verdict::stable: return "stable noise";
    case Verdict::out_of_samples: return "sample limit";
    case Verdict::out_of_time: return "time limit";
  }
  return "unknown";
}

double median_of(std::span<const double> samples) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  const auto middle = sorted.begin() + sorted.size() / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(sorted.begin(), middle)) / 2;
}

double trimmed_deviation(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t cut = sorted.size() < 10 ? 0 : std::max<std::size_t>(1, sorted.size() / 20);
  const std::span<const double> kept = std::span<const double>(sorted).subspan(cut, sorted.size() - 2 * cut);
  if (kept.size() < 2) return 0;
  const double count = kept.size();
  double mean = 0, squares = 0;
  for (const double sample : kept) mean += sample / count;
  for (const double sample : kept) squares += (sample - mean) * (sample - mean);
  return mean == 0 ? 0 : std::sqrt(squares / (count - 1)) / mean;
}

void StoppingRule::add(double sample_us) {
  samples_.push_back(sample_us);
  total_us_ += sample_us;
  history_.push_back({trimmed_deviation(samples_), median_of(samples_)});
}

Verdict StoppingRule::verdict(double elapsed_us) const {
  const int count = samples_.size();
  if (count >= options_.min_samples && total_us_ >= options_.min_time_us) {
    if (noise() <= options_.relative_deviation) return Verdict::precise;
    if (keeps_still()) return Verdict::stable;
  }
  if (count >= options_.max_samples) return Verdict::out_of_samples;
  if (elapsed_us >= options_.max_time_us) return Verdict::out_of_time;
  return Verdict::go_on;
}

bool StoppingRule::keeps_still() const {
  const std::size_t window = std::max(2, options_.stable_window);
  // As many samples before the window as in it: what is cumulative moves slowly at the end of a short series anyway.
  if (history_.size() < 2 * window) return false;
  State low = history_.back(), high = low;
  for (std::size_t i = history_.size() - window; i < history_.size(); ++i) {
    low = {std::min(low.noise, history_[i].noise), std::min(low.median, history_[i].median)};
    high = {std::max(high.noise, history_[i].noise), std::max(high.median, history_[i].median)};
  }
  return relative_spread(low.noise, high.noise) <= options_.stable_noise &&
         relative_spread(low.median, high.median) <= options_.stable_median;
}

}  // namespace stitch::profiler
