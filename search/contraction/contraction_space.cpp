#include "search/contraction/contraction_space.h"

#include <algorithm>
#include <array>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/realigned_copy.h"
#include "kernel/program/legality.h"
#include "search/schedule/equals_of_best.h"

namespace stitch::search {
namespace {

using kernel::ContractionInstruction;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr int most_stages = 6, most_blocks_of_sm = 4, most_warps = 16;
constexpr int most_cluster = 2, most_tensor_stages = 12, column_step = 16, widest_tile = 256;
constexpr int most_streamed_rounds = 8, least_streamed_turns = 4;

/// Powers of two up to the first that covers the extent.
std::vector<int> tiles_of(std::int64_t extent, int smallest, int largest) {
  std::vector<int> tiles;
  for (int tile = smallest; tile <= largest; tile *= 2) {
    tiles.push_back(tile);
    if (tile >= extent) break;
  }
  return tiles;
}

class Space {
 public:
  Space(const ContractionProblem& problem, const DeviceSpec& device, const ContractionSpaceOptions& options,
        const std::function<void(const ContractionSchedule&)>& visit)
      : problem_(problem), device_(device), options_(options), visit_(visit) {
    const bool left = kernel::widest_access(problem.left) < kernel::realigned_bytes,
               right = kernel::widest_access(problem.right) < kernel::realigned_bytes;
    if (left) realigned_.emplace_back(true, false);
    if (right) realigned_.emplace_back(false, true);
    if (left && right) realigned_.emplace_back(true, true);
  }

  void walk() {
    walk(kernel::instruction_for(problem_, device_));
    // Not everywhere are three products of TF32 or bf16 faster than one of f32.
    if (kernel::types_of(problem_).f32 != graph::F32Arithmetic::f32) walk(ContractionInstruction::cuda_core);
    if (!options_.warpgroups) return;
    if (const auto apart = kernel::tensor_memory_instruction_for(problem_, device_); apart && has_tensor_copies())
      walk_tensor_memory(*apart);
    if (const auto together = kernel::warpgroup_instruction_for(problem_, device_)) {
      walk(*together);
      if (has_tensor_copies()) walk_tensor_copies(*together);
    }
  }

 private:
  /// Their stages are as many as fit: to leave some out would be another kernel.
  [[nodiscard]] bool has_tensor_copies() const {
    const bool all = options_.ablation == PipelineAblation::none || options_.ablation == PipelineAblation::one_level;
    return all && problem_.computed.empty();
  }

  void walk(ContractionInstruction instruction) {
    ContractionSchedule s;
    s.instruction = instruction;
    s.group = 8;
    const bool cores = s.instruction == ContractionInstruction::cuda_core;
    const int largest = graph::byte_size(problem_.accumulator) == 8 ? 128 : 256;
    const int size = std::max(graph::byte_size(problem_.left.dtype), graph::byte_size(problem_.right.dtype));
    for (const int rows : tiles_of(problem_.rows, 16, largest)) {
      for (const int columns : tiles_of(kernel::most_columns(problem_), 16, largest)) {
        if (!problem_.row_reductions.empty() && columns * std::max(1, device_.max_cluster_blocks) < problem_.columns)
          continue;
        for (const int depth : tiles_of(problem_.contracted, std::max(16, 64 / size), std::max(16, 128 / size))) {
          s.block_rows = rows;
          s.block_columns = columns;
          s.block_depth = depth;
          for (const int warp_rows : tiles_of(rows, 16, cores ? 64 : 128)) {
            for (const int warp_columns : tiles_of(columns, 16, cores ? 64 : is_warpgroup(instruction) ? 256 : 128)) {
              s.warp_rows = warp_rows;
              s.warp_columns = warp_columns;
              of_warps(s);
            }
          }
        }
      }
    }
  }

  void of_warps(ContractionSchedule s) {
    if (s.block_rows / s.warp_rows * (s.block_columns / s.warp_columns) > most_warps) return;
    if (s.instruction != ContractionInstruction::cuda_core) return of_tile(s);
    for (const int lanes_down : {4, 8}) {
      s.thread_rows = s.warp_rows / lanes_down;
      s.thread_columns = s.warp_columns / (32 / lanes_down);
      of_tile(s);
    }
  }

  [[nodiscard]] static int least_stages(const ContractionSchedule& s) { return is_warpgroup(s.instruction) ? 3 : 1; }

