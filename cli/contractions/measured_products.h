#pragma once

#include <vector>

#include "cli/contractions/problem_file.h"
#include "cli/session.h"

namespace stitch::cli {

struct MeasuredProductsOptions {
  CommonOptions common;  ///< its device verifies, and measures where it can
  int best = 6;          ///< schedules from the best prediction on
  int ranks = 0;         ///< and those at every doubling of the place behind them, up to this one
  double seconds = 0;    ///< no further problem is begun after them; 0: no limit
  /// And, of each problem right behind its best ones, `best` schedules without these parts of pipelining.
  std::vector<search::PipelineAblation> without = {};
};

/// Builds, verifies and measures several schedules of every problem, and prints a line of JSON for each as soon as it
/// is through: `name`, `problem`, `place` in the ranking, `schedule` (hash), `what` (problem and instruction), `runs`
/// (the schedule in words), `predicted_us`, `library_us` (predicted for the library), `resources` as the compiler has
/// them; of a right one `worst` (error ÷ bound), `share` that was compared, and where it was measured `measured_us`
/// (median; `sectors` of the emulated device), `noise` and `samples` (how many); of another `failure` and `error`, its
/// kind; of one that does without a part of pipelining `without`, the part (its place is among such schedules). A
/// problem without a kernel of ours is a line with `failure` and `error` alone. Exit status: failure if a
/// schedule was wrong, interrupted. Errors: those of Session::open and of the device.
Result<ExitCode> measure_products(const std::vector<NamedProblem>& problems, const MeasuredProductsOptions& options);

}  // namespace stitch::cli
