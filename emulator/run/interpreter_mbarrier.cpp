#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

/// The 64-bit state that arrive returns and test_wait takes: opaque to kernels; here the phase, and the pending count.
std::uint64_t state_of(const Mbarrier& barrier) { return std::uint64_t{barrier.pending} << 32 | barrier.phase; }

constexpr std::uint32_t mbarrier_bytes = 8;

}  // namespace

Mbarrier* Interpreter::find_mbarrier(std::uint64_t address, Space space, std::uint32_t lane, SharedTarget& target) {
  if (space == Space::generic) {
    if (address - shared_window >= window_bytes) {
      report(Detector::out_of_bounds, lane,
             [&] { return fmt::format("mbarrier at 0x{:x}, which is not shared memory", address); });
      return nullptr;
    }
    address -= shared_window;
  }
  if (!shared_target(address, mbarrier_bytes, space != Space::shared, lane, target)) return nullptr;
  const auto found = target.block->mbarriers.find(target.offset);
  if (found != target.block->mbarriers.end()) return &found->second;
  report(Detector::invalid_use, lane,
         [&] { return fmt::format("mbarrier at shared offset {} is used before mbarrier.init", target.offset); });
  return nullptr;
}

/// a = address, b = count.
Interpreter::Step Interpreter::mbarrier_init(const Instruction& in, std::uint32_t lanes) {
  const Space space = code_.mbarriers[in.detail].space;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    std::uint64_t address = row_of<std::uint64_t>(in.a)[lane];
    if (space == Space::generic) address -= shared_window;
    SharedTarget target;
    if (!shared_target(address, mbarrier_bytes, false, lane, target)) continue;
    const std::uint32_t count = row_of<std::uint32_t>(in.b)[lane];
    const SharedOutcome outcome =
        block_->shared.write(target.offset, mbarrier_bytes, shared_accessor(*block_, lane, true));
    if (outcome.fault != SharedFault::none) report_shared(outcome, lane, true);
    Mbarrier fresh;
    fresh.expected = count;
    fresh.pending = count;
    block_->mbarriers[target.offset] = std::move(fresh);
  }
  ++unit_->events;
  return Step::next;
}

Interpreter::Step Interpreter::mbarrier_invalidate(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    SharedTarget target;
    if (((lanes >> lane) & 1) == 0) continue;
    if (find_mbarrier(row_of<std::uint64_t>(in.a)[lane], code_.mbarriers[in.detail].space, lane, target) == nullptr)
      continue;
    target.block->mbarriers.erase(target.offset);
  }
  return Step::next;
}

void Interpreter::complete_phase(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.pending_bytes != 0) return;
  barrier.last_knowledge = std::move(barrier.knowledge);
  barrier.knowledge = {};
  barrier.last_told = std::move(barrier.told);
  barrier.told = {};
  barrier.pending = barrier.expected;
  ++barrier.phase;
  ++unit_->events;
}

void Interpreter::arrive_on(Mbarrier& barrier, std::uint32_t count, bool drop, std::uint32_t lane) {
  if (count > barrier.pending) {
    report(Detector::invalid_use, lane,
           [&] { return fmt::format("{} arrivals on an mbarrier that expects {} more", count, barrier.pending); });
    count = barrier.pending;
  }
  if (drop) barrier.expected -= std::min(barrier.expected, count);
  barrier.pending -= count;
}

/// d = state (or none), a = address, b = count or bytes.
Interpreter::Step Interpreter::mbarrier_arrive(const Instruction& in, std::uint32_t lanes) {
  const MbarrierAccess& access = code_.mbarriers[in.detail];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    SharedTarget target;
    Mbarrier* barrier = find_mbarrier(row_of<std::uint64_t>(in.a)[lane], access.space, lane, target);
    if (barrier == nullptr) continue;
    note_remote(*target.block);
    const std::uint32_t operand = in.b == no_slot ? 1 : row_of<std::uint32_t>(in.b)[lane];
    if (in.d != no_slot) row_of<std::uint64_t>(in.d)[lane] = state_of(*barrier);
    if (releases(access.semantics)) {
      barrier->knowledge.merge(unit_->clock->release(warp_->agent));
    }
    tell_tensor_order(*barrier);
    switch (access.action) {
      case MbarrierAction::arrive: arrive_on(*barrier, operand, false, lane); break;
      case MbarrierAction::arrive_drop: arrive_on(*barrier, operand, true, lane); break;
      case MbarrierAction::expect: barrier->pending_bytes += operand; break;
      case MbarrierAction::arrive_expect:
        barrier->pending_bytes += operand;
        arrive_on(*barrier, 1, false, lane);
        break;
      case MbarrierAction::complete: barrier->pending_bytes -= operand; break;
    }
    if (!access.no_complete) complete_phase(*barrier);
  }
  ++unit_->events;
  return Step::next;
}

