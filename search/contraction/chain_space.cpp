#include "search/contraction/chain_space.h"

#include <algorithm>
#include <array>

namespace stitch::search {
namespace {

using kernel::ChainSchedule;
using kernel::ProductChain;

constexpr int most_chain_stages = 3, most_chain_warps = 8;
constexpr std::array chain_tiles = {16, 32, 64, 128};

}  // namespace

void for_each_chain(const ProductChain& chain, const DeviceSpec& device, const ContractionSpaceOptions& options,
                    const ChainVisit& visit) {
  const auto instruction = kernel::instruction_for(chain, device);
  if (!instruction) return;
  const bool none = options.ablation == PipelineAblation::no_pipelining;
  const int most = none ? 1 : options.ablation == PipelineAblation::two_stages ? 2 : most_chain_stages;
  ChainSchedule s;
  s.instruction = *instruction;
  for (const int rows : chain_tiles) {
    if (rows > 16 && rows / 2 >= chain.rows()) break;
    for (const int columns : chain_tiles) {
      if (columns > 16 && columns / 2 >= chain.columns()) break;
      s.block_rows = rows;
      s.block_columns = columns;
      std::optional<kernel::KeyWalk> walk;  // of tiles alone: looked for where one is legal
      for (s.warp_rows = 16; s.warp_rows <= std::min(32, rows); s.warp_rows *= 2) {
        if (rows / s.warp_rows > most_chain_warps) continue;
        for (const int blocks : {1, 2, 3, 4, 6, 8}) {
          s.blocks_per_sm = blocks;
          for (s.stages = 1; s.stages <= most; ++s.stages) {
            if (!kernel::check_legality(chain, s, device)) break;  // more stages need more of everything
            if (!walk) walk = kernel::chain_walk(chain, s);
            visit(s, *walk);
          }
        }
      }
    }
  }
}

Result<RankedChains> best_chains(const ProductChain& chain, const DeviceSpec& device,
                                 const std::function<double(const ChainSchedule&, const kernel::KeyWalk&)>& predict,
                                 const ContractionSpaceOptions& options) {
  RankedChains ranked;
  std::vector<RankedChain>& best = ranked.best;
  for_each_chain(chain, device, options, [&](const ChainSchedule& schedule, const kernel::KeyWalk& walk) {
    ++ranked.enumerated;
    best.push_back({schedule, predict(schedule, walk)});
  });
  if (best.empty()) {
    STITCH_ASSIGN(const ChainSchedule schedule, kernel::default_schedule(chain, device));
    best.push_back({schedule, predict(schedule, kernel::chain_walk(chain, schedule))});
  }
  std::ranges::stable_sort(best, {}, &RankedChain::predicted_us);
  best.resize(std::min(best.size(), options.count));
  return ranked;
}

}  // namespace stitch::search
