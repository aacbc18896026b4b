#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/lanes/float_format.h"
#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// A group of lanes meets at a .sync instruction whose mask is `named`: their earlier memory accesses are ordered.
void Interpreter::meet(std::uint32_t named, std::uint32_t group) {
  WarpSplit& here = current_split();
  const bool at_several_places = here.forced && code_.instructions[pc_].opcode == Opcode::warp_barrier;
  if ((group & ~named) != 0) {
    report(Detector::invalid_use, std::countr_zero(group & ~named), [&] {
      return fmt::format("lanes 0x{:08x} execute a .sync instruction whose mask 0x{:08x} leaves them out",
                         group & ~named, named);
    });
  }
  const std::uint32_t met = at_several_places ? named & warp_->alive : group;
  unit_->clock->synchronise_lanes(warp_->agent, met, met == warp_->alive);
}

/// Instructions with .sync: calls use(members) for the lanes of each mask once all live lanes of it are here. Lanes of
/// one warp may execute it with different masks (the tiles of a partitioned warp); groups that are not complete wait.
template <class F>
Interpreter::Step Interpreter::for_each_group(Slot mask, std::uint32_t lanes, F&& use) {
  const auto* masks = row_of<std::uint32_t>(mask);
  struct Group {
    std::uint32_t lanes = 0;
    std::uint32_t needed = 0;
  };
  std::array<Group, 32> waiting;
  std::uint32_t waiting_count = 0;
  const bool forced = current_split().forced;
  for (std::uint32_t rest = lanes; rest != 0;) {
    const std::uint32_t named = masks[std::countr_zero(rest)];
    std::uint32_t group = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (((rest >> lane) & 1) != 0 && masks[lane] == named) group |= 1U << lane;
    }
    rest &= ~group;
    if (const std::uint32_t needed = named & warp_->alive; (needed & ~group) != 0 && !forced) {
      waiting[waiting_count++] = {group, needed};
      continue;
    }
    meet(named, group);
    use(group);
  }
  if (waiting_count == 0) {
    current_split().forced = false;
    return Step::next;
  }
  if (waiting_count == 1 && waiting[0].lanes == lanes) {
    current_split().needed = waiting[0].needed;
    suspend(SplitState::gathering);
    settle(*warp_);
    return Step::wait;
  }
  // Those that are complete, and lanes whose guard is off, go on.
  current_split().pc = pc_ + 1;
  for (std::uint32_t i = 0; i < waiting_count; ++i) {
    split_off(waiting[i].lanes, pc_);
    warp_->splits.back().state = SplitState::gathering;
    warp_->splits.back().needed = waiting[i].needed;
  }
  if (current_split().lanes == 0) warp_->splits.erase(warp_->splits.begin() + static_cast<std::ptrdiff_t>(split_));
  settle(*warp_);
  return Step::left;
}

/// d = a of another lane; d2 = whether that lane was in range. b: offset or index, c: clamp and segment mask, e: mask.
Interpreter::Step Interpreter::shuffle(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.e, lanes, [&](std::uint32_t members) { shuffle_group(in, members); });
}

void Interpreter::shuffle_group(const Instruction& in, std::uint32_t members) {
  std::array<std::uint32_t, 32> a{};
  std::array<std::uint32_t, 32> b{};
  std::array<std::uint32_t, 32> c{};
  std::memcpy(a.data(), row(in.a), sizeof(a));
  std::memcpy(b.data(), row(in.b), sizeof(b));
  std::memcpy(c.data(), row(in.c), sizeof(c));
  const auto mode = in.form_as<ShuffleMode>();
  std::array<std::uint32_t, 32> result{};
  std::uint32_t in_range = 0;
  std::uint32_t off = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::int32_t offset = b[lane] & 31;
    const std::int32_t clamp = c[lane] & 31;
    const std::int32_t segment = (c[lane] >> 8) & 31;
    const std::int32_t self = lane;
    const std::int32_t highest = (self & segment) | (clamp & ~segment);
    const std::int32_t lowest = self & segment;
    std::int32_t from = 0;
    bool inside = false;
    switch (mode) {
      case ShuffleMode::up:
        from = self - offset;
        inside = from >= highest;
        break;
      case ShuffleMode::down:
        from = self + offset;
        inside = from <= highest;
        break;
      case ShuffleMode::butterfly:
        from = self ^ offset;
        inside = from <= highest;
        break;
      case ShuffleMode::index:
        from = lowest | (offset & ~segment);
        inside = from <= highest;
        break;
    }
    if (!inside) from = self;
    result[lane] = a[from];
    in_range |= (inside ? 1U : 0U) << lane;
    const bool source_off = ((members >> from) & 1) == 0;
    if (((members >> lane) & 1) != 0 && source_off) off |= 1U << lane;
  }
  if (off != 0) {
    const std::uint32_t lane = std::countr_zero(off);
    // Reading a lane that never existed or has left is only wrong if somebody uses the value: common in short blocks.
    const std::uint32_t gone = ~warp_->alive;
    if ((members | gone) != 0xFFFFFFFF) {
      report(Detector::invalid_use, lane,
             [&] { return fmt::format("lanes 0x{:08x} shuffle from lanes that take no part", off); });
    }
  }
  set_row(in.d, members, result.data());
  if (in.d2 != no_slot) set_mask(in.d2, members, in_range);
}