  /// Before stages are asked for: most tiles are illegal for a reason that they have nothing to do with.
  void of_tile(ContractionSchedule s) {
    s.stages = least_stages(s);
    s.fragment_stages = s.split = s.blocks_per_sm = 1;
    kernel::fit_accesses(problem_, s);
    of_copies(s);
    // Copies narrower than a word may instead be made of two.
    for (const auto& [left, right] : realigned_) {
      const ContractionSchedule other = kernel::realigned(problem_, s, left, right);
      if (other.left_realigned == left && other.right_realigned == right) of_copies(other);
    }
  }

  void of_copies(ContractionSchedule s) {
    if (!kernel::check_legality(problem_, s, device_)) return;
    const std::int64_t tiles = kernel::shape_of(problem_, s).tiles;
    for (s.split = 1; s.split <= options_.most_split; s.split *= 2) {
      if (s.split > 1 && tiles * s.split > 4 * static_cast<std::int64_t>(device_.sm_count)) break;
      of_split(s);
    }
  }

  void of_split(ContractionSchedule s) {
    const bool none = options_.ablation == PipelineAblation::no_pipelining;
    const bool one = none || options_.ablation == PipelineAblation::one_level;
    const int stages = none ? 1 : options_.ablation == PipelineAblation::two_stages ? 2 : most_stages;
    for (s.blocks_per_sm = 1; s.blocks_per_sm <= most_blocks_of_sm; ++s.blocks_per_sm) {
      for (s.fragment_stages = 1; s.fragment_stages <= (one || is_warpgroup(s.instruction) ? 1 : 2);
           ++s.fragment_stages) {
        for (s.stages = least_stages(s); s.stages <= stages; ++s.stages) {
          if (!kernel::check_legality(problem_, s, device_)) break;  // more stages need more of everything
          visit_(s);
          visit_streamed(s);
        }
      }
    }
  }

  /// The same with the turns of all tiles beyond whole rounds shared evenly, where not all rounds are whole, not so
  /// many that the last one hardly counts, and tiles have turns to share.
  void visit_streamed(ContractionSchedule s) {
    if (s.split != 1 || options_.most_split == 1) return;
    const kernel::ContractionShape shape = kernel::shape_of(problem_, s);
    if (shape.depth_tiles < least_streamed_turns) return;
    s.streamed = s.blocks_per_sm * device_.sm_count;  // which are resident together: registers are kept within that
    if (shape.tiles % s.streamed == 0 || shape.tiles > most_streamed_rounds * s.streamed) return;
    // A block multiplies for longer than its first tiles take to come.
    if (shape.tiles * shape.depth_tiles < std::int64_t{2} * s.stages * s.streamed) return;
    if (kernel::check_legality(problem_, s, device_)) visit_(s);
  }

  /// By the copy engine: lines of 128 bytes.
  [[nodiscard]] ContractionSchedule by_copy_engine(ContractionInstruction instruction) const {
    ContractionSchedule s;
    s.instruction = instruction;
    s.tensor_copies = true;
    s.thread_rows = s.thread_columns = 0;
    s.group = 8;
    s.block_depth = 128 / graph::byte_size(problem_.left.dtype);
    return s;
  }

  /// Whole warpgroups of rows, any 16 columns.
  void walk_tensor_copies(ContractionInstruction instruction) {
    constexpr int group_rows = 64, most_rows = 256, most_groups = 4;
    ContractionSchedule s = by_copy_engine(instruction);
    for (s.block_rows = group_rows; s.block_rows <= most_rows; s.block_rows += group_rows) {
      for (s.block_columns = column_step; s.block_columns <= widest_tile; s.block_columns += column_step) {
        for (s.warp_rows = column_step; s.warp_rows <= 2 * column_step; s.warp_rows *= 2) {
          for (const int across : {1, 2}) {
            s.warp_columns = s.block_columns / across;
            const int groups = s.block_rows / (4 * s.warp_rows) * across;
            if (groups >= 1 && groups <= most_groups) of_tensor_tile(s);
          }
        }
        if (s.block_columns >= kernel::most_columns(problem_)) break;
      }
      if (s.block_rows >= problem_.rows) break;
    }
  }

  /// Of 128 rows a warp takes sums of 32, and all or half of their columns, one part after the other.
  void walk_tensor_memory(ContractionInstruction instruction) {
    ContractionSchedule s = by_copy_engine(instruction);
    s.warp_rows = info(instruction).rows;
    for (s.block_rows = kernel::tensor_memory_lanes; s.block_rows <= 2 * kernel::tensor_memory_lanes;
         s.block_rows += kernel::tensor_memory_lanes) {
      for (s.block_columns = column_step; s.block_columns <= widest_tile; s.block_columns += column_step) {
        for (const int across : {1, 2}) {
          s.warp_columns = s.block_columns / across;
          of_tensor_tile(s);
        }
        if (s.block_columns >= kernel::most_columns(problem_)) break;
      }
      if (s.block_rows >= problem_.rows) break;
    }
  }

