#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "search/program.h"
#include "search/scorer.h"

namespace stitch::search {

struct StitchOptions {
  int keep = 1;       ///< candidates returned, best first
  bool wide = false;  ///< enumerate broadly (tuning) or only the usual choices (planning)
};

struct StitchCandidate {
  Schedule schedule;
  KernelProgram program;
  double predicted_us = 0;
};

/// The stitch explorer: schedules for one kernel graph, ranked by the scorer. Which reductions end inside a tile
/// (tile axes), block size, cluster size and the number of partial results are tried; per group the best mapping under
/// them; every candidate passes the legality table. Fails with kind constraint when nothing is legal.
/// The candidates' programs refer to `graph`, which must outlive them.
Result<std::vector<StitchCandidate>> explore_stitches(const graph::Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options);

}  // namespace stitch::search
