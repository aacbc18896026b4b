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

const std::array<Interpreter::Handler, static_cast<std::size_t>(Opcode::wgmma_wait) + 1>& Interpreter::handlers() {
  using I = Interpreter;
  // In the order of Opcode.
  static constexpr std::array<Handler, static_cast<std::size_t>(Opcode::wgmma_wait) + 1> table = {
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
  };
  return table;
}

std::unique_ptr<Unit> Interpreter::make_unit(std::uint32_t first_ordinal) {
  std::unique_ptr<Unit> unit;
  if (spare_.empty()) {
    unit = std::make_unique<Unit>();
  } else {
    unit = std::move(spare_.back());
    spare_.pop_back();
    auto blocks = std::move(unit->blocks);
    *unit = Unit{};
    unit->blocks = std::move(blocks);
  }
  const std::uint32_t count = context_.blocks_per_unit;
  unit->clock = std::make_unique<UnitClock>(first_ordinal, count, context_.warps_per_block);
  unit->alive_threads = count * context_.threads_per_block;
  while (unit->blocks.size() < count) unit->blocks.push_back(std::make_unique<Block>());
  for (std::uint32_t i = 0; i < count; ++i) {
    unit->blocks[i]->rank = i;
    start_block(*unit, *unit->blocks[i], first_ordinal + i);
  }
  counters_.blocks += count;
  return unit;
}

void Interpreter::start_block(Unit& unit, Block& block, std::uint32_t ordinal) {
  const Dim3& grid = context_.config.grid;
  block.ordinal = ordinal;
  block.linear = context_.blocks[ordinal];
  block.index = {static_cast<std::uint32_t>(block.linear % grid.x),
                 static_cast<std::uint32_t>(block.linear / grid.x % grid.y),
                 static_cast<std::uint32_t>(block.linear / (std::uint64_t{grid.x} * grid.y))};
  block.alive_threads = context_.threads_per_block;
  block.shared.reset(block.rank, context_.shared_bytes, code_.shared_granule);
  block.l1.reset(l1_share(std::uint64_t{grid.x} * grid.y * grid.z, context_.threads_per_block, context_.shared_bytes));
  block.barriers = {};
  block.mbarriers.clear();
  block.proxy_fence = 0;
  block.remote_accesses.clear();
  block.cluster_passed = 0;
  block.cluster_first_arrival = 0;
  const std::uint32_t warps = context_.warps_per_block;
  block.registers.reserve(std::size_t{warps} * code_.register_bytes);
  const std::size_t local_per_warp = std::size_t{code_.local_bytes} * 32;
  block.local.assign(local_per_warp * warps, std::byte{0xCD});
  block.local_written.assign(local_per_warp * warps, 0);
  // Registers that may be read before they are written hold the same bytes every time.
  if (!code_.tracked_registers.empty())
    std::memset(block.registers.data(), 0xCD, std::size_t{warps} * code_.register_bytes);
  block.warps.resize(warps);
  for (std::uint32_t i = 0; i < warps; ++i) {
    Warp fresh;
    fresh.fragments = std::move(block.warps[i].fragments);
    fresh.copies = std::move(block.warps[i].copies);
    fresh.fragments.clear();
    fresh.copies.clear();
    fresh.index = i;
    fresh.agent = unit.clock->agent(block.rank, i);
    const std::uint32_t left = context_.threads_per_block - i * 32;
    fresh.launched = left >= 32 ? 0xFFFFFFFFU : (1U << left) - 1;
    fresh.alive = fresh.launched;
    fresh.registers = block.registers.data() + std::size_t{i} * code_.register_bytes;
    fresh.local = block.local.data() + local_per_warp * i;
    fresh.local_written = block.local_written.data() + local_per_warp * i;
    for (const TrackedRegister& tracked : code_.tracked_registers) std::memset(fresh.registers + tracked.written, 0, 4);
    fresh.fragments.push_back({code_.entry, fresh.launched, FragmentState::ready, false, 0, 0});
    block.warps[i] = std::move(fresh);
  }
}

void Interpreter::use(Block& block, Warp& warp) {
  block_ = &block;
  warp_ = &warp;
  bases_[0] = warp.registers;
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
        if (std::ranges::any_of(warp.fragments, [](const Fragment& f) { return f.state == FragmentState::polling; })) {
          return UnitState::parked;
        }
      }
    }
    return UnitState::stuck;
  }
}

/// Runs the warp's fragments until none is ready; false when there was nothing to run.
bool Interpreter::run_warp(Warp& warp) {
  for (Fragment& f : warp.fragments) {
    if (f.state == FragmentState::polling) f.state = FragmentState::ready;
  }
  bool ran = false;
  for (;;) {
    const std::size_t next = pick_fragment();
    if (next == warp.fragments.size()) return ran;
    ran = true;
    quantum_ = turn_length;
    turn_start_ = executed_;
    run_fragment(next);
    warp.executed += executed_ - turn_start_;
    if (context_.stop.load(std::memory_order_relaxed)) return ran;
  }
}