  /// Blocks below one another share what both multiply, or multiply together.
  void of_tensor_tile(ContractionSchedule s) {
    const int clusters = problem_.row_reductions.empty() ? most_cluster : 1;
    for (s.cluster = 1; s.cluster <= clusters; s.cluster *= 2) {
      s.paired = false;
      of_cluster(s);
      s.paired = true;
      if (in_tensor_memory(s.instruction) && s.cluster == 2) of_pairs(s);
    }
  }

  /// One a cluster, or two, which share their columns.
  void of_pairs(ContractionSchedule s) {
    for (; s.cluster <= 2 * most_cluster; s.cluster *= 2) of_cluster(s);
  }

  /// With as many stages as fit, and as many blocks as there is room for, or tiles.
  void of_cluster(ContractionSchedule s) {
    for (s.blocks_per_sm = 1; s.blocks_per_sm <= most_blocks_of_sm; ++s.blocks_per_sm) {
      s.resident = 0;
      kernel::fit_accesses(problem_, s);
      const int together = s.cluster * s.row_blocks;
      const std::int64_t room = kernel::blocks_in_clusters(together, s.blocks_per_sm, device_);
      const std::int64_t most = std::min(room, kernel::shape_of(problem_, s).blocks);
      s.resident = static_cast<int>(most / together * together);
      s.stages = most_tensor_stages;
      while (s.stages > 3 && !kernel::check_legality(problem_, s, device_)) --s.stages;
      if (!kernel::check_legality(problem_, s, device_)) break;
      visit_(s);
      if (kernel::shape_of(problem_, s).blocks <= room) break;  // there is a block for every tile
    }
  }

  const ContractionProblem& problem_;
  const DeviceSpec& device_;
  const ContractionSpaceOptions& options_;
  const std::function<void(const ContractionSchedule&)>& visit_;
  std::vector<std::pair<bool, bool>> realigned_;  ///< which operands may be, left and right
};

constexpr std::array ablations = {std::pair{PipelineAblation::none, std::string_view("none")},
                                  std::pair{PipelineAblation::two_stages, std::string_view("two-stages")},
                                  std::pair{PipelineAblation::one_level, std::string_view("one-level")},
                                  std::pair{PipelineAblation::no_pipelining, std::string_view("no-pipelining")}};

/// The pipeline model does not know of what delays single loads, which a tile more on its way hides: predictions that
/// are so near are taken for equal, and of equal ones such that have three stages, or one for every turn.
constexpr int enough_stages = 3;
constexpr double few_stages = 1.02;

/// By how much more than its prediction a schedule is thought to take.
double doubt_of(const ContractionProblem& problem, const ContractionSchedule& s) {
  if (s.stages >= enough_stages) return 1;
  const std::int64_t turns = kernel::divided_up(kernel::depth_tiles(problem, s.block_depth), s.split);
  return s.stages >= turns ? 1 : few_stages;
}

/// By prediction and doubt, which is asked once of each: a space has tens of thousands.
void sort_by_prediction(std::vector<RankedContraction>& best, const ContractionProblem& problem) {
  std::vector<std::pair<double, std::size_t>> order;  // of equal ones the first stays first
  order.reserve(best.size());
  for (const RankedContraction& each : best) {
    order.emplace_back(each.predicted_us * doubt_of(problem, each.schedule), order.size());
  }
  std::ranges::sort(order);
  std::vector<RankedContraction> sorted;
  sorted.reserve(best.size());
  for (const auto& [us, at] : order) sorted.push_back(std::move(best[at]));
  best = std::move(sorted);
}

/// Bytes of operands that all blocks ask for, of which L2 has most: those of a tile's rows and columns, along the
/// depth.
double asked_bytes(const ContractionProblem& problem, const ContractionSchedule& s) {
  const double rows = static_cast<double>(s.block_rows) * graph::byte_size(problem.left.dtype);
  const double columns = static_cast<double>(s.block_columns) * graph::byte_size(problem.right.dtype) / s.cluster;
  const double depth =
      static_cast<double>(kernel::depth_tiles(problem, s.block_depth)) * static_cast<double>(s.block_depth);
  return static_cast<double>(kernel::shape_of(problem, s).tiles) * depth * (rows + columns);
}

/// Share of a prediction from which on asking L2 for operands is not far from what bounds it.
constexpr double pressing = 0.5;

/// Where L2 is pressed the first becomes, of those equal to it, that which asks for the least bytes: small tiles of
/// equal prediction are slower wherever L2 or power has less than the model thinks.
void prefer_fewer_bytes(std::vector<RankedContraction>& best, const ContractionProblem& problem,
                        const DeviceSpec& device) {
  const RankedContraction& first = best.front();
  if (asked_bytes(problem, first.schedule) / device.l2_bandwidth * 1e6 < pressing * first.predicted_us) return;
  const double doubt = doubt_of(problem, first.schedule), most = first.predicted_us * doubt * (1 + equal_within);
  const auto last = std::ranges::find_if(
      best, [&](const RankedContraction& each) { return each.predicted_us * doubt_of(problem, each.schedule) > most; });
  const auto least = std::ranges::min_element(best.begin(), last, {}, [&](const RankedContraction& each) {
    const bool doubtful = doubt_of(problem, each.schedule) > doubt;
    return std::pair(doubtful, each.predicted_us * asked_bytes(problem, each.schedule));
  });
  std::rotate(best.begin(), least, least + 1);
}

/// The best one without tensor copies comes among those that are built first: compilers before CUDA 12.3 have no
/// others.
void keep_without_tensor_copies(std::vector<RankedContraction>& best) {
  constexpr std::ptrdiff_t last = 3;
  bring_forward(best, last, [](const RankedContraction& each) { return !each.schedule.tensor_copies; });
}

/// By bounds of which the greatest is known only behind the last: what is far below one of those before is not priced,
/// what is far below one behind it is left out then.
class Pruning {
 public:
  Pruning(double share, const std::function<double(const ContractionSchedule&)>& bound)
      : share_(bound ? share : 0), bound_(bound) {}

