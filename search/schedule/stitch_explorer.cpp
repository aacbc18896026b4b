#include "search/schedule/stitch_explorer.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "kernel/index/axes.h"
#include "kernel/loop/row_split.h"
#include "kernel/loop/step_builder.h"
#include "kernel/program/legality.h"
#include "kernel/program/schedule_hash.h"
#include "kernel/program/slab_choice.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/items.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/ahead_choice.h"
#include "search/schedule/equals_of_best.h"
#include "search/schedule/fixed_rows.h"
#include "search/schedule/kernel_assembly.h"
#include "search/schedule/leaderboard.h"
#include "search/schedule/structure_choice.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::NodeId;

/// Waiting for so many phases is worth looking at in any case.
constexpr int few_phases = 8;

/// Blocks, clusters and numbers of partial results that are tried of a structure.
struct BlockChoices {
  std::vector<int> threads;
  std::vector<int> clusters = {1};
  std::vector<std::int64_t> partial_tiles = {1};
};

/// Whether a structure breaks a rule whatever its mappings are: a packed kernel with too many parameters is seen before
/// its hundreds of groups are mapped. The structure is taken apart meanwhile, and left as it was.
Status check_without_mappings(kernel::KernelStructure& structure, const DeviceSpec& device) {
  kernel::KernelProgram program;
  program.blocks = 1;
  for (kernel::PhaseStructure& phase : structure.phases) {
    program.phases.emplace_back();
    for (kernel::GroupStructure& group : phase.groups)
      program.phases.back().groups.emplace_back().structure = std::move(group);
  }
  Status legal = kernel::check_legality(program, device);
  for (std::size_t p = 0; p < structure.phases.size(); ++p) {
    for (std::size_t g = 0; g < structure.phases[p].groups.size(); ++g)
      structure.phases[p].groups[g] = std::move(program.phases[p].groups[g].structure);
  }
  return legal;
}

std::size_t group_count(const kernel::KernelStructure& structure) {
  std::size_t groups = 0;
  for (const kernel::PhaseStructure& phase : structure.phases) groups += phase.groups.size();
  return groups;
}

bool has_partials(const kernel::KernelStructure& structure) {
  return std::ranges::any_of(structure.phases, [](const kernel::PhaseStructure& phase) {
    return std::ranges::any_of(phase.groups, &kernel::GroupStructure::has_partials);
  });
}

/// Whether what a row of a group reads, and what it adds to for each of its elements, is more than a block's shared
/// memory holds (nor its registers, which are about as many bytes), so that only a cluster reads it once.
bool outgrows_block(const kernel::GroupStructure& group, const DeviceSpec& device) {
  kernel::AxisSet row;
  for (const kernel::Anchor& anchor : group.anchors) {
    if (anchor.kind == kernel::Anchor::Kind::reduce) row |= anchor.reduced;
  }
  std::int64_t bytes = 0;
  for (const kernel::Item& item : group.program->items()) {
    if (item.kind == kernel::Item::Kind::load)
      bytes += group.program->axes().elements(item.axes & row) * kernel::held_bytes(item);
  }
  for (const kernel::Anchor& anchor : group.anchors) {
    const kernel::AxisSet sums = (anchor.axes & row) - anchor.reduced;
    if (anchor.kind != kernel::Anchor::Kind::partial || sums.empty()) continue;
    for (const kernel::ItemId item : anchor.items)
      bytes += group.program->axes().elements(sums) * kernel::held_bytes(group.program->items()[item]);
  }
  return group.sweep_count > 1 && bytes > device.shared_per_block;
}

/// Whether several phases may be run by clusters that wait for one another: the first is one group, whose rows outgrow
/// a block. What stands behind it finishes sums over the rows, which clusters do as well as blocks.
bool suits_clusters(const kernel::KernelStructure& structure, const DeviceSpec& device) {
  return structure.phases[0].groups.size() == 1 && outgrows_block(structure.phases[0].groups[0], device);
}

