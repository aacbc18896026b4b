#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// bar.{sync, arrive, red}: a = which barrier, b = thread count (none: all), c = predicate of a reduction. `uniform`:
/// all lanes of the warp execute it together.
Interpreter::Step Interpreter::barrier(const Instruction& in, std::uint32_t lanes) {
  if (in.uniform) {
    if (lanes != active_) {
      report(Detector::divergent_barrier, std::countr_zero(lanes), [&] {
        return fmt::format("only lanes 0x{:08x} of 0x{:08x} execute the barrier (it is predicated)", lanes, active_);
      });
      lanes = active_;  // the hardware counts the warp
    }
    if (lanes != warp_->alive && !current_split().forced) {
      current_split().needed = warp_->alive;
      suspend(SplitState::gathering);
      settle(*warp_);
      return Step::wait;
    }
  } else if (lanes != active_) {
    split_off(active_ & ~lanes, pc_ + 1);
  }
  WarpSplit& here = current_split();
  here.forced = false;
  const std::uint32_t first = std::countr_zero(lanes);
  const std::uint32_t index = row_of<std::uint32_t>(in.a)[first];
  if (index >= block_->barriers.size()) {
    report(Detector::invalid_use, first, [&] { return fmt::format("barrier {} of 16", index); });
    return Step::next;
  }
  BlockBarrier& target = block_->barriers[index];
  arrive(target, in, lanes, index);
  const auto mode = in.form_as<BarrierMode>();
  ++unit_->events;
  if (mode == BarrierMode::arrive) {
    target.released.push_back(unit_->clock->release(warp_->agent));
    complete_barriers(*unit_, *block_);
    return Step::next;
  }
  target.waiting.push_back(warp_->agent);
  here.barrier = index;
  here.pc = pc_;
  here.state = SplitState::barrier;
  // Completion moves the split behind the barrier; counting it is the loop's business.
  complete_barriers(*unit_, *block_);
  return Step::left;
}

void Interpreter::arrive(BlockBarrier& barrier, const Instruction& in, std::uint32_t lanes, std::uint32_t index) {
  const std::uint32_t first = std::countr_zero(lanes);
  const std::uint32_t count = in.b == no_slot ? 0 : row_of<std::uint32_t>(in.b)[first];
  if (count % 32 != 0) {
    report(Detector::invalid_use, first,
           [&] { return fmt::format("barrier count {} is not a multiple of the warp size", count); });
  }
  if (barrier.open && barrier.expected != count) {
    report(Detector::divergent_barrier, first, [&] {
      return fmt::format("barrier {} is entered with count {} here and {} before", index, count, barrier.expected);
    });
  }
  barrier.open = true;
  barrier.expected = count;
  // With an explicit count a warp counts as a whole.
  const std::uint32_t here = std::popcount(lanes);
  barrier.arrived += count != 0 && in.uniform ? 32 : here;
  if (in.c == no_slot) return;
  const std::uint32_t predicate = mask_of(in.c) & lanes;
  barrier.any_true |= predicate != 0;
  barrier.all_true &= predicate == lanes;
  barrier.count_true += std::popcount(predicate);
}

/// Opens the barriers of a block that everybody expected has reached.
void Interpreter::complete_barriers(Unit& unit, Block& block) {
  for (std::uint32_t index = 0; index < block.barriers.size(); ++index) {
    BlockBarrier& barrier = block.barriers[index];
    const std::uint32_t expected = barrier.expected != 0 ? barrier.expected : block.alive_threads;
    if (barrier.open && barrier.arrived >= expected) release_barrier(unit, block, barrier, index);
  }
}

