#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "search/scorer.h"
#include "search/stitch_explorer.h"

namespace stitch::search {

struct SpaceOptions {
  int keep = 1;       ///< candidates returned, best prediction first
  int sample = 0;     ///< and as many of the others
  bool wide = false;  ///< enumerate broadly, or only the usual choices
  /// How many combinations of the groups' mappings are tried under one choice of tile axes, block, cluster and number
  /// of partial results. 1: every group's best mapping by itself, which is all that tuning looks at.
  int combinations = 1;
};

/// The legal schedules of one kernel.
struct ScheduleSpace {
  std::vector<StitchCandidate> candidates;  ///< distinct, best prediction first; at least one
  std::vector<StitchCandidate> others;      ///< a uniform sample of the rest (least hashes), best prediction first
  std::int64_t legal = 0;                   ///< how many were found, those beyond both included
  bool whole = true;                        ///< every combination of mappings was looked at
};

/// Enumerates schedules: which reductions end inside a tile (tile axes), block size, cluster size, the number of
/// partial results, and per group the mappings that are legal alone, best prediction first. Of several groups as many
/// mappings each are combined as make no more than `combinations`. Every candidate passes the legality table. The
/// result depends on nothing but the arguments. The candidates' programs refer to `graph`, which must outlive them.
/// Fails with kind constraint when nothing is legal.
Result<ScheduleSpace> explore_space(const graph::Graph& graph, const Scorer& scorer, const SpaceOptions& options);

}  // namespace stitch::search
