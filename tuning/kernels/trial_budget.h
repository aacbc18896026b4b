#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stitch::tuning {

/// Shares trials among kernels by what they may gain: each next batch goes to the largest gain ÷ (batches it has + 1),
/// D'Hondt's method of highest averages, so that shares are in proportion to the gains and nobody gets less than a
/// batch. Equal ones in their order; what gains nothing gets nothing. The last batch may be smaller. Gives the trials
/// of each, whose sum is `trials` unless nothing gains anything.
std::vector<std::int64_t> share_trials(std::span<const double> gains, std::int64_t trials, std::int64_t batch);

}  // namespace stitch::tuning
