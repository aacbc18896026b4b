#include "search/contraction/chain_space.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace stitch::search {
namespace {

using kernel::ChainSchedule;
using kernel::ProductChain;

constexpr int most_chain_stages = 3, most_chain_warps = 8, most_chain_warps_together = 12;
constexpr std::array chain_tiles = {16, 32, 64, 128};
constexpr std::array chain_tiles_together = {64, 128, 192};
constexpr int least_chain_tile = 16, least_chain_tile_together = 32;
/// Where the best schedule by another instruction is at the latest: nothing that was measured says yet which is faster.
constexpr std::ptrdiff_t tried_chain = 2;

class ChainSpace {
 public:
  ChainSpace(const ProductChain& chain, const DeviceSpec& device, const ContractionSpaceOptions& options,
             const ChainVisit& visit)
      : chain_(chain), device_(device), options_(options), visit_(visit) {}

  void walk(kernel::ContractionInstruction instruction) const {
    const bool together = is_warpgroup(instruction);
    ChainSchedule s;
    s.instruction = instruction;
    const std::span<const int> rows = together ? std::span<const int>(chain_tiles_together) : chain_tiles;
    for (const int each : rows) {
      if (each > rows.front() && each / 2 >= chain_.rows()) break;
      s.block_rows = each;
      const int least = together ? least_chain_tile_together : least_chain_tile;
      for (s.block_columns = least; s.block_columns <= chain_tiles.back(); s.block_columns *= 2) {
        if (s.block_columns > least && s.block_columns / 2 >= chain_.columns()) break;
        of_tile(s);
      }
    }
  }

 private:
  void of_tile(ChainSchedule s) const {
    const bool together = is_warpgroup(s.instruction), none = options_.ablation == PipelineAblation::no_pipelining;
    const int least = together ? 2 : 1;
    const int most = none ? 1 : options_.ablation == PipelineAblation::two_stages ? 2 : most_chain_stages;
    std::optional<kernel::KeyWalk> walk;  // of tiles alone: looked for where one is legal
    for (s.warp_rows = 16; s.warp_rows <= std::min(together ? 16 : 32, s.block_rows); s.warp_rows *= 2) {
      if (s.block_rows / s.warp_rows > (together ? most_chain_warps_together : most_chain_warps)) continue;
      for (const int blocks : {1, 2, 3, 4, 6, 8}) {
        s.blocks_per_sm = blocks;
        for (s.stages = least; s.stages <= most; ++s.stages) {
          if (!kernel::check_legality(chain_, s, device_)) break;  // more stages need more of everything
          if (!walk) walk = kernel::chain_walk(chain_, s);
          visit_(s, *walk);
        }
      }
    }
  }

  const ProductChain& chain_;
  const DeviceSpec& device_;
  const ContractionSpaceOptions& options_;
  const ChainVisit& visit_;
};

}  // namespace

void for_each_chain(const ProductChain& chain, const DeviceSpec& device, const ContractionSpaceOptions& options,
                    const ChainVisit& visit) {
  const ChainSpace space(chain, device, options, visit);
  if (const auto instruction = kernel::instruction_for(chain, device)) space.walk(*instruction);
  if (!options.warpgroups) return;
  if (const auto together = kernel::warpgroup_instruction_for(chain, device)) space.walk(*together);
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
  bring_forward(best, tried_chain, [&](const RankedChain& each) {
    return each.schedule.instruction != best.front().schedule.instruction;
  });
  best.resize(std::min(best.size(), options.count));
  return ranked;
}

}  // namespace stitch::search
