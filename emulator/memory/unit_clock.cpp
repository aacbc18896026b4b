#include "emulator/memory/unit_clock.h"

#include <algorithm>
#include <bit>

namespace stitch::emulator {
namespace {

void raise_all(std::span<std::uint32_t> into, std::span<const std::uint32_t> from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool covers(const VectorClock& clock, std::uint32_t ordinal, std::uint32_t warp, bool any_warp, std::uint32_t time) {
  const VectorClock::Clocks* clocks = clock.find(ordinal);
  if (clocks == nullptr) return false;
  return any_warp ? std::ranges::max(*clocks) >= time : (*clocks)[warp] >= time;
}

}  // namespace

void UnitClock::Knowledge::merge(const Knowledge& other) {
  if (known.size() < other.known.size()) known.resize(other.known.size());
  for (std::size_t i = 0; i < other.known.size(); ++i) known[i] = std::max(known[i], other.known[i]);
  foreign.merge(other.foreign);
}

UnitClock::UnitClock(std::uint32_t first_ordinal, std::uint32_t blocks, std::uint32_t warps_per_block,
                     bool has_tensor_memory)
    : first_ordinal_(first_ordinal),
      blocks_(blocks),
      warps_(warps_per_block),
      stride_(warps_per_block * (has_tensor_memory ? 2 : 1) + 1),
      agents_(blocks * stride_),
      known_(std::size_t{agents_} * agents_),
      block_floor_(blocks, 0),
      warp_floor_(agents_, 0) {}

bool UnitClock::lanes_ordered(std::uint32_t agent, std::uint32_t lane, std::uint32_t other, std::uint32_t time) const {
  if (lane == other || time < warp_floor_[agent]) return true;
  const auto found = lanes_known_.find(agent);
  return found != lanes_known_.end() && found->second[lane * 32 + other] > time;
}

bool UnitClock::knows_block(std::uint32_t me, std::uint32_t block) const {
  if (block_of(me) == block) return true;
  for (std::uint32_t warp = 0; warp < warps_; ++warp) {
    if (known_[std::size_t{me} * agents_ + agent(block, warp)] != 0) return true;
  }
  return false;
}

void UnitClock::synchronise_lanes(std::uint32_t agent, std::uint32_t lanes, bool all) {
  advance();
  if (all) {
    warp_floor_[agent] = now_;
    if (!lanes_known_.empty()) lanes_known_.erase(agent);
    return;
  }
  if (std::has_single_bit(lanes)) return;
  std::vector<std::uint32_t>& matrix = lanes_known_[agent];
  matrix.resize(32 * 32);
  std::uint32_t met[32] = {};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    matrix[lane * 32 + lane] = now_;
    for (std::uint32_t i = 0; i < 32; ++i) met[i] = std::max(met[i], matrix[lane * 32 + i]);
  }
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0) std::copy_n(met, 32, matrix.begin() + lane * 32);
  }
}

void UnitClock::join(std::span<const std::uint32_t> agents) {
  std::vector<std::uint32_t> met(agents_);
  for (const std::uint32_t agent : agents) raise_all(met, known(agent));
  for (const std::uint32_t agent : agents) met[agent] = now_;
  for (const std::uint32_t agent : agents) {
    std::ranges::copy(met, known(agent).begin());
    warp_floor_[agent] = now_ + 1;
  }
  if (foreign_used_) {
    std::vector<std::uint32_t> met_fenced(agents_);
    Foreign all;
    for (const std::uint32_t agent : agents) {
      raise_all(met_fenced, fenced(agent));
      all.known.merge(foreign_[agent].known);
      all.fenced.merge(foreign_[agent].fenced);
      all.observed.merge(foreign_[agent].observed);
      all.weak.merge(foreign_[agent].weak);
    }
    for (const std::uint32_t agent : agents) {
      std::ranges::copy(met_fenced, fenced(agent).begin());
      foreign_[agent] = all;
    }
  }
  advance();
}

void UnitClock::join_block(std::uint32_t block, std::span<const std::uint32_t> agents) {
  join(agents);
  block_floor_[block] = now_;
}

UnitClock::Knowledge UnitClock::release(std::uint32_t agent) {
  known(agent)[agent] = now_;
  Knowledge result{{known(agent).begin(), known(agent).end()}, {}};
  if (foreign_used_) result.foreign = foreign_[agent].known;
  advance();
  return result;
}

void UnitClock::acquire(std::uint32_t agent, const Knowledge& knowledge) {
  if (knowledge.known.empty()) return;
  raise_all(known(agent), knowledge.known);
  // What the warp's own lanes released is ordered for all that acquire it.
  if (knowledge.known[agent] >= warp_floor_[agent] && knowledge.known[agent] != 0)
    warp_floor_[agent] = knowledge.known[agent] + 1;
  if (foreign_used_) foreign_[agent].known.merge(knowledge.foreign);
}