  bool keeps(const ContractionSchedule& schedule) {
    if (share_ == 0) return true;
    const double own = bound_(schedule);
    greatest_ = std::max(greatest_, own);
    if (own < share_ * greatest_) return false;
    kept_.push_back(own);
    return true;
  }

  /// `best`: all that were kept, in their order.
  void leave_kept(std::vector<RankedContraction>& best) const {
    if (share_ == 0) return;
    std::size_t left = 0;
    for (std::size_t at = 0; at < kept_.size(); ++at) {
      if (kept_[at] >= share_ * greatest_) best[left++] = best[at];
    }
    best.resize(left);
  }

 private:
  double share_, greatest_ = 0;
  const std::function<double(const ContractionSchedule&)>& bound_;
  std::vector<double> kept_;
};

}  // namespace

std::string_view to_string(PipelineAblation ablation) {
  return std::ranges::find(ablations, ablation, &std::pair<PipelineAblation, std::string_view>::first)->second;
}

std::optional<PipelineAblation> ablation_from_name(std::string_view name) {
  for (const auto& [ablation, its_name] : ablations) {
    if (its_name == name) return ablation;
  }
  return std::nullopt;
}

void for_each_contraction(const ContractionProblem& problem, const DeviceSpec& device,
                          const ContractionSpaceOptions& options,
                          const std::function<void(const ContractionSchedule&)>& visit) {
  Space(problem, device, options, visit).walk();
}

Result<RankedContractions> best_contractions(const ContractionProblem& problem, const DeviceSpec& device,
                                             const std::function<double(const ContractionSchedule&)>& predict,
                                             const ContractionSpaceOptions& options,
                                             const std::function<double(const ContractionSchedule&)>& bound) {
  RankedContractions ranked;
  std::vector<RankedContraction>& best = ranked.best;
  Pruning pruning(options.least_bound, bound);
  for_each_contraction(problem, device, options, [&](const ContractionSchedule& schedule) {
    ++ranked.enumerated;
    if (pruning.keeps(schedule)) best.push_back({schedule, predict(schedule)});
  });
  pruning.leave_kept(best);
  ranked.pruned = ranked.enumerated - std::ssize(best);
  if (best.empty()) {
    STITCH_ASSIGN(const ContractionSchedule schedule, kernel::default_schedule(problem, device));
    best.push_back({schedule, predict(schedule)});
  }
  sort_by_prediction(best, problem);
  prefer_fewer_bytes(best, problem, device);
  keep_without_tensor_copies(best);
  if (best.size() > options.count) best.resize(options.count);
  for (RankedContraction& each : best) {
    if (!problem.row_reductions.empty()) break;  // tiles of a row follow one another
    for (const int group : {1, 2, 4, 16}) {
      ContractionSchedule other = each.schedule;
      other.group = group;
      const double us = predict(other);
      if (us < each.predicted_us) each = {other, us};
    }
  }
  sort_by_prediction(best, problem);
  prefer_fewer_bytes(best, problem, device);
  keep_without_tensor_copies(best);
  return ranked;
}

}  // namespace stitch::search
