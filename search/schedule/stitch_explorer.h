#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "search/schedule/schedule_space.h"
#include "search/schedule/scorer.h"

namespace stitch::search {

/// How much is looked at, and how much of it is returned.
struct StitchOptions {
  int keep = 1;       ///< candidates returned, best prediction first
  bool wide = false;  ///< enumerate broadly (tuning), or only the usual choices (planning)
  /// Of so many of the best schedules with loops, whether they are kept or not, also the same with loads turns ahead,
  /// where that is predicted to be clearly faster (search/schedule/ahead_choice.h).
  int looks_ahead = 12;
  /// Try every mapping that loops with loads a turn ahead, too: which ones there are, not which one is fastest.
  bool loads_ahead = false;
  int sample = 0;  ///< how many of the others are returned too
  /// KernelCache also explores long rows' maxima and sums of exponentials as one reduction
  /// (kernel/rewrite/online_softmax.h), and keeps what is predicted to be clearly faster.
  bool join_max_and_exp_sums = true;
  /// The same of scatters with their updates sorted (kernel/rewrite/sorted_updates.h).
  bool sort_updates = true;
  /// The same of scans over long lines tile by tile (kernel/rewrite/tiled_scan.h).
  bool tile_scans = true;
  /// How many combinations of the groups' mappings are tried under one choice of tile axes, block, cluster and number
  /// of partial results. 1: every group's best mapping by itself, which is all that tuning looks at.
  int combinations = 1;
  std::stop_token stop = {};  ///< looked at before each structure and each size of blocks; error then: cancelled
};

/// The stitch explorer: from one kernel graph to its best schedules. What is chosen, from the outside in, and where:
///
///   structure_choice   which reductions end inside a tile (tile axes), and so what the phases are
///   here               block size, cluster size, the number of partial results
///   group_ranking      per group the mappings (mapping_space) that are legal alone, best prediction first
///   kernel_assembly    of several groups as many mappings each as make no more than `combinations`, together
///   phase_syncs        how blocks cross from phase to phase
///   leaderboard        what is kept of all that
///   ahead_choice       the best of these with loads a turn ahead
///
/// KernelCache asks it for every kernel that the fusion explorer thinks of (with the usual choices), and tuning for the
/// space of a kernel that is worth measuring (`wide`). Every candidate passes the legality table. The result depends on
/// nothing but the arguments. The candidates' programs refer to `graph`, which must outlive them. Fails with kind
/// constraint when nothing is legal.
Result<ScheduleSpace> explore_space(const graph::Graph& graph, const Scorer& scorer, const StitchOptions& options);

/// The best candidates of that space alone.
Result<std::vector<StitchCandidate>> explore_stitches(const graph::Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options);

}  // namespace stitch::search
