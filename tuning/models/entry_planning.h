#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "search/partition/fusion_plan.h"
#include "search/partition/loop_choice.h"
#include "tuning/models/model_fragments.h"
#include "tuning/plans/progress.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// What the planning of one distinct fragment gave.
struct PlannedEntry {
  std::optional<search::FusionPlan> fused;
  std::optional<search::UnfusedFragment> unfused;
  std::string failure;
};

struct EntryPlanning {
  ProgressSink progress = {};
  double until = 1;           ///< share of the whole that is done when all are planned
  std::stop_token stop = {};  ///< leaves the rest as it is, without a failure
  /// Whether a fragment is to be explored; empty: all are. What it is compared with is planned in any case.
  std::function<bool(const ModelFragments::Entry&)> explores = {};
  std::stop_token explores_until = {};  ///< ends exploring only
};

/// Explores the fragments side by side, the large ones first: the last one to finish should be a small one.
std::vector<PlannedEntry> plan_entries(std::span<const ModelFragments::Entry> entries, const Tuner& tuner,
                                       const EntryPlanning& how);

}  // namespace stitch::tuning
