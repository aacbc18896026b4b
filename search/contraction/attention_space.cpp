#include "search/contraction/attention_space.h"

#include <algorithm>

#include "kernel/contraction/contraction_shape.h"

namespace stitch::search {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionSchedule;

constexpr int most_key_stages = 4, most_warps_of_block = 8;
/// Of an SM: small blocks hide one another's waits.
constexpr int most_warps_of_sm = 16, most_blocks = 16;
/// Blocks for each SM that splitting may make.
constexpr std::int64_t split_blocks = 16;

class AttentionSpace {
 public:
  AttentionSpace(const AttentionProblem& problem, const DeviceSpec& device, const ContractionSpaceOptions& options,
                 const AttentionVisit& visit)
      : problem_(problem), device_(device), options_(options), visit_(visit) {}

  void walk(kernel::ContractionInstruction instruction) {
    AttentionSchedule s;
    s.instruction = instruction;
    for (s.block_rows = 16; s.block_rows <= 128; s.block_rows *= 2) {
      if (s.block_rows > 16 && s.block_rows / 2 >= problem_.rows()) break;
      for (s.block_keys = 16; s.block_keys <= 128; s.block_keys *= 2) {
        if (s.block_keys > 16 && s.block_keys / 2 >= problem_.keys()) break;
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
      if (s.block_rows / s.warp_rows > most_warps_of_block) continue;
      s.stages = s.split = s.blocks_per_sm = 1;
      kernel::fit_accesses(problem_, s);
      if (!kernel::check_legality(problem_, s, device_)) continue;
      const std::int64_t tiles = kernel::shape_of(problem_, s).tiles;
      for (s.split = 1; s.split <= most_split(); s.split *= 2) {
        if (s.split > 1 && tiles * s.split > split_blocks * device_.sm_count) break;
        of_split(s, walk);
      }
    }
  }

  void of_split(AttentionSchedule s, const kernel::KeyWalk& walk) const {
    const bool none = options_.ablation == PipelineAblation::no_pipelining;
    const int stages = none ? 1 : options_.ablation == PipelineAblation::two_stages ? 2 : most_key_stages;
    const int warps = s.block_rows / s.warp_rows;
    for (const int blocks : {1, 2, 3, 4, 6, 8, 12, most_blocks}) {
      if (blocks > 4 && blocks * warps > most_warps_of_sm) break;
      s.blocks_per_sm = blocks;
      for (s.stages = 1; s.stages <= stages; ++s.stages) {
        if (!kernel::check_legality(problem_, s, device_)) break;  // more stages need more of everything
        visit_(s, walk);
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
  const auto instruction = kernel::instruction_for(problem, device);
  if (instruction) AttentionSpace(problem, device, options, visit).walk(*instruction);
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
  const auto plain = std::ranges::find(best, false, [](const RankedAttention& each) { return each.schedule.skips; });
  const auto kept = std::min<std::ptrdiff_t>(std::ssize(best), static_cast<std::ptrdiff_t>(options.count));
  if (plain != best.end() && plain - best.begin() >= kept && kept > 1) best[kept - 1] = *plain;
  best.resize(kept);
  return ranked;
}

}  // namespace stitch::search