/// The ready fragment with the smallest index, joined with those at the same place; sets limit_.
std::size_t Interpreter::pick_fragment() {
  auto& fragments = warp_->fragments;
  limit_ = 0xFFFFFFFF;
  if (fragments.size() == 1) return fragments[0].state == FragmentState::ready ? 0 : 1;
  std::size_t best = fragments.size();
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (fragments[i].state != FragmentState::ready) continue;
    if (best == fragments.size() || fragments[i].pc < fragments[best].pc) best = i;
  }
  if (best == fragments.size()) return best;
  for (std::size_t i = best + 1; i < fragments.size();) {
    if (fragments[i].state == FragmentState::ready && fragments[i].pc == fragments[best].pc) {
      fragments[best].lanes |= fragments[i].lanes;
      fragments.erase(fragments.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (i != best && fragments[i].state == FragmentState::ready) limit_ = std::min(limit_, fragments[i].pc);
  }
  return best;
}

void Interpreter::run_fragment(std::size_t index) {
  fragment_ = index;
  pc_ = fragment().pc;
  active_ = fragment().lanes;
  const Instruction* code = code_.instructions.data();
  const auto& table = handlers();
  for (;;) {
    if (pc_ >= limit_) {
      fragment().pc = pc_;
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
      count.lanes += lanes == 0xFFFFFFFF ? 32 : static_cast<std::uint64_t>(std::popcount(lanes));
    }
    switch (step) {
      case Step::next: ++pc_; break;
      case Step::jump: break;
      case Step::poll:
        fragment().pc = pc_ + 1;
        fragment().state = FragmentState::polling;
        return;
      case Step::left:
      case Step::wait: return;
    }
    if (quantum_ <= 0) {
      // A long loop: let others run, but count it as getting on.
      ++unit_->events;
      fragment().pc = pc_;
      fragment().state = FragmentState::polling;
      return;
    }
  }
}

/// `lanes` of the running fragment go on at `pc` on their own.
void Interpreter::split(std::uint32_t lanes, std::uint32_t pc) {
  warp_->fragments.push_back({pc, lanes, FragmentState::ready, false, 0, 0});
  fragment().lanes &= ~lanes;
  active_ &= ~lanes;
}

Interpreter::Step Interpreter::suspend(FragmentState state) {
  fragment().pc = pc_;
  fragment().state = state;
  return Step::wait;
}

/// Joins fragments of the warp that wait for each other at one instruction; whether any may go on now.
bool Interpreter::settle(Warp& warp) {
  bool released = false;
  std::uint32_t at_warp_barriers = 0;
  for (const Fragment& f : warp.fragments) {
    if (f.state == FragmentState::gathering && code_.instructions[f.pc].opcode == Opcode::warp_barrier)
      at_warp_barriers |= f.lanes;
  }
  for (std::size_t i = 0; i < warp.fragments.size(); ++i) {
    Fragment& first = warp.fragments[i];
    if (first.state != FragmentState::gathering) continue;
    std::uint32_t here = first.lanes;
    for (const Fragment& other : warp.fragments) {
      if (other.state == FragmentState::gathering && other.pc == first.pc) here |= other.lanes;
    }
    const std::uint32_t needed = first.needed & warp.alive;
    if ((needed & ~here) == 0) {
      first.lanes = here;
      first.state = FragmentState::ready;
      const std::uint32_t pc = first.pc;
      std::erase_if(warp.fragments,
                    [&](const Fragment& f) { return f.state == FragmentState::gathering && f.pc == pc; });
      released = true;
    } else if (code_.instructions[first.pc].opcode == Opcode::warp_barrier && (needed & ~at_warp_barriers) == 0) {
      // bar.warp.sync may be reached at different places, as in the two arms of a branch.
      first.state = FragmentState::ready;
      first.forced = true;
      released = true;
    }
  }
  return released;
}

/// Nothing moves: lanes that wait for lanes which cannot come are reported and go on without them.
bool Interpreter::force_gathering(Unit& unit) {
  bool forced = false;
  for (const auto& block : unit.blocks) {
    for (Warp& warp : block->warps) {
      const auto is_polling = [](const Fragment& f) { return f.state == FragmentState::polling; };
      if (std::ranges::any_of(warp.fragments, is_polling)) continue;
      for (Fragment& f : warp.fragments) {
        if (f.state != FragmentState::gathering) continue;
        use(*block, warp);
        pc_ = f.pc;
        const std::uint32_t missing = f.needed & warp.alive & ~f.lanes;
        std::string elsewhere;
        for (const Fragment& other : warp.fragments) {
          if (&other == &f || (other.lanes & missing) == 0) continue;
          elsewhere += fmt::format("; lanes 0x{:08x} wait at PTX line {}", other.lanes & missing,
                                   code_.origins[other.pc].ptx_line);
        }
        report(Detector::divergent_barrier, static_cast<std::uint32_t>(std::countr_zero(f.lanes)), [&] {
          return fmt::format("lanes 0x{:08x} of warp {} wait for lanes 0x{:08x}, which do not get here{}", f.lanes,
                             warp.index, missing, elsewhere);
        });
        f.state = FragmentState::ready;
        f.forced = true;
        forced = true;
      }
    }
  }
  return forced;
}

namespace {

/// Whether a register's contents matter at once: they address memory, are stored or decide a branch. Arithmetic on a
/// register that was never written is no defect by itself: compilers speculate it past a branch and drop the result.
bool observes_registers(InstructionClass kind) {
  switch (kind) {
    case InstructionClass::integer:
    case InstructionClass::f32:
    case InstructionClass::f64:
    case InstructionClass::f16:
    case InstructionClass::special_function:
    case InstructionClass::conversion:
    case InstructionClass::move:
    case InstructionClass::shuffle: return false;
    default: return true;
  }
}

}  // namespace

void Interpreter::check_tracked(const Instruction& in, std::uint32_t lanes) {
  const TrackedUse& use = code_.tracked_uses[pc_];
  const bool observed = observes_registers(in.kind);
  for (const std::uint32_t index : use.reads) {
    if (!observed) break;
    const TrackedRegister& tracked = code_.tracked_registers[index];
    const std::uint32_t missing = lanes & ~mask_of(tracked.written);
    if (missing == 0) continue;
    report(Detector::uninitialised_read, static_cast<std::uint32_t>(std::countr_zero(missing)),
           [&] { return fmt::format("register {} was never written", tracked.name); });
  }
  for (const std::uint32_t index : use.writes) set_mask(code_.tracked_registers[index].written, lanes, 0xFFFFFFFF);
}

/// Accumulators of a wgmma that was not waited for must not be touched.
void Interpreter::check_products(const Instruction& in, std::uint32_t lanes) {
  if (in.opcode == Opcode::wgmma || in.opcode == Opcode::wgmma_wait) return;
  const auto in_flight = [this](Slot slot) {
    return slot != no_slot &&
           std::ranges::find(warp_->products, slot, &Warp::InFlightRegister::slot) != warp_->products.end();
  };
  bool touched = false;
  for (const Slot slot : {in.d, in.a, in.b, in.c, in.e}) touched |= in_flight(slot);
  for (std::uint32_t i = 0; i < in.list_count; ++i) touched |= in_flight(code_.lists[in.list + i]);
  if (!touched) return;
  report(Detector::async_before_wait, static_cast<std::uint32_t>(std::countr_zero(lanes)),
         [] { return std::string("a register of a wgmma is used before wgmma.wait_group"); });
}

ThreadPlace Interpreter::place(std::uint32_t lane) const {
  const Dim3& shape = context_.config.block;
  const std::uint32_t thread = warp_->index * 32 + lane;
  return {block_->index,
          {thread % shape.x, thread / shape.x % shape.y, thread / (shape.x * shape.y)},
          block_->linear * context_.threads_per_block + thread};
}

std::string Interpreter::name_agent(const Unit& unit, std::uint32_t agent) const {
  const std::uint32_t block = unit.clock->block_of(agent);
  const std::uint32_t warp = agent - unit.clock->agent(block, 0);
  const std::string of_block = unit.blocks.size() > 1 ? fmt::format(" of block rank {}", block) : std::string();
  if (agent == unit.clock->async_agent(block)) return fmt::format("an asynchronous copy{}", of_block);
  return fmt::format("warp {}{}", warp, of_block);
}

void Interpreter::report_deadlock(Unit& unit) {
  unit_ = &unit;
  for (const auto& block : unit.blocks) {
    for (Warp& warp : block->warps) {
      for (const Fragment& f : warp.fragments) {
        if (warp.alive == 0) continue;
        use(*block, warp);
        pc_ = f.state == FragmentState::polling && f.pc > 0 ? f.pc - 1 : f.pc;
        const char* what = f.state == FragmentState::barrier     ? "wait at a barrier that not all threads reach"
                           : f.state == FragmentState::cluster   ? "wait at a cluster barrier that not all blocks reach"
                           : f.state == FragmentState::gathering ? "wait for other lanes of their warp"
                                                                 : "spin on memory that nobody will change";
        report(Detector::deadlock, static_cast<std::uint32_t>(std::countr_zero(f.lanes)),
               [&] { return fmt::format("lanes 0x{:08x} of warp {} {}", f.lanes, warp.index, what); });
      }
    }
  }
}

}  // namespace stitch::emulator
