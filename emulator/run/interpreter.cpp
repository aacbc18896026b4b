#include "emulator/run/interpreter.h"

#include <algorithm>

namespace stitch::emulator {
namespace {

/// Backward jumps that a warp makes before others get their turn.
constexpr std::int64_t turn_length = 4096;

}  // namespace

Interpreter::Interpreter(LaunchContext& context)
    : context_(context), code_(*context.code), reporter_(*context.code, context.checks) {
  bases_[1] = context.constants.data();
}

const std::array<Interpreter::Handler, opcode_count>& Interpreter::handlers() {
  using I = Interpreter;
  // In the order of Opcode.
  static constexpr std::array<Handler, opcode_count> table = {
      &I::lane,
      &I::special,
      &I::load,
      &I::store,
      &I::atomic,
      &I::to_generic,
      &I::from_generic,
      &I::is_space,
      &I::map_shared,
      &I::block_rank,
      &I::branch,
      &I::branch_indexed,
      &I::call,
      &I::function_return,
      &I::exit,
      &I::trap,
      &I::device_call,
      &I::pause,
      &I::nothing,
      &I::grid_wait,
      &I::barrier,
      &I::warp_barrier,
      &I::cluster_arrive,
      &I::cluster_wait,
      &I::fence,
      &I::shuffle,
      &I::vote,
      &I::match,
      &I::reduce_lanes,
      &I::active_mask,
      &I::elect,
      &I::copy_async,
      &I::copy_async_commit,
      &I::copy_async_wait,
      &I::copy_async_arrive,
      &I::mbarrier_init,
      &I::mbarrier_invalidate,
      &I::mbarrier_arrive,
      &I::mbarrier_test,
      &I::mbarrier_count,
      &I::bulk_copy,
      &I::bulk_commit,
      &I::bulk_wait,
      &I::store_async,
      &I::load_matrix,
      &I::store_matrix,
      &I::mma,
      &I::wgmma,
      &I::wgmma_fence,
      &I::wgmma_commit,
      &I::wgmma_wait,
      &I::tensor_copy,
      &I::tensor_map_replace,
      &I::tensor_map_copy,
      &I::tmem_allocation,
      &I::tmem_load,
      &I::tmem_store,
      &I::tmem_wait,
      &I::tmem_fence,
      &I::tmem_copy,
      &I::tmem_shift,
      &I::tmem_commit,
      &I::tmem_product,
  };
  return table;
}

void Interpreter::use(Block& block, Warp& warp) {
  block_ = &block;
  warp_ = &warp;
  bases_[0] = warp.registers;
  bases_[1] = context_.constants.data() + block.rank * context_.constant_bytes;
}

/// Tells the launch how many instructions ran; false when it has to stop.
bool Interpreter::tell_budget() {
  const std::uint64_t total = context_.instructions.fetch_add(executed_, std::memory_order_relaxed) + executed_;
  executed_ = 0;
  turn_start_ = 0;
  if (total > context_.instruction_budget) {
    context_.out_of_budget = true;
    context_.stop = true;
  }
  return !context_.stop.load(std::memory_order_relaxed);
}

Interpreter::UnitState Interpreter::run(Unit& unit) {
  unit_ = &unit;
  for (;;) {
    const std::uint64_t version = context_.version.load(std::memory_order_acquire);
    const std::uint64_t events = unit.events;
    const std::uint64_t global_events = unit.global_events;
    for (const auto& block : unit.blocks) {
      for (Warp& warp : block->warps) {
        if (warp.alive == 0) continue;
        use(*block, warp);
        run_warp(warp);
      }
    }
    if (unit.global_events != global_events) context_.version.fetch_add(1, std::memory_order_release);
    if (!tell_budget()) return UnitState::stopped;
    if (unit.alive_threads == 0) {
      context_.version.fetch_add(1, std::memory_order_release);
      return UnitState::done;
    }
    if (unit.yields) {
      unit.yields = false;
      unit.parked_version = ~std::uint64_t{0};
      return UnitState::parked;
    }
    if (unit.events != events || force_gathering(unit)) continue;
    unit.parked_version = version;
    for (const auto& block : unit.blocks) {
      for (const Warp& warp : block->warps) {
        if (std::ranges::any_of(warp.splits, [](const WarpSplit& f) { return f.state == SplitState::polling; })) {
          return UnitState::parked;
        }
      }
    }
    return UnitState::stuck;
  }
}

/// Runs the warp's splits until none is ready; false when there was nothing to run.
bool Interpreter::run_warp(Warp& warp) {
  for (WarpSplit& f : warp.splits) {
    if (f.state == SplitState::polling || f.state == SplitState::columns) f.state = SplitState::ready;
  }
  bool ran = false;
  for (;;) {
    const std::size_t next = pick_split();
    if (next == warp.splits.size()) return ran;
    ran = true;
    quantum_ = turn_length;
    turn_start_ = executed_;
    run_split(next);
    warp.executed += executed_ - turn_start_;
    if (context_.stop.load(std::memory_order_relaxed)) return ran;
  }
}

/// The ready split with the smallest index, joined with those at the same place; sets limit_.
std::size_t Interpreter::pick_split() {
  auto& splits = warp_->splits;
  limit_ = 0xFFFFFFFF;
  if (splits.size() == 1) return splits[0].state == SplitState::ready ? 0 : 1;
  std::size_t best = splits.size();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].state != SplitState::ready) continue;
    if (best == splits.size() || splits[i].pc < splits[best].pc) best = i;
  }
  if (best == splits.size()) return best;
  for (std::size_t i = best + 1; i < splits.size();) {
    if (splits[i].state == SplitState::ready && splits[i].pc == splits[best].pc) {
      splits[best].lanes |= splits[i].lanes;
      splits.erase(splits.begin() + i);
    } else {
      ++i;
    }
  }
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (i != best && splits[i].state == SplitState::ready) limit_ = std::min(limit_, splits[i].pc);
  }
  return best;
}

