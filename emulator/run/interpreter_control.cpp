#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

Interpreter::Step Interpreter::branch(const Instruction& in, std::uint32_t lanes) {
  if (lanes == active_) {
    if (in.target <= pc_) --quantum_;
    pc_ = in.target;
    return Step::jump;
  }
  current_split().pc = pc_ + 1;
  split_off(lanes, in.target);
  // A lane that stays in a tight loop must not keep the others from their turn either.
  if (in.target <= pc_ && --quantum_ <= 0) {
    ++unit_->events;
    warp_->splits.back().state = SplitState::polling;
  }
  return Step::left;
}

/// Lanes go to different instructions: one split per target.
Interpreter::Step Interpreter::go_to(std::span<const std::uint32_t, 32> targets, std::uint32_t lanes) {
  const std::uint32_t stays = active_ & ~lanes;
  std::uint32_t rest = lanes;
  bool first = stays == 0;
  current_split().pc = pc_ + 1;
  while (rest != 0) {
    const std::uint32_t target = targets[std::countr_zero(rest)];
    std::uint32_t together = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (((rest >> lane) & 1) != 0 && targets[lane] == target) together |= 1U << lane;
    }
    rest &= ~together;
    if (first && rest == 0 && together == active_) {
      if (target <= pc_) --quantum_;
      pc_ = target;
      return Step::jump;
    }
    if (first) {
      // The first group keeps this split; the others leave it.
      current_split().pc = target;
      first = false;
      continue;
    }
    split_off(together, target);
  }
  return Step::left;
}

Interpreter::Step Interpreter::branch_indexed(const Instruction& in, std::uint32_t lanes) {
  const auto& table = code_.branch_tables[in.target];
  const auto* index = row_of<std::uint32_t>(in.a);
  std::array<std::uint32_t, 32> targets{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    if (index[lane] >= table.size()) {
      report(Detector::invalid_use, lane,
             [&] { return fmt::format("brx.idx with index {} of {} targets", index[lane], table.size()); });
    }
    targets[lane] = table[std::min<std::size_t>(index[lane], table.size() - 1)];
  }
  return go_to(targets, lanes);
}

Interpreter::Step Interpreter::call(const Instruction& in, std::uint32_t lanes) {
  const DecodedFunction& callee = code_.functions[in.target];
  auto* return_address = row_of<std::uint32_t>(callee.return_address);
  std::array<std::uint32_t, 32> targets{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0) return_address[lane] = pc_ + 1;
    targets[lane] = callee.entry;
  }
  return go_to(targets, lanes);
}

Interpreter::Step Interpreter::function_return(const Instruction& in, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> targets{};
  std::memcpy(targets.data(), row(in.a), sizeof(targets));
  return go_to(targets, lanes);
}

void Interpreter::retire(std::uint32_t lanes) {
  const std::uint32_t count = std::popcount(lanes);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0 && warp_->cluster_arrivals[lane] > unit_->cluster_phase)
      ++unit_->cluster_arrived_exited;
  }
  warp_->alive &= ~lanes;
  block_->alive_threads -= count;
  unit_->alive_threads -= count;
  ++unit_->events;
  if (warp_->alive != 0) settle(*warp_);
  if (block_->alive_threads == 0) {
    check_block_end(*block_);
  } else {
    complete_barriers(*unit_, *block_);
  }
  if (unit_->alive_threads != 0) complete_cluster_barrier(*unit_);
}

Interpreter::Step Interpreter::exit(const Instruction& /*in*/, std::uint32_t lanes) {
  // Lanes that stay go on behind a guarded exit.
  current_split().lanes &= ~lanes;
  current_split().pc = pc_ + 1;
  active_ &= ~lanes;
  if (current_split().lanes == 0) warp_->splits.erase(warp_->splits.begin() + split_);
  retire(lanes);
  return Step::left;
}

/// What a block must not leave undone: copies out of its shared memory, and other blocks still looking into it.
void Interpreter::check_block_end(Block& block) {
  Warp* last = warp_;
  for (Warp& warp : block.warps) {
    warp_ = &warp;
    for (const PendingBulk& copy : warp.bulk_stores) {
      reporter_.report(Detector::async_before_wait, copy.instruction, place(copy.lane), [] {
        return std::string(
            "the block ends while this copy still reads its shared memory (no cp.async.bulk.wait_group)");
      });
    }
  }
  warp_ = last;
  if (const std::uint32_t columns = block.tensor.taken(); columns != 0) {
    report(Detector::invalid_use, 0, [&] {
      return fmt::format("the block ends with {} columns of tensor memory allocated (no tcgen05.dealloc)", columns);
    });
  }
  for (const auto& [agent, time] : block.remote_accesses) {
    const bool known = std::ranges::any_of(block.warps, [&, other = agent, when = time](const Warp& warp) {
      return unit_->clock->ordered(warp.agent, other, when);
    });
    if (known) continue;
    report(Detector::cluster_lifetime, 0, [&, other = agent] {
      return fmt::format(
          "the block ends although {} may still access its shared memory (no cluster barrier after the access)",
          name_agent(*unit_, other));
    });
    break;
  }
}

Interpreter::Step Interpreter::trap(const Instruction& /*in*/, std::uint32_t lanes) {
  report(Detector::trap, std::countr_zero(lanes), [] { return std::string("trap instruction"); });
  context_.stop = true;
  current_split().pc = pc_;
  return Step::left;
}

/// vprintf's output is dropped: its result reads as zero. A failed assertion traps.
Interpreter::Step Interpreter::device_call(const Instruction& in, std::uint32_t lanes) {
  constexpr std::uint8_t print = 0;
  if (in.form != print) {
    report(Detector::trap, std::countr_zero(lanes), [] { return std::string("device assertion failed"); });
    context_.stop = true;
    current_split().pc = pc_;
    return Step::left;
  }
  if (in.list_count == 0) return Step::next;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::size_t at = std::size_t{lane} * code_.local_bytes + in.immediate;
    std::memset(warp_->local + at, 0, 4);
    std::memset(warp_->local_written + at, 1, 4);
  }
  return Step::next;
}

/// A sleeping warp gets on, unless it sleeps between looks at something that does not change.
/// Whoever saw nothing new goes on to look again: parked here, it would have missed what was written since it looked.
Interpreter::Step Interpreter::pause(const Instruction&, std::uint32_t) {
  if (warp_->poll.unchanged) return Step::next;
  ++unit_->events;
  return Step::poll;
}

Interpreter::Step Interpreter::nothing(const Instruction&, std::uint32_t) { return Step::next; }

/// What the launch depends on has ended: nothing is left to wait for.
Interpreter::Step Interpreter::grid_wait(const Instruction&, std::uint32_t) {
  if (context_.early == nullptr || warp_->waited_for_grid) return Step::next;
  warp_->waited_for_grid = true;
  unit_->grid_waits.push_back({warp_->agent, unit_->clock->now()});
  unit_->clock->advance();
  context_.early->note_wait();
  return Step::next;
}

/// Whether nothing tells the running warp that what the launch depends on has ended. Lanes of it count as one.
bool Interpreter::is_early() const {
  if (context_.early == nullptr || warp_->waited_for_grid) return false;
  return std::ranges::none_of(unit_->grid_waits, [&](const Unit::GridWait& wait) {
    return unit_->clock->ordered(warp_->agent, wait.agent, wait.time);
  });
}

}  // namespace stitch::emulator
