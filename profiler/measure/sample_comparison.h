#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "profiler/measure/measurement.h"

namespace stitch::profiler {

enum class Comparison : std::uint8_t { faster, slower, ambiguous };
std::string_view to_string(Comparison comparison);

struct ComparisonOptions {
  double least_effect = 0.02;  ///< medians closer than this share of each other are never told apart
  double confidence = 0.99;    ///< of the intervals of both medians together
};

/// How a challenger's durations compare with an incumbent's.
struct SampleComparison {
  Comparison verdict = Comparison::ambiguous;
  double ratio = 1;          ///< of the medians, challenger ÷ incumbent
  double low = 0, high = 0;  ///< confidence interval of the ratio; high is infinite with too few samples
  std::string unlike;        ///< why the two cannot be compared at all; empty: they can

  /// "0.93 of the incumbent (0.92 … 0.95): faster", or why there is no ratio.
  [[nodiscard]] std::string describe() const;
};

/// Compares the medians of two series of durations by their distribution-free confidence intervals (order statistics:
/// David and Nagaraja, Order Statistics, §7.1), which take any noise: skewed, with outliers, of two modes. Faster only
/// if the whole interval of the ratio lies below 1 and the medians differ by `least_effect`; slower likewise. Fewer
/// than 9 samples of either are always ambiguous at the default confidence. Durations are > 0, in any order and unit.
SampleComparison compare_samples(std::span<const double> incumbent, std::span<const double> challenger,
                                 const ComparisonOptions& options = {});

/// In what two measurements were taken unlike, so that their samples say nothing of each other: times or counts, cold
/// or warm L2, as a CUDA graph or as kernels, by what they were told; "cold L2 and warm L2". Empty: in nothing.
std::string unlike_conditions(const Measurement& one, const Measurement& other);

/// The same of two measurements; ambiguous where they were taken in unlike ways.
SampleComparison compare_measurements(const Measurement& incumbent, const Measurement& challenger,
                                      const ComparisonOptions& options = {});

}  // namespace stitch::profiler