void UnitClock::begin_tensor_work(std::uint32_t agent) {
  const std::uint32_t worker = tensor_agent(agent);
  raise_all(known(worker), known(agent));
  known(worker)[agent] = now_;
}

UnitClock::Knowledge UnitClock::release_tensor_work(std::uint32_t agent) {
  known(agent)[agent] = now_;
  Knowledge result{{known(agent).begin(), known(agent).end()}, {}};
  result.known[tensor_agent(agent)] = now_;
  if (foreign_used_) result.foreign = foreign_[agent].known;
  advance();
  return result;
}

void UnitClock::learn(std::uint32_t agent, const VectorClock& clock) {
  foreign_[agent].known.merge(clock);
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    const VectorClock::Clocks* clocks = clock.find(first_ordinal_ + block);
    if (clocks == nullptr) continue;
    for (std::uint32_t warp = 0; warp < warps_; ++warp) {
      std::uint32_t& entry = known(agent)[this->agent(block, warp)];
      entry = std::max(entry, (*clocks)[warp]);
    }
  }
}

void UnitClock::publish(VectorClock& into, std::uint32_t agent, std::span<const std::uint32_t> known,
                        const VectorClock& foreign, std::uint32_t own_time) {
  into.merge(foreign);
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    VectorClock::Clocks clocks{};
    bool any = false;
    for (std::uint32_t warp = 0; warp < warps_; ++warp) {
      const std::uint32_t other = this->agent(block, warp);
      clocks[warp] = other == agent ? own_time : known[other];
      any |= clocks[warp] != 0;
    }
    if (any) into.raise(first_ordinal_ + block, clocks);
  }
}

void UnitClock::use_foreign() {
  if (foreign_used_) return;
  foreign_used_ = true;
  foreign_.resize(agents_);
  fenced_.assign(std::size_t{agents_} * agents_, 0);
}

void UnitClock::fence(std::uint32_t agent) {
  use_foreign();
  Foreign& foreign = foreign_[agent];
  if (!foreign.observed.empty()) learn(agent, foreign.observed);
  std::ranges::copy(known(agent), fenced(agent).begin());
  fenced(agent)[agent] = now_;
  foreign.fenced = foreign.known;
  advance();
}

void UnitClock::release_to(SyncLocation& location, std::uint32_t agent, Semantics semantics, Scope scope,
                           bool replaces) {
  if (scope == Scope::block) return;
  use_foreign();
  // A plain ordered store begins a new release sequence; a read-modify-write continues it.
  if (replaces) location = {};
  const Foreign& foreign = foreign_[agent];
  publish(location.weak, agent, known(agent), foreign.weak, now_);
  location.weak.merge(foreign.known);
  if (releases(semantics)) {
    if (scope == Scope::cluster) {
      if (location.cluster_first != first_ordinal_) location.cluster = {};
      location.cluster_first = first_ordinal_;
      publish(location.cluster, agent, known(agent), foreign.known, now_);
    } else {
      publish(location.strong, agent, known(agent), foreign.known, now_);
    }
  } else if (fenced(agent)[agent] != 0 || std::ranges::any_of(fenced(agent), [](std::uint32_t t) { return t != 0; })) {
    publish(location.strong, agent, fenced(agent), foreign.fenced, fenced(agent)[agent]);
  }
  advance();
}

void UnitClock::acquire_from(const SyncLocation& location, std::uint32_t agent, Semantics semantics, Scope scope) {
  if (scope == Scope::block) return;
  use_foreign();
  Foreign& foreign = foreign_[agent];
  foreign.weak.merge(location.weak);
  const bool same_cluster = location.cluster_first == first_ordinal_ && !location.cluster.empty();
  if (acquires(semantics)) {
    if (scope != Scope::cluster) learn(agent, location.strong);
    if (same_cluster) learn(agent, location.cluster);
  } else {
    foreign.observed.merge(location.strong);
  }
}

bool UnitClock::foreign_ordered(std::uint32_t me, std::uint32_t ordinal, std::uint32_t warp, bool any_warp,
                                std::uint32_t time) const {
  return foreign_used_ && covers(foreign_[me].known, ordinal, warp, any_warp, time);
}

bool UnitClock::weakly_ordered(std::uint32_t me, std::uint32_t ordinal, std::uint32_t warp, bool any_warp,
                               std::uint32_t time) const {
  return foreign_used_ && covers(foreign_[me].weak, ordinal, warp, any_warp, time);
}

}  // namespace stitch::emulator
