#include "search/schedule/group_ranking.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>

#include "kernel/program/group_deriver.h"
#include "kernel/program/legality.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/group_hash.h"
#include "search/schedule/equals_of_best.h"

namespace stitch::search {

std::vector<const GroupRanking*> GroupRanker::rank(std::span<const RankedGroup> groups,
                                                   const MappingSpaceOptions& space, int width) {
  struct Open {
    RankedGroup wanted;
    GroupRanking* ranking;
  };
  std::vector<Open> open;
  std::vector<const GroupRanking*> rankings;
  for (const RankedGroup& wanted : groups) {
    const Key key{hash_of(*wanted.group), wanted.partials, space.partial_tiles, space.threads, space.cluster, width};
    const auto [entry, fresh] = rankings_.try_emplace(key);
    if (fresh) open.push_back({wanted, &entry->second});
    rankings.push_back(&entry->second);
  }
  tbb::parallel_for(std::size_t{0}, open.size(), [&](std::size_t i) {
    MappingSpaceOptions own = space;
    own.partials = open[i].wanted.partials;
    *open[i].ranking = ranked(*open[i].wanted.group, own, width);
  });
  return rankings;
}

const Hash128& GroupRanker::hash_of(const kernel::GroupStructure& group) {
  const auto found = hashes_.find(&group);
  if (found != hashes_.end()) return found->second;
  return hashes_.emplace(&group, kernel::group_hash(graph_, group)).first->second;
}

kernel::Schedule GroupRanker::alone(const MappingSpaceOptions& space) const {
  kernel::Schedule schedule;
  schedule.threads = space.threads;
  schedule.cluster = space.cluster;
  if (step_ != nullptr) schedule.rows = step_->rows;
  return schedule;
}

GroupRanking GroupRanker::ranked(const kernel::GroupStructure& structure, const MappingSpaceOptions& space,
                                 int width) const {
  GroupRanking ranking;
  std::vector<double> times;
  EqualsOfBest<kernel::GroupMapping> equals;
  kernel::GroupDeriver deriver(structure);
  kernel::KernelProgram program;
  program.schedule = alone(space);
  program.recurrent = step_;
  for (const kernel::GroupMapping& mapping : enumerate_mappings(structure, space, scorer_.device())) {
    if (!program.phases.empty()) deriver.give_back(std::move(program.phases[0].groups[0]));
    program.phases.clear();
    Result<kernel::GroupProgram> group = deriver.derive(mapping, program.schedule, space.partials);
    if (!group) {
      ranking.error = group.error();
      continue;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was compared with null
    program.blocks = (step_ != nullptr ? step_->blocks : group->tiles) * program.schedule.cluster;
    program.shared_bytes = 2 * group->exchange_bytes + group->held_bytes;
    for (const kernel::StateProducts& product : group->products) program.shared_bytes += product.fragment_bytes();
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
    if (equals.admits(us)) equals.enter(us, kernel::scheduled_bytes(graph_, program), mapping);
    const std::ptrdiff_t place = std::ranges::upper_bound(times, us) - times.begin();
    if (place >= width) {
      ranking.whole = false;
      continue;
    }
    ranking.best.insert(ranking.best.begin() + place, mapping);
    times.insert(times.begin() + place, us);
    if (std::ssize(times) > width) {
      ranking.whole = false;
      ranking.best.pop_back();
      times.pop_back();
    }
  }
  if (equals.empty()) return ranking;
  // What is taken stands among the best, at the expense of the last of them.
  if (std::ranges::find(ranking.best, equals.taken()) == ranking.best.end()) ranking.best.back() = equals.taken();
  return ranking;
}

}  // namespace stitch::search
