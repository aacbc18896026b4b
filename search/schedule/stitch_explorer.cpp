#include "search/schedule/stitch_explorer.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "kernel/index/axes.h"
#include "kernel/loop/row_split.h"
#include "kernel/program/group_deriver.h"
#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/retention.h"
#include "kernel/program/schedule_hash.h"
#include "kernel/program/slab_choice.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/group_hash.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::NodeId;

/// A row that a block takes by itself while others take shorter ones keeps the kernel waiting.
constexpr std::int64_t long_row = 1 << 15;  // elements

/// Sets of axes that a tile may hold whole: nothing, all that is reduced and used again, of those the short ones, each
/// reduction's own.
std::vector<std::set<int>> tile_axis_options(const Graph& graph, const kernel::AxisAnalysis& analysis) {
  std::vector<std::set<int>> options;
  const auto offer = [&](const std::set<int>& axes) {
    if (std::find(options.begin(), options.end(), axes) == options.end()) options.push_back(axes);
  };
  const auto uses = graph::users(graph);
  std::set<int> used_again, used_and_long, everything;
  std::vector<std::set<int>> each;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::vector<int> reduced = analysis.reduced(id);
    if (reduced.empty()) continue;
    const std::set<int> own(reduced.begin(), reduced.end());
    everything.insert(own.begin(), own.end());
    if (std::find(each.begin(), each.end(), own) == each.end()) each.push_back(own);
    if (uses[id].empty()) continue;
    used_again.insert(own.begin(), own.end());
    const graph::Node& node = graph.node(id);
    const std::int64_t results = std::max<std::int64_t>(1, node.type().elements());
    if (graph.type(node.operands[0]).elements() / results > long_row) used_and_long.insert(own.begin(), own.end());
  }
  offer(used_again);
  // Tensors of all sizes in one kernel: the small ones end in a block, the large ones in the next phase.
  std::set<int> used_and_short;
  std::ranges::set_difference(used_again, used_and_long, std::inserter(used_and_short, used_and_short.end()));
  offer(used_and_short);
  // With few distinct reductions every one alone is tried; a packed optimizer's hundreds are not.
  if (each.size() <= 4) {
    for (const std::set<int>& own : each) offer(own);
  }
  offer(everything);
  offer({});
  return options;
}

class StitchExplorer {
 public:
  /// `step`: what a turn of a recurrent kernel computes is what is explored, as its graph; null of any other kernel.
  StitchExplorer(const Graph& graph, std::shared_ptr<const kernel::RecurrentStep> step, const Scorer& scorer,
                 const StitchOptions& options, const kernel::Slabs& slabs = {})
      : graph_(graph),
        step_(std::move(step)),
        scorer_(scorer),
        options_(options),
        slabs_(slabs),
        analysis_(graph, slabs) {}

  Result<ScheduleSpace> explore() {
    if (slabs_.count > 1 && analysis_.slab_axis() < 0)
      return make_error(ErrorKind::constraint, "dimension {} of %{} has no {} slabs", slabs_.dimension,
                        slabs_.value.node, slabs_.count);
    // A block of a recurrent kernel is alone with its rows: every reduction ends in its tile.
    const std::vector<kernel::StructureOptions> options =
        step_ != nullptr ? std::vector<kernel::StructureOptions>{{reduced_axes(), {}}}
                         : divisions(tile_axis_options(graph_, analysis_));
    std::vector<std::optional<Result<kernel::KernelStructure>>> structures = derived_together(options);
    for (std::size_t i = 0; i < options.size(); ++i) {
      const kernel::StructureOptions& division = options[i];
      if (is_hopeless(division)) continue;
      Result<kernel::KernelStructure> structure = structures[i] ? std::move(*structures[i]) : derived(division);
      structures[i].reset();
      if (!structure) {
        last_error_ = structure.error();
        continue;
      }
      // In one phase every tile is on chip as it is.
      if (slabs_.count > 1 && structure->phases.size() == 1) continue;
      if (structure->phases.empty()) return make_error(ErrorKind::constraint, "the kernel stores nothing");
      if (const Status possible = check_without_mappings(*structure); possible)
        explore_structure(*structure, division);
      else
        last_error_ = possible.error();
      if (best_.empty())
        reasons_ += fmt::format("{}{} axes in a tile, {} phases: {}", reasons_.empty() ? "" : "; ",
                                division.tile_axes.size(), structure->phases.size(), last_error_.message);
    }
    if (best_.empty())
      return make_error(last_error_.kind, "no legal schedule ({})", reasons_.empty() ? last_error_.message : reasons_);
    return collect();
  }

