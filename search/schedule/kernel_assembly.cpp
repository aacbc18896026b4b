#include "search/schedule/kernel_assembly.h"

#include <algorithm>
#include <utility>

#include "kernel/program/group_deriver.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/retention.h"
#include "search/schedule/phase_syncs.h"

namespace stitch::search {
namespace {

/// Whether the blocks of a cluster do more than the same, each for itself.
bool shares_work(const kernel::KernelProgram& program) {
  return std::ranges::any_of(program.phases, [](const kernel::PhaseProgram& phase) {
    return std::ranges::any_of(phase.groups, &kernel::GroupProgram::shares_cluster);
  });
}

}  // namespace

KernelAssembly::KernelAssembly(const kernel::KernelStructure& structure, kernel::Schedule base,
                               const MappingSpaceOptions& space, int width,
                               std::shared_ptr<const kernel::RecurrentStep> step, const Scorer& scorer,
                               GroupRanker& ranker, AssembledKernels& assembled)
    : structure_(structure),
      base_(std::move(base)),
      space_(space),
      width_(width),
      step_(std::move(step)),
      scorer_(scorer),
      ranker_(ranker),
      assembled_(assembled) {}

void KernelAssembly::assemble() {
  begin();
  if (step_ != nullptr || width_ > 1 || base_.cluster > 1) return;
  for (std::size_t leader = 0; leader + 1 < structure_.phases.size(); ++leader) {
    following_ = kernel::followers(structure_, leader);
    leader_ = leader;
    if (!following_.empty()) begin();
  }
}

void KernelAssembly::begin() {
  ranked_.clear();
  partials_.clear();
  chosen_.assign(1, {});
  schedule_ = base_;
  schedule_.phases.assign(1, {});
  extend();
}

/// Adds the next group's mappings in turn, then those of the groups after it. Where a group has one mapping there is
/// nothing to come back to: hundreds of packed groups take no depth of the stack.
void KernelAssembly::extend() {
  const std::size_t at = schedule_.phases.size() - 1, first = schedule_.phases.back().size();
  if (first == 0) rank_phase(at);
  const std::vector<kernel::GroupStructure>& groups = structure_.phases[at].groups;
  std::size_t next = first;
  for (; next < groups.size(); ++next) {
    std::vector<kernel::GroupProgram>& ranked = ranked_.at({at, next, partials_of(groups[next])});
    if (ranked.size() != 1) break;
    choose(groups[next], ranked[0]);
  }
  if (next < groups.size()) {
    for (kernel::GroupProgram& best : ranked_.at({at, next, partials_of(groups[next])})) {
      choose(groups[next], best);
      extend();
      schedule_.phases.back().pop_back();
      chosen_.back().pop_back();
    }
  } else if (at + 1 == structure_.phases.size()) {
    finish();
  } else {
    schedule_.phases.emplace_back();
    chosen_.emplace_back();
    extend();
    schedule_.phases.pop_back();
    chosen_.pop_back();
  }
  schedule_.phases.back().resize(first);
  chosen_.back().resize(first);
}

void KernelAssembly::choose(const kernel::GroupStructure& group, kernel::GroupProgram& program) {
  for (const kernel::ReductionPlan& plan : program.reductions) {
    const kernel::Anchor& anchor = group.anchors[plan.anchor];
    if (anchor.kind == kernel::Anchor::Kind::partial) partials_[anchor.node] = plan.partials;
  }
  schedule_.phases.back().push_back(program.mapping);
  chosen_.back().push_back(&program);
}

std::int64_t KernelAssembly::partials_of(const kernel::GroupStructure& group) const {
  return group.partial_of >= 0 ? partials_.at(group.partial_of) : 1;
}

/// All mappings are chosen: joins the groups, and hands on the kernel under every way of crossing its phases.
void KernelAssembly::finish() {
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
  const auto consider = [&](const kernel::KernelProgram& program) { assembled_.consider(program); };
  kernel::KernelProgram program = kernel::join_groups(structure_, schedule_, std::move(groups));
  if (step_ != nullptr) {
    kernel::make_recurrent(program, step_);
    if (schedule_.cluster == 1 || shares_work(program)) consider(program);
  } else if (structure_.phases.size() == 1) {
    consider(program);
  } else if (leader_) {
    for_each_retention(program, scorer_.device(), consider);
  } else {
    for_each_sync(program, scorer_.device(), consider);
  }
}

/// Fills ranked_ for the groups of a phase, under the choices made so far.
void KernelAssembly::rank_phase(std::size_t at) {
  const std::vector<kernel::GroupStructure>& groups = structure_.phases[at].groups;
  const bool follows = std::ranges::count(following_, at) > 0;
  std::vector<RankedGroup> wanted;
  std::vector<Place> places;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Place place{at, g, partials_of(groups[g])};
    if (ranked_.contains(place)) continue;
    if (follows) {
      if (auto same = with_leaders_mapping(groups[g], std::get<2>(place))) {
        ranked_[place].push_back(std::move(*same));
        continue;
      }
    }
    wanted.push_back({&groups[g], std::get<2>(place)});
    places.push_back(place);
  }
  const std::vector<const GroupRanking*> rankings = ranker_.rank(wanted, space_, width_);
  const kernel::Schedule alone = ranker_.alone(space_);
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    if (rankings[i]->error) assembled_.refuse(*rankings[i]->error);
    if (!rankings[i]->whole) assembled_.leave_out();
    std::vector<kernel::GroupProgram>& programs = ranked_[places[i]];
    for (const kernel::GroupMapping& mapping : rankings[i]->best) {
      auto program = kernel::derive_group(*wanted[i].group, mapping, alone, wanted[i].partials);
      if (program) programs.push_back(std::move(*program));
    }
  }
}

/// The group under the mapping that was chosen for the phase it follows.
std::optional<kernel::GroupProgram> KernelAssembly::with_leaders_mapping(const kernel::GroupStructure& group,
                                                                         std::int64_t partials) const {
  kernel::GroupMapping mapping = chosen_[*leader_][0]->mapping;
  mapping.stages = 1;  // what is loaded ahead is not found in shared memory
  Result<kernel::GroupProgram> program = kernel::derive_group(group, mapping, ranker_.alone(space_), partials);
  return program ? std::optional(std::move(*program)) : std::nullopt;
}

}  // namespace stitch::search
