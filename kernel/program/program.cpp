#include "kernel/program/program.h"
#include "kernel/structure/items.h"

#include <algorithm>
#include <span>

namespace stitch::kernel {
namespace {

std::int64_t most_of(const KernelProgram& kernel, std::int64_t GroupProgram::*bytes) {
  std::int64_t most = 0;
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) most = std::max(most, group.*bytes);
  }
  return most;
}

}  // namespace

std::int64_t GroupProgram::round_elements() const {
  return threads * turns(inner_loops) * register_elements(AxisSet::first(extents.size()));
}

std::int64_t GroupProgram::turns(AxisSet axes) const {
  std::int64_t turns = 1;
  for (const int a : axes) turns *= extent(a, Level::loop);
  return turns;
}

std::int64_t GroupProgram::register_elements(AxisSet axes) const {
  std::int64_t count = 1;
  for (const int a : axes) count *= extent(a, Level::vector) * extent(a, Level::reg);
  return count;
}

std::int64_t GroupProgram::elements_per_thread(AxisSet axes) const {
  return register_elements(axes) * turns(axes & inner_loops);
}

const RetainedLoad* GroupProgram::retention(ItemId load) const {
  const auto found = std::ranges::find(retained, load, &RetainedLoad::item);
  return found != retained.end() ? &*found : nullptr;
}

std::int64_t KernelProgram::scratch_bytes(std::size_t i) const {
  return scratch[i].elements * partial_count[i] * graph::byte_size(scratch[i].dtype);
}

std::int64_t KernelProgram::held_bytes() const { return most_of(*this, &GroupProgram::held_bytes); }
std::int64_t KernelProgram::exchange_bytes() const { return most_of(*this, &GroupProgram::exchange_bytes); }

std::int64_t KernelProgram::retained_bytes() const {
  std::int64_t bytes = 0;
  for (const PhaseProgram& phase : phases) {
    for (const GroupProgram& group : phase.groups) {
      for (const RetainedLoad& load : group.retained)
        bytes = std::max(bytes, load.shared_offset + load.rounds * load.round_bytes);
    }
  }
  return bytes;
}

bool KernelProgram::runs_alone(std::size_t phase) const {
  const auto before = std::span(schedule.syncs).first(std::min(phase, schedule.syncs.size()));
  return std::ranges::count(before, Sync::last_block) > 0 || (!before.empty() && before.back() == Sync::gate);
}

bool KernelProgram::blocks_wait() const {
  return std::ranges::any_of(schedule.syncs, [](Sync sync) { return sync == Sync::barrier || sync == Sync::gate; });
}

std::int64_t resident_offset(const KernelProgram& kernel) {
  constexpr std::int64_t alignment = 16;
  return (kernel.held_bytes() + 2 * kernel.exchange_bytes() + alignment - 1) / alignment * alignment;
}

ResidentLayout resident_layout(const KernelProgram& kernel) {
  std::vector<std::int64_t> scratch;
  for (std::size_t i = 0; i < kernel.scratch.size(); ++i) scratch.push_back(kernel.scratch_bytes(i));
  std::vector<std::int64_t> fragments;
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) {
      for (const StateProducts& product : group.products) fragments.push_back(product.fragment_bytes());
    }
  }
  return resident_layout(*kernel.recurrent, scratch, fragments);
}

}  // namespace stitch::kernel
