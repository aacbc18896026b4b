#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// `lanes` of the running split go on at `pc` on their own.
void Interpreter::split_off(std::uint32_t lanes, std::uint32_t pc) {
  warp_->splits.push_back({pc, lanes, SplitState::ready, false, 0, 0});
  current_split().lanes &= ~lanes;
  active_ &= ~lanes;
}

Interpreter::Step Interpreter::suspend(SplitState state) {
  current_split().pc = pc_;
  current_split().state = state;
  return Step::wait;
}

/// Joins splits of the warp that wait for each other at one instruction; whether any may go on now.
bool Interpreter::settle(Warp& warp) {
  bool released = false;
  std::uint32_t at_warp_barriers = 0;
  for (const WarpSplit& f : warp.splits) {
    if (f.state == SplitState::gathering && code_.instructions[f.pc].opcode == Opcode::warp_barrier)
      at_warp_barriers |= f.lanes;
  }
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    WarpSplit& first = warp.splits[i];
    if (first.state != SplitState::gathering) continue;
    std::uint32_t here = first.lanes;
    for (const WarpSplit& other : warp.splits) {
      if (other.state == SplitState::gathering && other.pc == first.pc) here |= other.lanes;
    }
    const std::uint32_t needed = first.needed & warp.alive;
    if ((needed & ~here) == 0) {
      first.lanes = here;
      first.state = SplitState::ready;
      const std::uint32_t pc = first.pc;
      std::erase_if(warp.splits, [&](const WarpSplit& f) { return f.state == SplitState::gathering && f.pc == pc; });
      released = true;
    } else if (code_.instructions[first.pc].opcode == Opcode::warp_barrier && (needed & ~at_warp_barriers) == 0) {
      // bar.warp.sync may be reached at different places, as in the two arms of a branch.
      first.state = SplitState::ready;
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
      const auto is_polling = [](const WarpSplit& f) { return f.state == SplitState::polling; };
      if (std::ranges::any_of(warp.splits, is_polling)) continue;
      for (WarpSplit& f : warp.splits) {
        if (f.state != SplitState::gathering) continue;
        use(*block, warp);
        pc_ = f.pc;
        const std::uint32_t missing = f.needed & warp.alive & ~f.lanes;
        std::string elsewhere;
        for (const WarpSplit& other : warp.splits) {
          if (&other == &f || (other.lanes & missing) == 0) continue;
          elsewhere += fmt::format("; lanes 0x{:08x} wait at PTX line {}", other.lanes & missing,
                                   code_.origins[other.pc].ptx_line);
        }
        report(Detector::divergent_barrier, std::countr_zero(f.lanes), [&] {
          return fmt::format("lanes 0x{:08x} of warp {} wait for lanes 0x{:08x}, which do not get here{}", f.lanes,
                             warp.index, missing, elsewhere);
        });
        f.state = SplitState::ready;
        f.forced = true;
        forced = true;
      }
    }
  }
  return forced;
}

/// An .aligned instruction is one of the whole warp: lanes that come to it early, because another still polls where
/// they parted, wait for it. Whether these do; lanes that cannot come are reported, and these go on.
bool Interpreter::awaits_warp() {
  WarpSplit& here = current_split();
  if (here.lanes == warp_->alive || here.forced) {
    here.forced = false;
    return false;
  }
  here.needed = warp_->alive;
  suspend(SplitState::gathering);
  settle(*warp_);
  return true;
}

}  // namespace stitch::emulator
