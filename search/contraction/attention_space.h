#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/attention/visible_keys.h"
#include "search/contraction/contraction_space.h"

namespace stitch::search {

/// Calls `visit` once for each legal schedule of an attention, with its walk over keys: tiles of rows and keys, rows of
/// a warp, stages, splits of the keys where tiles are few, blocks of an SM, by `mma.sync` and by `wgmma`. Copies and
/// stores are the widest there are. Ablations of pipelining leave out what they leave out of contractions.
using AttentionVisit = std::function<void(const kernel::AttentionSchedule&, const kernel::KeyWalk&)>;
void for_each_attention(const kernel::AttentionProblem& problem, const DeviceSpec& device,
                        const ContractionSpaceOptions& options, const AttentionVisit& visit);

struct RankedAttention {
  kernel::AttentionSchedule schedule;
  double predicted_us = 0;
};
struct RankedAttentions {
  std::vector<RankedAttention> best;  ///< by prediction; equal ones in the order of the space
  std::int64_t enumerated = 0;        ///< legal schedules that were priced
};

/// The schedules of least predicted time, µs. Where there are two instructions, the best by the other one is among the
/// first three; where these skip hidden keys the last one is the best that walks all of them. Errors: unsupported (no
/// instruction takes both products' types); constraint (none is legal, with the rule that the default breaks).
Result<RankedAttentions> best_attentions(
    const kernel::AttentionProblem& problem, const DeviceSpec& device,
    const std::function<double(const kernel::AttentionSchedule&, const kernel::KeyWalk&)>& predict,
    const ContractionSpaceOptions& options = {});

}  // namespace stitch::search