Interpreter::Step Interpreter::vote(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.e, lanes, [&](std::uint32_t members) {
    const std::uint32_t ballot = mask_of(in.a) & members;
    switch (in.form_as<VoteMode>()) {
      case VoteMode::all: set_mask(in.d, members, ballot == members ? ~0U : 0U); break;
      case VoteMode::any: set_mask(in.d, members, ballot != 0 ? ~0U : 0U); break;
      case VoteMode::uniform: set_mask(in.d, members, ballot == members || ballot == 0 ? ~0U : 0U); break;
      case VoteMode::ballot: {
        std::array<std::uint32_t, 32> values;
        values.fill(ballot);
        set_row(in.d, members, values.data());
        break;
      }
    }
  });
}

Interpreter::Step Interpreter::match(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.e, lanes, [&](std::uint32_t members) { match_group(in, members); });
}

void Interpreter::match_group(const Instruction& in, std::uint32_t members) {
  std::array<std::uint64_t, 32> a{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    a[lane] = in.immediate == 8 ? row_of<std::uint64_t>(in.a)[lane] : row_of<std::uint32_t>(in.a)[lane];
  }
  std::array<std::uint32_t, 32> same{};
  bool all = true;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((members >> lane) & 1) == 0) continue;
    for (std::uint32_t other = 0; other < 32; ++other) {
      if (((members >> other) & 1) != 0 && a[other] == a[lane]) same[lane] |= 1U << other;
    }
    all &= same[lane] == members;
  }
  if (in.form == 1) same.fill(all ? members : 0);
  set_row(in.d, members, same.data());
  if (in.d2 != no_slot) set_mask(in.d2, members, all ? ~0U : 0U);
}

namespace {

template <class T>
T reduce_integers(LaneReduction operation, const T* values, std::uint32_t members) {
  using U = std::make_unsigned_t<T>;
  U result = 0;
  bool first = true;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((members >> lane) & 1) == 0) continue;
    const U value = values[lane];
    if (first) {
      result = value;
      first = false;
      continue;
    }
    switch (operation) {
      case LaneReduction::add: result += value; break;
      case LaneReduction::min: result = std::min<T>(result, value); break;
      case LaneReduction::max: result = std::max<T>(result, value); break;
      case LaneReduction::bit_and: result &= value; break;
      case LaneReduction::bit_or: result |= value; break;
      case LaneReduction::bit_xor: result ^= value; break;
      default: break;
    }
  }
  return result;
}

float reduce_floats(LaneReduction operation, const float* values, std::uint32_t members) {
  const bool largest = operation == LaneReduction::max || operation == LaneReduction::max_nan;
  const bool keeps_nan = operation == LaneReduction::max_nan || operation == LaneReduction::min_nan;
  float result = std::numeric_limits<float>::quiet_NaN();
  bool any_nan = false;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((members >> lane) & 1) == 0) continue;
    any_nan |= std::isnan(values[lane]);
    result = largest ? larger(result, values[lane]) : smaller(result, values[lane]);
  }
  return canonical(keeps_nan && any_nan ? std::numeric_limits<float>::quiet_NaN() : result);
}

}  // namespace

/// redux.sync; immediate: 0 unsigned, 1 signed, 2 f32.
Interpreter::Step Interpreter::reduce_lanes(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.e, lanes, [&](std::uint32_t members) {
    const auto operation = in.form_as<LaneReduction>();
    std::uint32_t value = 0;
    if (in.immediate == 2) {
      value = std::bit_cast<std::uint32_t>(reduce_floats(operation, row_of<float>(in.a), members));
    } else if (in.immediate == 1) {
      value = reduce_integers(operation, row_of<std::int32_t>(in.a), members);
    } else {
      value = reduce_integers(operation, row_of<std::uint32_t>(in.a), members);
    }
    std::array<std::uint32_t, 32> values;
    values.fill(value);
    set_row(in.d, members, values.data());
  });
}

Interpreter::Step Interpreter::active_mask(const Instruction& in, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> values;
  values.fill(lanes);
  set_row(in.d, lanes, values.data());
  return Step::next;
}

/// The lowest member is the leader.
Interpreter::Step Interpreter::elect(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.e, lanes, [&](std::uint32_t members) {
    const std::uint32_t leader = std::countr_zero(members);
    std::array<std::uint32_t, 32> values;
    values.fill(leader);
    set_row(in.d, members, values.data());
    set_mask(in.d2, members, 1U << leader);
  });
}

/// bar.warp.sync a.
Interpreter::Step Interpreter::warp_barrier(const Instruction& in, std::uint32_t lanes) {
  return for_each_group(in.a, lanes, [&](std::uint32_t) { ++counters_.warp_barriers; });
}

}  // namespace stitch::emulator
