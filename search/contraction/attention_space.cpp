#include "search/contraction/attention_space.h"

#include <algorithm>
#include <array>

#include "kernel/contraction/contraction_shape.h"

namespace stitch::search {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionSchedule;

constexpr int most_key_stages = 4, most_warps_of_block = 8;
/// Of wgmma, whose turns are long.
constexpr int most_stages_together = 3, least_keys = 16, least_keys_together = 64;
/// Warpgroups that hide one another's softmax: up to four.
constexpr int most_warps_together = 16;
constexpr std::array rows_of_warps = {16, 32, 64, 128}, rows_of_warpgroups = {64, 128, 192, 256};
/// Of an SM: small blocks hide one another's waits.
constexpr int most_warps_of_sm = 16, most_blocks = 16;
/// Blocks for each SM that splitting may make.
constexpr std::int64_t split_blocks = 16;
/// Where the best schedule by another instruction is at the latest: among those that are tried, since nothing that is
/// measured says yet which of them is faster.
constexpr std::ptrdiff_t tried_place = 2;

class AttentionSpace {
 public:
  AttentionSpace(const AttentionProblem& problem, const DeviceSpec& device, const ContractionSpaceOptions& options,
                 const AttentionVisit& visit)
      : problem_(problem), device_(device), options_(options), visit_(visit) {}

  void walk(kernel::ContractionInstruction instruction) {
    const bool together = is_warpgroup(instruction);
    AttentionSchedule s;
    s.instruction = instruction;
    for (const int rows : together ? rows_of_warpgroups : rows_of_warps) {
      if (rows / 2 >= problem_.rows() && rows > (together ? 64 : 16)) break;
      s.block_rows = rows;
      const int least = together ? least_keys_together : least_keys;
      for (s.block_keys = least; s.block_keys <= 128; s.block_keys *= 2) {
        if (s.block_keys > least && s.block_keys / 2 >= problem_.keys()) break;
        s.skips = true;
        const kernel::KeyWalk walk = kernel::key_walk(problem_, s);
        of_tile(s, walk);
        if (!walk.below && !walk.above) continue;
        s.skips = false;
        of_tile(s, {});
      }
    }
  }

 private:
  /// A row's keys are split further than a product's depth: of few rows there is nothing else to run side by side.
  [[nodiscard]] int most_split() const { return options_.most_split == 1 ? 1 : 4 * options_.most_split; }

  void of_tile(AttentionSchedule s, const kernel::KeyWalk& walk) const {
    for (s.warp_rows = 16; s.warp_rows <= std::min(32, s.block_rows); s.warp_rows *= 2) {
      const bool together = is_warpgroup(s.instruction);
      if (s.block_rows / s.warp_rows > (together ? most_warps_together : most_warps_of_block)) continue;
      s.split = s.blocks_per_sm = 1;
      s.stages = least_stages(s);
      kernel::fit_accesses(problem_, s);
      if (!kernel::check_legality(problem_, s, device_)) continue;
      const std::int64_t tiles = kernel::shape_of(problem_, s).tiles;
      for (s.split = 1; s.split <= most_split(); s.split *= 2) {
        if (s.split > 1 && tiles * s.split > split_blocks * device_.sm_count) break;
        of_split(s, walk);
      }
    }
  }

  [[nodiscard]] static int least_stages(const AttentionSchedule& s) { return is_warpgroup(s.instruction) ? 2 : 1; }

  void of_split(AttentionSchedule s, const kernel::KeyWalk& walk) const {
    const bool none = options_.ablation == PipelineAblation::no_pipelining;
    const int most = is_warpgroup(s.instruction) ? most_stages_together : most_key_stages;
    const int stages = none ? 1 : options_.ablation == PipelineAblation::two_stages ? 2 : most;
    const int warps = s.block_rows / s.warp_rows;
    for (const int blocks : {1, 2, 3, 4, 6, 8, 12, most_blocks}) {
      if (blocks > 4 && blocks * warps > most_warps_of_sm) break;
      s.blocks_per_sm = blocks;
      for (const bool overlaps : {false, true}) {
        s.overlaps = overlaps;
        for (s.stages = least_stages(s); s.stages <= stages; ++s.stages) {
          if (!kernel::check_legality(problem_, s, device_)) break;  // more stages need more of everything
          visit_(s, walk);
        }
      }
    }
  }

  const AttentionProblem& problem_;
  const DeviceSpec& device_;
  const ContractionSpaceOptions& options_;
  const AttentionVisit& visit_;
};

}  // namespace

void for_each_attention(const AttentionProblem& problem, const DeviceSpec& device,
                        const ContractionSpaceOptions& options, const AttentionVisit& visit) {
  AttentionSpace space(problem, device, options, visit);
  if (const auto instruction = kernel::instruction_for(problem, device)) space.walk(*instruction);
  if (!options.warpgroups) return;
  if (const auto together = kernel::warpgroup_instruction_for(problem, device)) space.walk(*together);
}

Result<RankedAttentions> best_attentions(
    const AttentionProblem& problem, const DeviceSpec& device,
    const std::function<double(const AttentionSchedule&, const kernel::KeyWalk&)>& predict,
    const ContractionSpaceOptions& options) {
  RankedAttentions ranked;
  std::vector<RankedAttention>& best = ranked.best;
  for_each_attention(problem, device, options, [&](const AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
    ++ranked.enumerated;
    best.push_back({schedule, predict(schedule, walk)});
  });
  if (best.empty()) {
    STITCH_ASSIGN(const AttentionSchedule schedule, kernel::default_schedule(problem, device));
    best.push_back({schedule, predict(schedule, kernel::key_walk(problem, schedule))});
  }
  std::ranges::stable_sort(best, {}, &RankedAttention::predicted_us);
  const auto kept = std::min<std::ptrdiff_t>(std::ssize(best), static_cast<std::ptrdiff_t>(options.count));
  bring_forward(best, tried_place, [&](const RankedAttention& each) {
    return each.schedule.instruction != best.front().schedule.instruction;
  });
  bring_forward(best, kept - 1, [](const RankedAttention& each) { return !each.schedule.skips; });
  best.resize(kept);
  return ranked;
}

}  // namespace stitch::search