void Interpreter::release_barrier(Unit& unit, Block& block, BlockBarrier& barrier, std::uint32_t index) {
  std::ranges::sort(barrier.waiting);
  const auto repeated = std::ranges::unique(barrier.waiting);
  barrier.waiting.erase(repeated.begin(), repeated.end());
  const auto alive_warps = std::ranges::count_if(block.warps, [](const Warp& warp) { return warp.alive != 0; });
  if (std::ssize(barrier.waiting) == alive_warps && barrier.released.empty()) {
    unit.clock->join_block(block.rank, barrier.waiting);
  } else if (!barrier.waiting.empty()) {
    unit.clock->join(barrier.waiting);
  }
  for (const std::uint32_t agent : barrier.waiting) {
    for (const UnitClock::Knowledge& knowledge : barrier.released) unit.clock->acquire(agent, knowledge);
  }
  for (Warp& warp : block.warps) {
    for (WarpSplit& f : warp.splits) {
      if (f.state != SplitState::barrier || f.barrier != index) continue;
      const Instruction& in = code_.instructions[f.pc];
      std::byte* const registers = bases_[0];
      bases_[0] = warp.registers;
      switch (in.form_as<BarrierMode>()) {
        case BarrierMode::reduce_and: set_mask(in.d, f.lanes, barrier.all_true ? ~0U : 0U); break;
        case BarrierMode::reduce_or: set_mask(in.d, f.lanes, barrier.any_true ? ~0U : 0U); break;
        case BarrierMode::reduce_popc: {
          std::array<std::uint32_t, 32> counts;
          counts.fill(barrier.count_true);
          set_row(in.d, f.lanes, counts.data());
          break;
        }
        default: break;
      }
      bases_[0] = registers;
      f.state = SplitState::ready;
      ++f.pc;
    }
  }
  barrier = {};
  ++counters_.block_barriers;
  ++unit.events;
}

/// barrier.cluster.arrive; form 0: relaxed, orders nothing.
Interpreter::Step Interpreter::cluster_arrive(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    if (warp_->cluster_arrivals[lane] > unit_->cluster_phase) {
      report(Detector::invalid_use, lane,
             [] { return std::string("arrives twice at the cluster barrier without waiting"); });
      continue;
    }
    warp_->cluster_arrivals[lane] = unit_->cluster_phase + 1;
    ++unit_->cluster_arrived;
  }
  if (block_->cluster_first_arrival == 0) block_->cluster_first_arrival = unit_->clock->now();
  if (in.form != 0) unit_->cluster_gathering.merge(unit_->clock->release(warp_->agent));
  ++unit_->events;
  complete_cluster_barrier(*unit_);
  return Step::next;
}

void Interpreter::complete_cluster_barrier(Unit& unit) {
  if (unit.cluster_arrived == 0 || unit.cluster_arrived < unit.alive_threads + unit.cluster_arrived_exited) return;
  unit.cluster_arrived = 0;
  unit.cluster_arrived_exited = 0;
  ++unit.cluster_phase;
  unit.cluster_knowledge = std::move(unit.cluster_gathering);
  unit.cluster_gathering = {};
  ++counters_.cluster_barriers;
  ++unit.events;
  for (const auto& block : unit.blocks) {
    block->cluster_passed = 0;
    for (Warp& warp : block->warps) {
      for (WarpSplit& f : warp.splits) {
        if (f.state == SplitState::cluster) f.state = SplitState::ready;
      }
    }
  }
}

/// barrier.cluster.wait; form 0: relaxed.
Interpreter::Step Interpreter::cluster_wait(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    if (warp_->cluster_arrivals[lane] > unit_->cluster_phase) return suspend(SplitState::cluster);
  }
  warp_->cluster_met |= lanes;
  UnitClock& clock = *unit_->clock;
  if (in.form != 0) {
    clock.acquire(warp_->agent, unit_->cluster_knowledge);
    acquired(Scope::cluster);
  }
  // Once every warp has passed, all that the block did before its first arrival is behind it.
  block_->cluster_passed += std::popcount(lanes);
  if (in.form != 0 && block_->cluster_passed == block_->alive_threads) {
    clock.raise_block_floor(block_->rank, block_->cluster_first_arrival);
  }
  if (block_->cluster_passed == block_->alive_threads) block_->cluster_first_arrival = 0;
  ++unit_->events;
  return Step::next;
}

/// fence, membar: form 0 memory (detail: scope), 1 proxy, 2 mbarrier_init.
Interpreter::Step Interpreter::fence(const Instruction& in, std::uint32_t) {
  constexpr std::uint8_t memory = 0;
  constexpr std::uint8_t proxy = 1;
  if (in.form == proxy) {
    block_->proxy_fence = unit_->clock->now() + 1;
    unit_->clock->advance();
  } else if (in.form == memory) {
    const auto scope = in.detail_as<Scope>();
    acquired(scope);
    if (context_.times_matter && (scope == Scope::device || scope == Scope::system)) unit_->clock->fence(warp_->agent);
  }
  return Step::next;
}

}  // namespace stitch::emulator
