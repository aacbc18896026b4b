#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/boosted_trees.h"
#include "costmodel/training_sample.h"

// From samples, sorted by kernel and device, to what trees are trained on. A sample with what its compiler said enters
// twice, the second time without: candidates are ranked before any is compiled.
namespace stitch::costmodel {

/// Whether any kernel has two measured candidates on one device.
bool can_train(std::span<const TrainingSample* const> samples);

/// Whose order of a kernel's candidates the trees learn.
enum class Opinion : std::uint8_t { analytical, measured };

/// For ranking: groups of one kernel on one device, the fastest with the highest label. By measurements, those that
/// failed are behind all others, and what was not tried is left out.
TreeSamples ranking_rows(std::span<const TrainingSample* const> samples, Opinion opinion);

/// How far a kernel's times are off the analytical ones beyond what trees explain: ln(measured / analytical) − trees,
/// median over its measured candidates, drawn towards the median of all kernels where those are few. One per kernel and
/// device, in the order of the samples; `middle` is that median, also of kernels without measurements. With `trees`
/// null, all are the median.
struct KernelLevels {
  std::vector<double> levels;
  double middle = 0;
};
KernelLevels kernel_levels(std::span<const TrainingSample* const> samples, const BoostedTrees* trees);

/// For regression on ln(measured / analytical) less the kernel's level; fast candidates weigh more.
TreeSamples residual_rows(std::span<const TrainingSample* const> samples, const KernelLevels& levels);

}  // namespace stitch::costmodel
