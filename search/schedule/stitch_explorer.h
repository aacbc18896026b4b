#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "search/schedule/schedule_space.h"
#include "search/schedule/scorer.h"

namespace stitch::search {

struct StitchOptions {
  int keep = 1;       ///< candidates returned, best prediction first
  bool wide = false;  ///< enumerate broadly (tuning), or only the usual choices (planning)
  int sample = 0;     ///< and as many of the others
  /// How many combinations of the groups' mappings are tried under one choice of tile axes, block, cluster and number
  /// of partial results. 1: every group's best mapping by itself, which is all that tuning looks at.
  int combinations = 1;
};

/// The stitch explorer. Enumerates the schedules of one kernel: which reductions end inside a tile (tile axes), block
/// size, cluster size, the number of partial results, and per group the mappings that are legal alone, best prediction
/// first. Of several groups as many mappings each are combined as make no more than `combinations`. Every candidate
/// passes the legality table. The result depends on nothing but the arguments. The candidates' programs refer to
/// `graph`, which must outlive them. Fails with kind constraint when nothing is legal.
Result<ScheduleSpace> explore_space(const graph::Graph& graph, const Scorer& scorer, const StitchOptions& options);

/// The best candidates of that space alone.
Result<std::vector<StitchCandidate>> explore_stitches(const graph::Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options);

}  // namespace stitch::search
