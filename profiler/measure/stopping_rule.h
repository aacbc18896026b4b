#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stitch::profiler {

/// When to stop taking samples of a kernel's duration. Two ways to be done, as in nvbench's "stdrel" criterion
/// (NVIDIA/nvbench, detail/stdrel_criterion): the noise is below what is asked for, or the noise no longer changes, so
/// that more samples would tell nothing new. Two bounds end everything else.
struct StoppingOptions {
  int min_samples = 12;
  int max_samples = 2000;
  double min_time_us = 2000;     ///< of device time in all samples together
  double max_time_us = 2000000;  ///< since sampling began, by the host's clock: flushes, launches and pauses included
  double relative_deviation = 0.005;  ///< noise at or below it is precise
  int stable_window = 24;             ///< samples over which noise and median must keep still to be stable
  double stable_noise = 0.05;         ///< how far the noise may wander in the window, relative to itself
  double stable_median = 0.005;       ///< how far the median may wander in the window, relative to itself

  bool operator==(const StoppingOptions&) const = default;
};

enum class Verdict : std::uint8_t {
  go_on,
  precise,         ///< noise ≤ relative_deviation
  stable,          ///< noise is larger, but it and the median kept still over the window
  out_of_samples,  ///< max_samples
  out_of_time,     ///< max_time_us
};
std::string_view to_string(Verdict verdict);

/// The middle sample, or the mean of the two middle ones; 0 for none.
double median_of(std::span<const double> samples);

/// Standard deviation (n − 1) over the mean, both of the samples without the smallest and the largest twentieth (one
/// of each from 10 samples on): what an interrupt or a late clock change does to a few samples is no noise of the
/// kernel. 0 for fewer than two samples.
double trimmed_deviation(std::span<const double> samples);

/// Judges a series of samples while it grows; knows no clock and no device.
class StoppingRule {
 public:
  explicit StoppingRule(StoppingOptions options = {}) : options_(options) {}

  /// A duration, µs; ≥ 0.
  void add(double sample_us);

  /// `elapsed_us`: host time since sampling began. Precise and stable are never said before min_samples and
  /// min_time_us; out_of_time and out_of_samples are, so that sampling ends in any case.
  [[nodiscard]] Verdict verdict(double elapsed_us) const;

  [[nodiscard]] std::span<const double> samples() const { return samples_; }
  [[nodiscard]] double noise() const { return history_.empty() ? 0 : history_.back().noise; }  ///< trimmed_deviation
  [[nodiscard]] double median() const { return history_.empty() ? 0 : history_.back().median; }

 private:
  [[nodiscard]] bool keeps_still() const;

  struct State {
    double noise = 0;
    double median = 0;
  };
  StoppingOptions options_;
  std::vector<double> samples_;
  std::vector<State> history_;  ///< after each sample
  double total_us_ = 0;
};

}  // namespace stitch::profiler