/// The largest number of mappings per group whose combinations are no more than wanted.
int mappings_per_group(std::size_t groups, int combinations) {
  int width = 1;
  while (groups > 0 && std::pow(width + 1, groups) <= combinations) ++width;
  return width;
}

Status check_stop(const StitchOptions& options) {
  if (!options.stop.stop_requested()) return {};
  return make_error(ErrorKind::cancelled, "stopped while schedules were explored");
}

/// Explores one graph: structure by structure, block by block.
class StitchExplorer : AssembledKernels {
 public:
  /// `step`: what a turn of a recurrent kernel computes is what is explored, as its graph; null of any other kernel.
  StitchExplorer(const Graph& graph, std::shared_ptr<const kernel::RecurrentStep> step, const Scorer& scorer,
                 const StitchOptions& options, const kernel::Slabs& slabs = {})
      : graph_(graph),
        step_(std::move(step)),
        scorer_(scorer),
        options_(options),
        slabs_(slabs),
        analysis_(graph, slabs),
        ranker_(graph, step_, scorer),
        board_(graph, options.keep, options.sample),
        loops_(graph, std::max(options.looks_ahead, 1), 0) {}

  Result<ScheduleSpace> explore() {
    if (slabs_.count > 1 && analysis_.slab_axis() < 0)
      return make_error(ErrorKind::constraint, "dimension {} of %{} has no {} slabs", slabs_.dimension,
                        slabs_.value.node, slabs_.count);
    // A block of a recurrent kernel is alone with its rows: every reduction ends in its tile.
    const std::vector<kernel::StructureOptions> choices =
        step_ != nullptr ? std::vector<kernel::StructureOptions>{{reduced_axes(graph_, analysis_), {}}}
                         : structure_choices(graph_, analysis_);
    std::vector<std::optional<Result<kernel::KernelStructure>>> structures = derived_together(choices);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      STITCH_TRY(check_stop(options_));
      const kernel::StructureOptions& choice = choices[i];
      if (is_hopeless(choice)) continue;
      Result<kernel::KernelStructure> structure = structures[i] ? std::move(*structures[i]) : derived(choice);
      structures[i].reset();
      if (!structure) {
        last_error_ = structure.error();
        continue;
      }
      // In one phase every tile is on chip as it is.
      if (slabs_.count > 1 && structure->phases.size() == 1) continue;
      if (structure->phases.empty()) return make_error(ErrorKind::constraint, "the kernel stores nothing");
      if (const Status possible = check_without_mappings(*structure, scorer_.device()); possible)
        explore_structure(*structure, choice);
      else
        last_error_ = possible.error();
      if (board_.empty())
        reasons_ += fmt::format("{}{} axes in a tile, {} phases: {}", reasons_.empty() ? "" : "; ",
                                choice.tile_axes.size(), structure->phases.size(), last_error_.message);
    }
    STITCH_TRY(check_stop(options_));
    if (board_.empty())
      return make_error(last_error_.kind, "no legal schedule ({})", reasons_.empty() ? last_error_.message : reasons_);
    look_ahead();
    ScheduleSpace space = board_.collect();
    space.whole = whole_;
    return space;
  }

  /// The best kernel of several phases that was found of those which may have slabs; it may retain something.
  [[nodiscard]] const std::optional<kernel::KernelProgram>& phased() const { return phased_; }

 private:
  [[nodiscard]] Result<kernel::KernelStructure> derived(kernel::StructureOptions options) const {
    options.stop = options_.stop;
    if (step_ != nullptr) {
      options.stored_first = step_->stored_first;
      options.lasting_inputs = step_->lasting_inputs();
    }
    return kernel::derive_structure(graph_, analysis_, options);
  }

  /// Of a large kernel all structures are derived side by side; the others one by one when their turn comes.
  [[nodiscard]] std::vector<std::optional<Result<kernel::KernelStructure>>> derived_together(
      const std::vector<kernel::StructureOptions>& choices) const {
    constexpr graph::NodeId large = 512;
    std::vector<std::optional<Result<kernel::KernelStructure>>> structures(choices.size());
    if (graph_.size() < large) return structures;
    tbb::parallel_for(std::size_t{0}, choices.size(), [&](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      if (least_phases(graph_, analysis_, choices[i]) <= few_phases) structures[i].emplace(derived(choices[i]));
    });
    return structures;
  }

  /// Whether so many reductions in a row, each of which the whole grid waits for, take longer than what was found
  /// already. Deriving a structure takes time in proportion to its operators and to its phases: a chain of norms has
  /// hundreds of both.
  [[nodiscard]] bool is_hopeless(const kernel::StructureOptions& choice) const {
    if (options_.wide || !board_.full()) return false;
    const int phases = least_phases(graph_, analysis_, choice);
    return phases > few_phases && phases * scorer_.device().grid_barrier_us > board_.last_us();
  }

  [[nodiscard]] BlockChoices block_choices(const kernel::KernelStructure& structure) const {
    BlockChoices choices;
    const std::int64_t sms = scorer_.device().sm_count;
    const std::size_t groups = group_count(structure);
    const bool wide = options_.wide, clusters = scorer_.device().has_clusters();
    const bool partials = has_partials(structure);
    if (partials && wide) choices.partial_tiles = {sms / 4, sms / 2, sms, 2 * sms, 4 * sms};
    if (partials && !wide) choices.partial_tiles = {sms / 2, sms, 2 * sms};
    if (step_ != nullptr) {
      choices.threads = {32, 64, 128, 256, 512, 1024};
      if (clusters) choices.clusters = wide ? std::vector{1, 2, 4, 8} : std::vector{1, 4, 8};
      return choices;
    }
    choices.threads = wide ? std::vector{64, 128, 256, 512, 1024} : std::vector{128, 256, 512, 1024};
    if (clusters && groups == 1 && structure.phases[0].groups[0].sweep_count > 1) choices.clusters = {1, 2, 4, 8};
    if (clusters && groups > 1 && suits_clusters(structure, scorer_.device())) choices.clusters = {1, 2, 4, 8};
    if (groups > 8 && !wide && !graph_.constraints.batch_invariant) {
      // Many packed groups: what suits one of them hardly moves the sum, and exploring them costs in proportion.
      choices.threads = {256};
      if (partials) choices.partial_tiles = {sms};
    }
    return choices;
  }

  void explore_structure(const kernel::KernelStructure& structure, const kernel::StructureOptions& choice) {
    ranker_.forget_groups();
    const BlockChoices blocks = block_choices(structure);
    const int width = mappings_per_group(group_count(structure), options_.combinations);
    for (const int threads : blocks.threads) {
      for (const int cluster : blocks.clusters) {
        for (const std::int64_t tiles : blocks.partial_tiles) {
          if (options_.stop.stop_requested()) return;
          kernel::Schedule base;
          base.tile_axes = choice.tile_axes;
          base.gathered = choice.gathered;
          base.slabs = slabs_;
          base.threads = threads;
          base.cluster = cluster;
          MappingSpaceOptions space;
          space.threads = threads;
          space.cluster = cluster;
          space.partial_tiles = std::max<std::int64_t>(1, tiles / cluster);
          space.wide = options_.wide;
          space.loads_ahead = options_.loads_ahead;
          space.one_tile = step_ != nullptr;
          KernelAssembly(structure, std::move(base), space, width, step_, scorer_, ranker_, *this).assemble();
        }
      }
    }
  }

  /// Enters the best schedules once more, with their loads a turn ahead.
  void look_ahead() {
    if (options_.loads_ahead) return;  // they are there
    const auto predict = [&](const kernel::KernelProgram& program) -> std::optional<double> {
      if (!kernel::check_legality(program, scorer_.device())) return std::nullopt;
      return scorer_.predict_us(graph_, program);
    };
    std::vector<kernel::KernelProgram> found;
    for (const StitchCandidate* candidate : loops_.best(options_.looks_ahead)) {
      if (auto ahead = with_loads_ahead(candidate->program, candidate->predicted_us, predict))
        found.push_back(std::move(*ahead));
    }
    for (const kernel::KernelProgram& program : found) consider(program);
  }

  // ---- what is assembled ------------------------------------------------------------------------------------

  void consider(const kernel::KernelProgram& program) override {
    const Hash128 hash = kernel::schedule_hash(program.schedule);
    if (!board_.is_new(hash)) return;
    if (const Status legal = kernel::check_legality(program, scorer_.device()); !legal) {
      last_error_ = legal.error();
      return;
    }
    // A phase that follows another's mapping has none of its own choice.
    if (graph_.constraints.batch_invariant && !keeps_rows_fixed(program)) {
      last_error_ = make_error(ErrorKind::constraint, "a row's sum would depend on the number of rows");
      return;
    }
    const double us = scorer_.predict_us(graph_, program);
    // A packed kernel of hundreds of groups is not copied for nothing, nor any whose slabs nobody asks for.
    const bool several = step_ == nullptr && slabs_.count == 1 && program.phases.size() > 1;
    if (several && (!phased_ || us < phased_us_) && kernel::keeps_an_axis(program)) {
      phased_ = program;
      phased_us_ = us;
    }
    board_.enter(hash, program, us);
    if (options_.looks_ahead > 0 && has_loops(program)) loops_.enter(hash, program, us);
  }
  void refuse(const Error& why) override { last_error_ = why; }
  void leave_out() override { whole_ = false; }

  const Graph& graph_;
  const std::shared_ptr<const kernel::RecurrentStep> step_;
  const Scorer& scorer_;
  const StitchOptions& options_;
  const kernel::Slabs slabs_;
  kernel::AxisAnalysis analysis_;
  GroupRanker ranker_;
  Leaderboard board_;
  Leaderboard loops_;  ///< of schedules with loops, whose loads may be made turns ahead
  bool whole_ = true;  ///< every combination of mappings was looked at
  std::optional<kernel::KernelProgram> phased_;
  double phased_us_ = 0;
  std::string reasons_;  ///< why each structure failed
  Error last_error_ = make_error(ErrorKind::constraint, "no schedule was found");
};

