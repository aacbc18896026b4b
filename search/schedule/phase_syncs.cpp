#include "search/schedule/phase_syncs.h"

#include <algorithm>
#include <utility>

#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/retention.h"

namespace stitch::search {
namespace {

using kernel::Sync;

/// A gate before every small phase that others follow: it runs in the block that arrives last, while the others wait
/// for what follows; one barrier instead of one before each of them and one behind the last.
std::vector<Sync> gates(const kernel::KernelProgram& program) {
  constexpr std::int64_t few = 4;  // tiles, which one block takes one after the other
  std::vector<Sync> syncs;
  for (std::size_t p = 1; p < program.phases.size(); ++p) {
    const bool last = p + 1 == program.phases.size(), closed = !syncs.empty() && syncs.back() == Sync::gate;
    const bool small = program.phases[p].tiles <= few;
    if (small && !last) {
      syncs.push_back(Sync::gate);
    } else if (closed) {
      syncs.push_back(Sync::open);
    } else {
      syncs.push_back(small ? Sync::last_block : Sync::barrier);
    }
  }
  return syncs;
}

/// A barrier needs all blocks resident: fewer blocks that take several tiles each.
std::int64_t barrier_blocks(const kernel::KernelProgram& program, const DeviceSpec& device) {
  const std::int64_t resident = kernel::resident_on_device(program, device) / program.schedule.cluster;
  std::int64_t most = 1;
  for (const kernel::PhaseProgram& phase : program.phases) most = std::max(most, phase.tiles);
  return std::max<std::int64_t>(1, std::min(most, resident));
}

}  // namespace

void for_each_sync(kernel::KernelProgram& program, const DeviceSpec& device,
                   const std::function<void(const kernel::KernelProgram&)>& visit) {
  const std::size_t crossings = program.phases.size() - 1;
  const bool clusters = program.schedule.cluster > 1;  // of which no block goes on alone
  if (!clusters) {
    kernel::synchronise(program, std::vector<Sync>(crossings, Sync::last_block), 0);
    visit(program);
  }
  std::vector<Sync> syncs(crossings, Sync::barrier);
  const std::int64_t blocks = barrier_blocks(program, device);
  kernel::synchronise(program, syncs, blocks);
  visit(program);
  if (crossings < 2 || clusters) return;
  syncs.back() = Sync::last_block;
  kernel::synchronise(program, syncs, blocks);
  visit(program);
  syncs = gates(program);
  if (std::ranges::count(syncs, Sync::gate) == 0) return;
  kernel::synchronise(program, std::move(syncs), blocks);
  visit(program);
}

void for_each_retention(kernel::KernelProgram& program, const DeviceSpec& device,
                        const std::function<void(const kernel::KernelProgram&)>& visit) {
  const std::vector<Sync> syncs = gates(program);
  const std::int64_t most = barrier_blocks(program, device), sms = device.sm_count;
  for (std::int64_t per_sm = (most + sms - 1) / sms; per_sm >= 1; per_sm /= 2) {
    const std::int64_t blocks = std::min(most, per_sm * sms);
    kernel::synchronise(program, syncs, blocks);
    kernel::retain(program, kernel::room_to_retain(program, device));
    program.schedule.retained = program.retained_bytes();
    if (program.schedule.retained > 0) visit(program);
  }
}

}  // namespace stitch::search