void Interpreter::run_split(std::size_t index) {
  split_ = index;
  pc_ = current_split().pc;
  active_ = current_split().lanes;
  const Instruction* code = code_.instructions.data();
  const auto& table = handlers();
  for (;;) {
    if (pc_ >= limit_) {
      current_split().pc = pc_;
      return;
    }
    const Instruction& in = code[pc_];
    std::uint32_t lanes = active_;
    if (in.guard != no_slot) lanes &= mask_of(in.guard) ^ (in.guard_inverted ? 0xFFFFFFFFU : 0U);
    ++executed_;
    Step step = Step::next;
    if (lanes != 0) {
      if (in.tracked) check_tracked(in, lanes);
      if (!warp_->products.empty()) check_products(in, lanes);
      step =
          in.opcode == Opcode::lane ? lane(in, lanes) : (this->*table[static_cast<std::size_t>(in.opcode)])(in, lanes);
      if (step == Step::wait) return;
    }
    if (in.counted) {
      InstructionCount& count = counters_.instructions[static_cast<std::size_t>(in.kind)];
      ++count.warps;
      // Spelled out: without a popcount instruction in the baseline this is a call into libgcc.
      count.lanes += lanes == 0xFFFFFFFF ? 32 : std::popcount(lanes);
    }
    switch (step) {
      case Step::next: ++pc_; break;
      case Step::jump: break;
      case Step::poll:
        current_split().pc = pc_ + 1;
        current_split().state = SplitState::polling;
        return;
      case Step::left:
      case Step::wait: return;
    }
    if (quantum_ <= 0) {
      // A long loop: let others run, but count it as getting on.
      ++unit_->events;
      current_split().pc = pc_;
      current_split().state = SplitState::polling;
      return;
    }
  }
}

}  // namespace stitch::emulator