/// Bytes of a bulk copy land, written by the block's asynchronous agent; whoever waits on the mbarrier knows of them.
void Interpreter::land_bulk_arrival(PendingBulk& copy) {
  Block& receiver = *unit_->blocks[copy.block];
  const std::uint32_t bytes = copy.data.size();
  const std::uint32_t offset = copy.target;
  SharedAccessor who = shared_accessor(receiver, 0, false);
  who.agent = unit_->clock->async_agent(copy.block);
  who.remote = false;
  if (copy.reduces) {
    const BulkAccess& access = code_.bulks[copy.detail];
    constexpr std::uint32_t sizes[] = {4, 4, 8, 8, 4, 8, 2, 2, 4, 4, 2, 4, 8, 16};
    const std::uint32_t size = sizes[static_cast<int>(access.type)];
    for (std::uint32_t at = 0; at < bytes; at += size) {
      combine_element(access.type, access.operation, false, receiver.shared.data() + offset + at,
                      copy.data.data() + at);
    }
  } else {
    std::memcpy(receiver.shared.data() + offset, copy.data.data(), bytes);
  }
  receiver.shared.end_async_write(offset, bytes, who);
}

/// The copies that were under way for this phase arrive, and commits of tensor work: as late as possible, when somebody
/// looks.
void Interpreter::land_arrivals(Mbarrier& barrier) {
  if (!barrier.committed.empty()) land_commits(barrier);
  if (barrier.arriving.empty()) return;
  std::vector<PendingBulk> landing = std::move(barrier.arriving);
  barrier.arriving.clear();
  for (PendingBulk& copy : landing) {
    barrier.pending_bytes -= copy.data.size();
    land_bulk_arrival(copy);
    barrier.knowledge.merge(unit_->clock->release(unit_->clock->async_agent(copy.block)));
  }
  ++unit_->events;
  complete_phase(barrier);
}

/// d = whether the phase is over, a = address, b = state or parity.
Interpreter::Step Interpreter::mbarrier_test(const Instruction& in, std::uint32_t lanes) {
  const MbarrierAccess& access = code_.mbarriers[in.detail];
  std::uint32_t done = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    SharedTarget target;
    Mbarrier* barrier = find_mbarrier(row_of<std::uint64_t>(in.a)[lane], access.space, lane, target);
    if (barrier == nullptr) {
      done |= 1U << lane;
      continue;
    }
    land_arrivals(*barrier);
    // Parity p asks for the completion of the latest phase with that parity; phase 0 is the first under way.
    const std::uint32_t waited = access.parity ? row_of<std::uint32_t>(in.b)[lane] & 1
                                               : static_cast<std::uint32_t>(row_of<std::uint64_t>(in.b)[lane]);
    const bool over = access.parity ? (barrier->phase & 1) != waited : barrier->phase != waited;
    if (!over) continue;
    done |= 1U << lane;
    if (acquires(access.semantics)) unit_->clock->acquire(warp_->agent, barrier->last_knowledge);
    if (unit_->tensor_order != nullptr) unit_->tensor_order->observe(warp_->agent, barrier->last_told);
  }
  set_mask(in.d, lanes, done);
  if (done == lanes) {
    warp_->poll.unchanged = false;
    ++unit_->events;
    return Step::next;
  }
  warp_->poll.unchanged = true;
  warp_->poll.of_host = false;
  return Step::poll;
}

Interpreter::Step Interpreter::mbarrier_count(const Instruction& in, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> counts{};
  for (std::size_t lane = 0; lane < 32; ++lane) counts[lane] = row_of<std::uint64_t>(in.a)[lane] >> 32;
  set_row(in.d, lanes, counts.data());
  return Step::next;
}

/// cp.async.mbarrier.arrive: the lane's copies so far land, and it arrives. form 1: noinc; else the count is raised
/// first, so that the arrival is additional.
Interpreter::Step Interpreter::copy_async_arrive(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    SharedTarget target;
    Mbarrier* barrier = find_mbarrier(row_of<std::uint64_t>(in.a)[lane], in.detail_as<Space>(), lane, target);
    if (barrier == nullptr) continue;
    land_copies(lane, warp_->copy_groups[lane] + 1);
    if (in.form == 0) ++barrier->pending;
    barrier->knowledge.merge(unit_->clock->release(warp_->agent));
    arrive_on(*barrier, 1, false, lane);
    complete_phase(*barrier);
  }
  ++unit_->events;
  return Step::next;
}

}  // namespace stitch::emulator