  /// The best kernel of several phases that was found of those which may have slabs; it may retain something.
  [[nodiscard]] const std::optional<kernel::KernelProgram>& phased() const { return phased_; }

 private:
  /// Each with partial results of every reduction that no tile holds, and with the small ones gathered, if there are.
  [[nodiscard]] std::vector<kernel::StructureOptions> divisions(const std::vector<std::set<int>>& tile_axes) const {
    constexpr std::int64_t small = 1 << 18;  // elements
    std::vector<kernel::StructureOptions> all;
    for (const std::set<int>& axes : tile_axes) {
      kernel::StructureOptions division{axes, {}};
      all.push_back(division);
      division.gathered = small;
      if (kernel::gathers_any(graph_, analysis_, division)) all.push_back(std::move(division));
    }
    return all;
  }

  [[nodiscard]] Result<kernel::KernelStructure> derived(kernel::StructureOptions options) const {
    if (step_ != nullptr) {
      options.stored_first = step_->stored_first;
      options.lasting_inputs = step_->lasting_inputs();
    }
    return kernel::derive_structure(graph_, analysis_, options);
  }

  [[nodiscard]] std::set<int> reduced_axes() const {
    std::set<int> axes;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const std::vector<int> reduced = analysis_.reduced(id);
      axes.insert(reduced.begin(), reduced.end());
    }
    return axes;
  }

  /// Of a large kernel all structures are derived side by side; the others one by one when their turn comes.
  [[nodiscard]] std::vector<std::optional<Result<kernel::KernelStructure>>> derived_together(
      const std::vector<kernel::StructureOptions>& options) const {
    constexpr graph::NodeId large = 512;
    std::vector<std::optional<Result<kernel::KernelStructure>>> structures(options.size());
    if (graph_.size() < large) return structures;
    tbb::parallel_for(std::size_t{0}, options.size(), [&](std::size_t i) {
      if (least_phases(options[i]) <= few_phases) structures[i].emplace(derived(options[i]));
    });
    return structures;
  }

  /// Phases that a structure has at least: reductions over axes that no tile holds, one after the other.
  [[nodiscard]] int least_phases(const kernel::StructureOptions& division) const {
    const auto is_outside = [&](int axis) { return !division.tile_axes.contains(axis); };
    std::vector<int> before(graph_.size(), 0);
    int most = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const graph::Node& node = graph_.node(id);
      int& phases = before[id];
      for (const graph::Value operand : node.operands) phases = std::max(phases, before[operand.node]);
      const bool reduces = node.op == graph::Op::reduce || node.op == graph::Op::arg_reduce;
      // Several that are gathered end in one tile.
      if (reduces && graph_.type(node.operands[0]).elements() > division.gathered) {
        const std::vector<int> axes = analysis_.reduced(id);
        if (std::any_of(axes.begin(), axes.end(), is_outside)) ++phases;
      }
      most = std::max(most, phases);
    }
    return most + 1;
  }

  /// Whether so many reductions in a row, each of which the whole grid waits for, take longer than what was found
  /// already. Deriving a structure takes time in proportion to its operators and to its phases: a chain of norms has
  /// hundreds of both.
  [[nodiscard]] bool is_hopeless(const kernel::StructureOptions& division) const {
    if (options_.wide || best_.size() < static_cast<std::size_t>(options_.keep)) return false;
    const int phases = least_phases(division);
    return phases > few_phases && phases * scorer_.device().grid_barrier_us > best_.rbegin()->first;
  }

  static constexpr int few_phases = 8;

  /// Whether a structure breaks a rule whatever its mappings are: a packed kernel with too many parameters is seen
  /// before its hundreds of groups are mapped.
  Status check_without_mappings(kernel::KernelStructure& structure) const {
    kernel::KernelProgram program;
    program.blocks = 1;
    for (kernel::PhaseStructure& phase : structure.phases) {
      program.phases.emplace_back();
      for (kernel::GroupStructure& group : phase.groups)
        program.phases.back().groups.emplace_back().structure = std::move(group);
    }
    Status legal = kernel::check_legality(program, scorer_.device());
    for (std::size_t p = 0; p < structure.phases.size(); ++p) {
      for (std::size_t g = 0; g < structure.phases[p].groups.size(); ++g)
        structure.phases[p].groups[g] = std::move(program.phases[p].groups[g].structure);
    }
    return legal;
  }

  void explore_structure(const kernel::KernelStructure& structure, const kernel::StructureOptions& division) {
    group_hashes_.clear();
    bool partials = false;
    std::size_t groups = 0;
    for (const kernel::PhaseStructure& phase : structure.phases) {
      groups += phase.groups.size();
      for (const kernel::GroupStructure& group : phase.groups) partials = partials || group.has_partials();
    }
    const std::int64_t sms = scorer_.device().sm_count;
    std::vector<std::int64_t> partial_tiles = {1};
    if (partials)
      partial_tiles = options_.wide ? std::vector<std::int64_t>{sms / 4, sms / 2, sms, 2 * sms, 4 * sms}
                                    : std::vector<std::int64_t>{sms / 2, sms, 2 * sms};
    std::vector<int> clusters = {1};
    if (step_ != nullptr && scorer_.device().has_clusters()) {
      clusters = options_.wide ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 4, 8};
    } else if (step_ == nullptr && groups == 1 && structure.phases[0].groups[0].sweep_count > 1 &&
               scorer_.device().has_clusters())
      clusters = {1, 2, 4, 8};
    std::vector<int> threads =
        options_.wide ? std::vector<int>{64, 128, 256, 512, 1024} : std::vector<int>{128, 256, 512, 1024};
    if (step_ != nullptr) {
      threads = {32, 64, 128, 256, 512, 1024};
    } else if (groups > 8 && !options_.wide) {
      // Many packed groups: what suits one of them hardly moves the sum, and exploring them costs in proportion.
      threads = {256};
      if (partials) partial_tiles = {sms};
    }
    for (const int block : threads) {
      for (const int cluster : clusters) {
        for (const std::int64_t tiles : partial_tiles) {
          kernel::Schedule base;
          base.tile_axes = division.tile_axes;
          base.gathered = division.gathered;
          base.slabs = slabs_;
          base.threads = block;
          base.cluster = cluster;
          assemble(structure, base, tiles);
        }
      }
    }
  }

  /// Combines mappings of the groups, phase by phase, under one choice of everything else.
  void assemble(const kernel::KernelStructure& structure, const kernel::Schedule& schedule,
                std::int64_t partial_tiles) {
    std::size_t groups = 0;
    for (const kernel::PhaseStructure& phase : structure.phases) groups += phase.groups.size();
    // The largest number of mappings per group whose combinations are no more than wanted.
    width_ = 1;
    while (groups > 0 && std::pow(width_ + 1, groups) <= options_.combinations) ++width_;
    space_options_.threads = schedule.threads;
    space_options_.cluster = schedule.cluster;
    space_options_.partial_tiles = partial_tiles;
    space_options_.wide = options_.wide;
    space_options_.one_tile = step_ != nullptr;
    const auto begin = [&] {
      ranked_.clear();
      partials_.clear();
      chosen_.assign(1, {});
      kernel::Schedule base = schedule;
      base.phases.assign(1, {});
      extend(structure, base);
    };
    begin();
    if (step_ != nullptr || width_ > 1 || schedule.cluster > 1) return;
    for (std::size_t leader = 0; leader + 1 < structure.phases.size(); ++leader) {
      following_ = kernel::followers(structure, leader);
      leader_ = leader;
      if (!following_.empty()) begin();
    }
    leader_.reset();
    following_.clear();
  }

  /// Adds the next group's mappings in turn, then those of the groups after it. Where a group has one mapping there is
  /// nothing to come back to: hundreds of packed groups take no depth of the stack.
  void extend(const kernel::KernelStructure& structure, kernel::Schedule& schedule) {
    const std::size_t at = schedule.phases.size() - 1, first = schedule.phases.back().size();
    if (first == 0) rank_phase(structure.phases[at], at);
    const std::vector<kernel::GroupStructure>& groups = structure.phases[at].groups;
    std::size_t next = first;
    for (; next < groups.size(); ++next) {
      std::vector<kernel::GroupProgram>& ranked = ranked_.at({at, next, partials_of(groups[next])});
      if (ranked.size() != 1) break;
      choose(groups[next], ranked[0], schedule);
    }
    if (next < groups.size()) {
      for (kernel::GroupProgram& best : ranked_.at({at, next, partials_of(groups[next])})) {
        choose(groups[next], best, schedule);
        extend(structure, schedule);
        schedule.phases.back().pop_back();
        chosen_.back().pop_back();
      }
    } else if (at + 1 == structure.phases.size()) {
      synchronise(structure, schedule);
    } else {
      schedule.phases.emplace_back();
      chosen_.emplace_back();
      extend(structure, schedule);
      schedule.phases.pop_back();
      chosen_.pop_back();
    }
    schedule.phases.back().resize(first);
    chosen_.back().resize(first);
  }

  void choose(const kernel::GroupStructure& group, kernel::GroupProgram& program, kernel::Schedule& schedule) {
    for (const kernel::ReductionPlan& plan : program.reductions) {
      const kernel::Anchor& anchor = group.anchors[plan.anchor];
      if (anchor.kind == kernel::Anchor::Kind::partial) partials_[anchor.node] = plan.partials;
    }
    schedule.phases.back().push_back(program.mapping);
    chosen_.back().push_back(&program);
  }

  [[nodiscard]] std::int64_t partials_of(const kernel::GroupStructure& group) const {
    return group.partial_of >= 0 ? partials_.at(group.partial_of) : 1;
  }

  /// All phases after the first by the last block, or a barrier before each.
  void synchronise(const kernel::KernelStructure& structure, const kernel::Schedule& schedule) {
    std::vector<std::vector<kernel::GroupProgram>> groups;
    for (const auto& phase : chosen_) {
      groups.emplace_back();
      groups.back().reserve(phase.size());
      for (kernel::GroupProgram* group : phase) {
        // With one mapping each, nobody asks for the group again under this choice of everything else.
        if (width_ == 1)
          groups.back().push_back(std::move(*group));
        else
          groups.back().push_back(*group);
      }
    }
    kernel::KernelProgram program = kernel::join_groups(structure, schedule, std::move(groups));
    if (step_ != nullptr) {
      kernel::make_recurrent(program, step_);
      if (schedule.cluster == 1 || shares_work(program)) consider(program);
      return;
    }
    if (structure.phases.size() == 1) return consider(program);
    if (leader_) return consider_retaining(program);
    std::vector<kernel::Sync> syncs(structure.phases.size() - 1, kernel::Sync::last_block);
    kernel::synchronise(program, syncs, 0);
    consider(program);
    syncs.assign(structure.phases.size() - 1, kernel::Sync::barrier);
    const std::int64_t blocks = barrier_blocks(program);
    kernel::synchronise(program, syncs, blocks);
    consider(program);
    if (structure.phases.size() > 2) {
      syncs.back() = kernel::Sync::last_block;
      kernel::synchronise(program, syncs, blocks);
      consider(program);
      consider_gates(program, blocks);
    }
  }

  /// What phases load alike is kept in the shared memory that as many blocks an SM as the barriers allow have left, or
  /// half as many and so on to one: the room of two may hold a round more.
  void consider_retaining(kernel::KernelProgram& program) {
    const std::vector<kernel::Sync> syncs = gates(program);
    const std::int64_t most = barrier_blocks(program), sms = scorer_.device().sm_count;
    for (std::int64_t per_sm = (most + sms - 1) / sms; per_sm >= 1; per_sm /= 2) {
      const std::int64_t blocks = std::min(most, per_sm * sms);
      kernel::synchronise(program, syncs, blocks);
      kernel::retain(program, kernel::room_to_retain(program, scorer_.device()));
      program.schedule.retained = program.retained_bytes();
      if (program.schedule.retained > 0) consider(program);
    }
  }

  /// Small phases in the block that arrives last, while the others wait for what follows: one barrier instead of one
  /// before each of them and one behind the last.
  void consider_gates(kernel::KernelProgram& program, std::int64_t blocks) {
    if (program.schedule.cluster > 1) return;
    std::vector<kernel::Sync> syncs = gates(program);
    if (std::ranges::count(syncs, kernel::Sync::gate) == 0) return;
    kernel::synchronise(program, std::move(syncs), blocks);
    consider(program);
  }

  /// A gate before every small phase that others follow.
  static std::vector<kernel::Sync> gates(const kernel::KernelProgram& program) {
    constexpr std::int64_t few = 4;  // tiles, which one block takes one after the other
    std::vector<kernel::Sync> syncs;
    for (std::size_t p = 1; p < program.phases.size(); ++p) {
      const bool last = p + 1 == program.phases.size(), closed = !syncs.empty() && syncs.back() == kernel::Sync::gate;
      const bool small = program.phases[p].tiles <= few;
      syncs.push_back(!last && small ? kernel::Sync::gate
                      : closed       ? kernel::Sync::open
                      : small        ? kernel::Sync::last_block
                                     : kernel::Sync::barrier);
    }
    return syncs;
  }

  /// Whether the blocks of a cluster do more than the same, each for itself.
  static bool shares_work(const kernel::KernelProgram& program) {
    return std::ranges::any_of(program.phases, [](const kernel::PhaseProgram& phase) {
      return std::ranges::any_of(phase.groups,
                                 [](const kernel::GroupProgram& group) { return group.shares_cluster(); });
    });
  }

  /// A barrier needs all blocks resident: fewer blocks that take several tiles each.
  [[nodiscard]] std::int64_t barrier_blocks(const kernel::KernelProgram& program) const {
    const std::int64_t resident = static_cast<std::int64_t>(kernel::resident_blocks(program, scorer_.device())) *
                                  scorer_.device().sm_count / program.schedule.cluster;
    std::int64_t most = 1;
    for (const kernel::PhaseProgram& phase : program.phases) most = std::max(most, phase.tiles);
    return std::max<std::int64_t>(1, std::min(most, resident));
  }

  // ---- mappings of one group -------------------------------------------------------------------------------

  /// The mappings of a group that are legal alone, best prediction first.
  struct Ranking {
    std::vector<kernel::GroupMapping> best;
    bool whole = true;           ///< all of them
    std::optional<Error> error;  ///< why some mapping was refused
  };
  struct Rank {
    Hash128 group;  ///< group_hash
    std::int64_t partials = 1, partial_tiles = 1;
    int threads = 0, cluster = 0;
    std::ptrdiff_t width = 1;
    auto operator<=>(const Rank&) const = default;
  };

  /// Fills ranked_ for the groups of a phase, under the choices made so far. Groups that compute the same are ranked
  /// once: a packed optimizer has hundreds.
  void rank_phase(const kernel::PhaseStructure& phase, std::size_t at) {
    struct Open {
      const kernel::GroupStructure* group;
      std::int64_t partials;
      Ranking* ranking;
    };
    std::vector<Open> open;
    std::vector<std::tuple<std::size_t, std::int64_t, const Ranking*>> wanted;
    for (std::size_t g = 0; g < phase.groups.size(); ++g) {
      const kernel::GroupStructure& group = phase.groups[g];
      const std::int64_t partials = partials_of(group);
      if (ranked_.contains({at, g, partials})) continue;
      if (std::ranges::count(following_, at) > 0) {
        if (std::optional<kernel::GroupProgram> same = with_leaders_mapping(group, partials)) {
          ranked_[{at, g, partials}].push_back(std::move(*same));
          continue;
        }
      }
      const auto hash = group_hashes_.find(&group);
      const Rank rank{hash != group_hashes_.end() ? hash->second : kernel::group_hash(graph_, group),
                      partials,
                      space_options_.partial_tiles,
                      space_options_.threads,
                      space_options_.cluster,
                      width_};
      if (hash == group_hashes_.end()) group_hashes_[&group] = rank.group;
      const auto [entry, fresh] = rankings_.try_emplace(rank);
      if (fresh) open.push_back({&group, partials, &entry->second});
      wanted.emplace_back(g, partials, &entry->second);
    }
    tbb::parallel_for(std::size_t{0}, open.size(),
                      [&](std::size_t i) { *open[i].ranking = rank(*open[i].group, open[i].partials); });
    for (const auto& [g, partials, ranking] : wanted) {
      if (ranking->error) last_error_ = *ranking->error;
      space_.whole = space_.whole && ranking->whole;
      std::vector<kernel::GroupProgram>& programs = ranked_[{at, g, partials}];
      for (const kernel::GroupMapping& mapping : ranking->best) {
        Result<kernel::GroupProgram> program = kernel::derive_group(phase.groups[g], mapping, alone(), partials);
        if (program) programs.push_back(std::move(*program));
      }
    }
  }

  /// The group under the mapping that was chosen for the phase it follows.
  [[nodiscard]] std::optional<kernel::GroupProgram> with_leaders_mapping(const kernel::GroupStructure& group,
                                                                         std::int64_t partials) const {
    Result<kernel::GroupProgram> program =
        kernel::derive_group(group, chosen_[*leader_][0]->mapping, alone(), partials);
    return program ? std::optional(std::move(*program)) : std::nullopt;
  }

  [[nodiscard]] kernel::Schedule alone() const {
    kernel::Schedule schedule;
    schedule.threads = space_options_.threads;
    schedule.cluster = space_options_.cluster;
    if (step_ != nullptr) schedule.rows = step_->rows;
    return schedule;
  }

  [[nodiscard]] Ranking rank(const kernel::GroupStructure& structure, std::int64_t partials) const {
    Ranking ranking;
    MappingSpaceOptions space = space_options_;
    space.partials = partials;
    const kernel::Schedule schedule = alone();
    std::vector<double> times;
    kernel::GroupDeriver context(structure);
    kernel::KernelProgram program;
    program.schedule = schedule;
    program.recurrent = step_;
    for (const kernel::GroupMapping& mapping : enumerate_mappings(structure, space, scorer_.device())) {
      if (!program.phases.empty()) context.give_back(std::move(program.phases[0].groups[0]));
      program.phases.clear();
      Result<kernel::GroupProgram> group = context.derive(mapping, schedule, partials);
      if (!group) {
        ranking.error = group.error();
        continue;
      }
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was compared with null
      program.blocks = (step_ != nullptr ? step_->blocks : group->tiles) * schedule.cluster;
      program.shared_bytes = 2 * group->exchange_bytes + group->held_bytes;
      program.registers = group->registers;
      kernel::PhaseProgram phase;
      phase.tiles = group->tiles;
      phase.groups.push_back(std::move(*group));
      program.phases.push_back(std::move(phase));
      if (const Status legal = kernel::check_legality(program, scorer_.device()); !legal) {
        ranking.error = legal.error();
        continue;
      }
      const double us = scorer_.predict_us(graph_, program);
      const auto place = std::upper_bound(times.begin(), times.end(), us) - times.begin();
      if (place < width_) {
        ranking.best.insert(ranking.best.begin() + place, mapping);
        times.insert(times.begin() + place, us);
      }
      if (static_cast<std::ptrdiff_t>(ranking.best.size()) > width_ || place >= width_) ranking.whole = false;
      if (static_cast<std::ptrdiff_t>(ranking.best.size()) > width_) {
        ranking.best.pop_back();
        times.pop_back();
      }
    }
    return ranking;
  }

  void consider(const kernel::KernelProgram& program) {
    const Hash128 hash = kernel::schedule_hash(program.schedule);
    if (!seen_.insert(hash).second) return;
    if (const Status legal = kernel::check_legality(program, scorer_.device()); !legal) {
      last_error_ = legal.error();
      return;
    }
    ++space_.legal;
    const double us = scorer_.predict_us(graph_, program);
    // A packed kernel of hundreds of groups is not copied for nothing, nor any whose slabs nobody asks for.
    if (step_ == nullptr && slabs_.count == 1 && program.phases.size() > 1 && (!phased_ || us < phased_us_) &&
        kernel::keeps_an_axis(program)) {
      phased_ = program;
      phased_us_ = us;
    }
    const std::size_t keep = options_.keep;
    const bool kept = best_.size() < keep || us < std::prev(best_.end())->first;  // behind its equals
    if (!kept && options_.sample == 0) return;
    StitchCandidate candidate{program.schedule, program, us};
    if (options_.sample > 0) {
      // Among the least hashes of all there may be the best ones, which are returned anyway.
      sample_.try_emplace(hash, candidate);
      if (static_cast<int>(sample_.size()) > options_.sample + options_.keep) sample_.erase(std::prev(sample_.end()));
    }
    if (!kept) return;
    best_.emplace(us, std::move(candidate));
    if (best_.size() > keep) best_.erase(std::prev(best_.end()));
  }

  ScheduleSpace collect() {
    for (auto& [us, candidate] : best_) {
      if (options_.sample > 0) sample_.erase(kernel::schedule_hash(candidate.schedule));
      space_.candidates.push_back(std::move(candidate));
    }
    auto& others = space_.others;
    for (auto& [hash, candidate] : sample_) {
      if (static_cast<int>(others.size()) == options_.sample) break;
      others.push_back(std::move(candidate));
    }
    std::stable_sort(others.begin(), others.end(), [](const StitchCandidate& a, const StitchCandidate& b) {
      return a.predicted_us < b.predicted_us;
    });
    return std::move(space_);
  }

  const Graph& graph_;
  const std::shared_ptr<const kernel::RecurrentStep> step_;
  const Scorer& scorer_;
  const StitchOptions& options_;
  const kernel::Slabs slabs_;
  kernel::AxisAnalysis analysis_;
  ScheduleSpace space_;
  std::multimap<double, StitchCandidate> best_;
  std::optional<kernel::KernelProgram> phased_;
  double phased_us_ = 0;
  std::unordered_set<Hash128> seen_;           ///< schedules that were considered
  std::map<Hash128, StitchCandidate> sample_;  ///< of the legal ones those with the least hashes
  std::ptrdiff_t width_ = 1;                   ///< mappings that are tried of each group
  MappingSpaceOptions space_options_;          ///< of the assembly under way
  std::map<Rank, Ranking> rankings_;           ///< of all assemblies
  std::unordered_map<const kernel::GroupStructure*, Hash128> group_hashes_;  ///< of the structure under way
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, std::vector<kernel::GroupProgram>>
      ranked_;                                              ///< by phase, group
  std::vector<std::vector<kernel::GroupProgram*>> chosen_;  ///< of ranked_
  std::optional<std::size_t> leader_;        ///< a phase whose mapping others follow, to retain what it loads
  std::vector<std::size_t> following_;       ///< those
  std::map<NodeId, std::int64_t> partials_;  ///< partial results that each reduction so far leaves
  std::string reasons_;                      ///< why each structure failed
  Error last_error_ = make_error(ErrorKind::constraint, "no schedule was found");
};

