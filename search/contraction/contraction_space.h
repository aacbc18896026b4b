#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/contraction/contraction_schedule.h"

// Which schedules a contraction may have, and which of them are thought to be fastest. Of f16 4096³ on an A100 there
// are 7,090, ranked in 14 ms, besides those with shared turns:
//
//     const auto best = search::best_contractions(problem, device, [&](const auto& schedule) {
//       return costmodel::contraction_time(problem, schedule, device).total; }, {.count = 32});

namespace stitch::search {

/// What of pipelining a space leaves out: ALCOP's ablations (arXiv 2210.16691 §5.2).
enum class PipelineAblation : std::uint8_t {
  none,
  two_stages,     ///< tiles are loaded one ahead at most: multi-stage left out
  one_level,      ///< shared memory only: multi-level left out
  no_pipelining,  ///< load, wait, multiply
};
std::string_view to_string(PipelineAblation ablation);
std::optional<PipelineAblation> ablation_from_name(std::string_view name);

struct ContractionSpaceOptions {
  PipelineAblation ablation = PipelineAblation::none;
  std::size_t count = 32;  ///< of those that are wanted
  /// Blocks that share a tile's depth; 1: none do, nor turns of several tiles, so that a sum's order does not depend on
  /// the other extents.
  int most_split = 32;
  /// DeepCuts' pruning: what share of the greatest bound so far a schedule's must reach to be priced; 0: all are.
  double least_bound = 0;
  bool warpgroups = true;  ///< also wgmma and tcgen05; false: what multiplies follows from types and device alone
};

/// Calls `visit` once for each legal schedule: tiles of blocks and warps, depth, stages at both levels, splits of the
/// depth where tiles are few, turns shared by all blocks that are resident where tiles make no whole rounds, blocks of
/// an SM. Copies and stores are the widest there are; `group` is 8, since it matters only where all else is decided.
void for_each_contraction(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                          const ContractionSpaceOptions& options,
                          const std::function<void(const kernel::ContractionSchedule&)>& visit);

struct RankedContraction {
  kernel::ContractionSchedule schedule;
  double predicted_us = 0;
};
struct RankedContractions {
  std::vector<RankedContraction> best;  ///< by prediction, within 2 % by stages (3 or more first)
  std::int64_t enumerated = 0;          ///< legal schedules
  std::int64_t pruned = 0;              ///< of those, how many were not priced
};

/// The schedules of least predicted time, µs, with the walk over tiles (`group`) that is best for each. `bound`: what
/// options.least_bound is about, of which more is better. Error: constraint (none is legal, with the rule that the
/// default breaks).
Result<RankedContractions> best_contractions(
    const kernel::ContractionProblem& problem, const DeviceSpec& device,
    const std::function<double(const kernel::ContractionSchedule&)>& predict,
    const ContractionSpaceOptions& options = {},
    const std::function<double(const kernel::ContractionSchedule&)>& bound = {});

/// The first of `best` that `fits` comes to `place`, unless it is before it: what is to be tried whatever is predicted.
/// The best one stays.
template <class Ranked, class Fits>
void bring_forward(std::vector<Ranked>& best, std::ptrdiff_t place, const Fits& fits) {
  if (place < 1) return;
  const auto found = std::ranges::find_if(best, fits);
  if (found == best.end() || found - best.begin() <= place) return;
  std::rotate(best.begin() + place, found, found + 1);
}

}  // namespace stitch::search
