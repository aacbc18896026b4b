#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/lanes/float_format.h"
#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// Instructions with .sync: all live lanes of the mask have to be here. On true, `members` are the lanes that take
/// part and their earlier memory accesses are ordered.
bool Interpreter::meet(Slot mask, std::uint32_t lanes, std::uint32_t& members) {
  const std::uint32_t first = std::countr_zero(lanes);
  const std::uint32_t named = row_of<std::uint32_t>(mask)[first];
  const std::uint32_t needed = named & warp_->alive;
  WarpSplit& here = current_split();
  if ((needed & ~lanes) != 0 && !here.forced) {
    here.needed = needed;
    suspend(SplitState::gathering);
    settle(*warp_);
    return false;
  }
  const bool at_several_places = here.forced && code_.instructions[pc_].opcode == Opcode::warp_barrier;
  here.forced = false;
  if ((lanes & ~named) != 0) {
    report(Detector::invalid_use, std::countr_zero(lanes & ~named), [&] {
      return fmt::format("lanes 0x{:08x} execute a .sync instruction whose mask 0x{:08x} leaves them out",
                         lanes & ~named, named);
    });
  }
  members = lanes;
  const std::uint32_t met = at_several_places ? needed : lanes;
  unit_->clock->synchronise_lanes(warp_->agent, met, met == warp_->alive);
  return true;
}

/// d = a of another lane; d2 = whether that lane was in range. b: offset or index, c: clamp and segment mask, e: mask.
Interpreter::Step Interpreter::shuffle(const Instruction& in, std::uint32_t lanes) {
  std::uint32_t members = 0;
  if (!meet(in.e, lanes, members)) return Step::wait;
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
    if (((lanes >> lane) & 1) != 0 && source_off) off |= 1U << lane;
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
  set_row(in.d, lanes, result.data());
  if (in.d2 != no_slot) set_mask(in.d2, lanes, in_range);
  return Step::next;
}

Interpreter::Step Interpreter::vote(const Instruction& in, std::uint32_t lanes) {
  std::uint32_t members = 0;
  if (!meet(in.e, lanes, members)) return Step::wait;
  const std::uint32_t ballot = mask_of(in.a) & members;
  switch (in.form_as<VoteMode>()) {
    case VoteMode::all: set_mask(in.d, lanes, ballot == members ? ~0U : 0U); break;
    case VoteMode::any: set_mask(in.d, lanes, ballot != 0 ? ~0U : 0U); break;
    case VoteMode::uniform: set_mask(in.d, lanes, ballot == members || ballot == 0 ? ~0U : 0U); break;
    case VoteMode::ballot: {
      std::array<std::uint32_t, 32> values;
      values.fill(ballot);
      set_row(in.d, lanes, values.data());
      break;
    }
  }
  return Step::next;
}

Interpreter::Step Interpreter::match(const Instruction& in, std::uint32_t lanes) {
  std::uint32_t members = 0;
  if (!meet(in.e, lanes, members)) return Step::wait;
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
  set_row(in.d, lanes, same.data());
  if (in.d2 != no_slot) set_mask(in.d2, lanes, all ? ~0U : 0U);
  return Step::next;
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
  std::uint32_t members = 0;
  if (!meet(in.e, lanes, members)) return Step::wait;
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
  set_row(in.d, lanes, values.data());
  return Step::next;
}

Interpreter::Step Interpreter::active_mask(const Instruction& in, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> values;
  values.fill(lanes);
  set_row(in.d, lanes, values.data());
  return Step::next;
}

/// The lowest member is the leader.
Interpreter::Step Interpreter::elect(const Instruction& in, std::uint32_t lanes) {
  std::uint32_t members = 0;
  if (!meet(in.e, lanes, members)) return Step::wait;
  const std::uint32_t leader = std::countr_zero(members);
  std::array<std::uint32_t, 32> values;
  values.fill(leader);
  set_row(in.d, lanes, values.data());
  set_mask(in.d2, lanes, 1U << leader);
  return Step::next;
}

}  // namespace stitch::emulator
