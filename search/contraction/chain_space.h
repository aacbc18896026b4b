#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/attention/chain_schedule.h"
#include "search/contraction/contraction_space.h"

namespace stitch::search {

/// Calls `visit` once for each legal schedule of a chain of products, with its walk: tiles of rows and columns, rows of
/// a warp, stages, blocks of an SM, by `mma.sync` and by `wgmma`. Ablations of pipelining leave out what they leave out
/// of contractions.
using ChainVisit = std::function<void(const kernel::ChainSchedule&, const kernel::KeyWalk&)>;
void for_each_chain(const kernel::ProductChain& chain, const DeviceSpec& device, const ContractionSpaceOptions& options,
                    const ChainVisit& visit);

struct RankedChain {
  kernel::ChainSchedule schedule;
  double predicted_us = 0;
};
struct RankedChains {
  std::vector<RankedChain> best;  ///< by prediction; equal ones in the order of the space
  std::int64_t enumerated = 0;    ///< legal schedules that were priced
};

/// The schedules of least predicted time, µs. Where there are two instructions, the best by the other one is among the
/// first three. Errors: unsupported (no instruction takes all products' types); constraint (none is legal, with the
/// rule that the default breaks).
Result<RankedChains> best_chains(
    const kernel::ProductChain& chain, const DeviceSpec& device,
    const std::function<double(const kernel::ChainSchedule&, const kernel::KeyWalk&)>& predict,
    const ContractionSpaceOptions& options = {});

}  // namespace stitch::search