/// Puts the schedules of `more` among those of `all`, best prediction first.
void merge(std::vector<StitchCandidate>& all, std::vector<StitchCandidate> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  std::ranges::stable_sort(all, {}, &StitchCandidate::predicted_us);
}

void keep_first(std::vector<StitchCandidate>& all, int most) {
  if (std::ssize(all) > most) all.resize(most);
}

/// Of schedules in order of prediction, puts first what is taken of the equals of the best.
void put_taken_first(const Graph& graph, std::vector<StitchCandidate>& candidates) {
  EqualsOfBest<std::size_t> equals;
  for (std::size_t i = 0; i < candidates.size() && equals.admits(candidates[i].predicted_us); ++i)
    equals.enter(candidates[i].predicted_us, kernel::scheduled_bytes(graph, candidates[i].program), i);
  if (equals.empty()) return;
  const auto first = candidates.begin(), taken = first + static_cast<std::ptrdiff_t>(equals.taken());
  std::rotate(first, taken, taken + 1);
}

void add(const Graph& graph, ScheduleSpace& space, ScheduleSpace more, const StitchOptions& options) {
  merge(space.candidates, std::move(more.candidates));
  put_taken_first(graph, space.candidates);
  keep_first(space.candidates, options.keep);
  merge(space.others, std::move(more.others));
  keep_first(space.others, options.sample);
  space.legal += more.legal;
  space.whole = space.whole && more.whole;
}