/// Puts the schedules of `more` among those of `all`, best prediction first, and keeps `most`.
void merge(std::vector<StitchCandidate>& all, std::vector<StitchCandidate> more, int most) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  std::ranges::stable_sort(all, {}, &StitchCandidate::predicted_us);
  if (std::cmp_greater(all.size(), most)) all.resize(most);
}

void add(ScheduleSpace& space, ScheduleSpace more, const StitchOptions& options) {
  merge(space.candidates, std::move(more.candidates), options.keep);
  merge(space.others, std::move(more.others), options.sample);
  space.legal += more.legal;
  space.whole = space.whole && more.whole;
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
    // More rows a block than it takes to have a block on every fourth SM only leave SMs idle.
    if (space && (*step)->blocks * 4 < scorer.device().sm_count) break;
    Result<ScheduleSpace> found = StitchExplorer((*step)->graph, *step, scorer, options).explore();
    if (!found) {
      if (!error) error = found.error();
      continue;
    }
    if (!space) space.emplace();
    add(*space, std::move(*found), options);
  }
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
    if (found) add(space, std::move(*found), options);
  }
  return space;
}

Result<std::vector<StitchCandidate>> explore_stitches(const Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options) {
  STITCH_ASSIGN(ScheduleSpace found, explore_space(graph, scorer, options));
  return std::move(found.candidates);
}

}  // namespace stitch::search
