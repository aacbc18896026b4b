#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search/partition/fusion_plan.h"
#include "tuning/kernels/built_kernel.h"
#include "tuning/kernels/kernel_history.h"

namespace stitch::tuning {

/// Candidates of a plan's kernels in the order that measured neighbours give them.
struct NearChoices {
  std::map<Hash128, std::vector<KernelCandidate>> candidates;  ///< by kernel
  std::optional<Hash128> neighbour;  ///< the measured plan that says most; nothing unless all kernels have neighbours

  /// The candidates of a kernel; null when its neighbours say nothing.
  [[nodiscard]] const std::vector<KernelCandidate>* of(const Hash128& kernel) const;
};

/// A plan is as near as the least of its kernels: one that nobody measured anything like makes it a predicted one, and
/// the choices are empty.
NearChoices choose_near(const search::FusionPlan& fusion, const search::Scorer& scorer, const FragmentHistory& history);

}  // namespace stitch::tuning