/// Whether tensor cores may have something to multiply: sums, and parameters of 16-bit floats.
bool suits_tensor_cores(const Graph& turn, const DeviceSpec& device) {
  if (device.tensor.f16 == 0 || turn.constraints.batch_invariant) return false;
  bool sums = false, narrow = false;
  for (const graph::Node& node : turn.nodes()) {
    sums = sums || node.op == graph::Op::reduce;
    if (node.op != graph::Op::parameter) continue;
    narrow = narrow || node.type().dtype == graph::DType::f16 || node.type().dtype == graph::DType::bf16;
  }
  return sums && narrow;
}

/// Whether so many rows a block are worth looking at beside fewer. More than it takes to have a block on every fourth
/// SM only leave SMs idle; but for tensor cores eight rows are as much work as one, and a cluster that shares the
/// weights is several blocks.
bool suits_rows(const kernel::RecurrentStep& step, const DeviceSpec& device) {
  std::int64_t blocks = step.blocks;
  if (step.rows >= kernel::StateProducts::least_rows && suits_tensor_cores(step.graph, device)) {
    if (step.rows == kernel::StateProducts::least_rows) return true;
    blocks *= std::max(device.max_cluster_blocks, 1);
  }
  return blocks * 4 >= device.sm_count;
}

/// The schedules of a loop's turn, for several numbers of rows a block.
Result<ScheduleSpace> explore_recurrent(const Graph& graph, NodeId loop, const Scorer& scorer,
                                        const StitchOptions& options) {
  constexpr std::int64_t most_rows = 1024;
  STITCH_ASSIGN(const kernel::RowSplit split, kernel::split_rows(graph, loop));
  std::optional<ScheduleSpace> space;
  std::optional<Error> error;
  for (std::int64_t rows = 1; rows <= most_rows && split.rows % rows == 0; rows *= 2) {
    const Result<std::shared_ptr<const kernel::RecurrentStep>> step = kernel::recurrent_step(graph, loop, split, rows);
    if (!step) {
      if (!error) error = step.error();
      break;
    }
    if (space && !suits_rows(**step, scorer.device())) continue;
    Result<ScheduleSpace> found = StitchExplorer((*step)->graph, *step, scorer, options).explore();
    if (!found) {
      if (!error) error = found.error();
      continue;
    }
    if (!space) space.emplace();
    add(graph, *space, std::move(*found), options);
  }
  STITCH_TRY(check_stop(options));
  if (!space) return *error;
  // A kernel that runs for longer can be neither verified nor stopped in reasonable time.
  constexpr double most_us = 50'000;
  if (const double us = space->candidates.front().predicted_us; us > most_us)
    return make_error(ErrorKind::constraint, "a loop of {:.0f} us in one kernel, at most {:.0f}", us, most_us);
  return std::move(*space);
}

}  // namespace

Result<ScheduleSpace> explore_space(const Graph& graph, const Scorer& scorer, const StitchOptions& options) {
  if (const auto loop = kernel::recurrent_loop(graph)) return explore_recurrent(graph, *loop, scorer, options);
  StitchExplorer explorer(graph, nullptr, scorer, options);
  STITCH_ASSIGN(ScheduleSpace space, explorer.explore());
  if (!explorer.phased()) return space;
  const bool reads_once =
      kernel::scheduled_bytes(graph, space.candidates.front().program) <= kernel::kernel_bytes(graph);
  if (reads_once) return space;
  for (const kernel::Slabs& slabs : kernel::slab_options(graph, *explorer.phased(), scorer.device())) {
    Result<ScheduleSpace> found = StitchExplorer(graph, nullptr, scorer, options, slabs).explore();
    if (found) add(graph, space, std::move(*found), options);
  }
  STITCH_TRY(check_stop(options));  // what was left out must not be taken for what there is
  return space;
}

Result<std::vector<StitchCandidate>> explore_stitches(const Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options) {
  STITCH_ASSIGN(ScheduleSpace found, explore_space(graph, scorer, options));
  return std::move(found.candidates);
}

}  // namespace stitch::search
