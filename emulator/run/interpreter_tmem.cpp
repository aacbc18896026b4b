#include <algorithm>

#include "emulator/run/interpreter.h"
#include "emulator/run/tmem_use.h"

namespace stitch::emulator {
namespace {

std::string_view name_of(TensorAccess access) {
  switch (access) {
    case TensorAccess::load: return "tcgen05.ld";
    case TensorAccess::store: return "tcgen05.st";
    case TensorAccess::core: return "tcgen05.mma, cp or shift";
    default: return "tcgen05.dealloc";
  }
}

std::string_view completion_of(TensorAccess access) {
  switch (access) {
    case TensorAccess::load: return "tcgen05.wait::ld";
    case TensorAccess::store: return "tcgen05.wait::st";
    default: return "wait for a tcgen05.commit behind it";
  }
}

/// The word of lanes and columns that register `index` of thread `thread` holds, from the instruction's address on (the
/// figures "Matrix fragments for shape"; SM100_TMEM_LOAD_* of CUTLASS's cute/atom/copy_traits_sm100.hpp).
TmemPlace fragment_place(const TensorCoreForm& form, std::uint32_t thread, std::uint32_t index) {
  switch (form.shape) {
    case TmemShape::lanes16x64b: return {thread / 4 + 8 * (thread % 2), thread / 2 % 2 + 2 * index};
    case TmemShape::lanes16x128b: return {thread / 4 + 8 * (index % 2), thread % 4 + 4 * (index / 2)};
    case TmemShape::lanes16x256b:
      return {thread / 4 + 8 * (index / 2 % 2), 2 * (thread % 4) + index % 2 + 8 * (index / 4)};
    case TmemShape::lanes16x32bx2: return {thread % 16, index + thread / 16 * form.half_split};
    case TmemShape::lanes32x32b: break;
  }
  return {thread, index};
}

bool has_16_lanes(const TensorCoreForm& form) { return form.shape != TmemShape::lanes32x32b; }

}  // namespace

/// An instruction that the whole warp executes together; false after a finding.
bool Interpreter::whole_warp(std::uint32_t lanes, std::string_view what) {
  if (lanes == 0xFFFFFFFF) return true;
  report(Detector::invalid_use, std::countr_zero(lanes),
         [&] { return fmt::format("{} by lanes 0x{:08x} only", what, lanes); });
  return false;
}

/// The block that does the part `part` (0, 1) of the work of a pair; the own one of work that is not shared.
Block& Interpreter::pair_block(std::uint32_t blocks, std::uint32_t part) {
  return blocks == 1 ? *block_ : *unit_->blocks[(block_->rank & ~1U) + part];
}

/// Work of a pair needs two blocks. False after a finding.
bool Interpreter::check_pairing(const TensorCoreForm& form, std::uint32_t lane) {
  if (form.blocks == 1 || (block_->rank | 1U) < unit_->blocks.size()) return true;
  report(Detector::invalid_use, lane, [] {
    return std::string("tcgen05 with .cta_group::2 in a block that has no peer: the cluster's size is odd");
  });
  return false;
}

/// a = where to write the address (or: of what to free), b = columns, form = which, immediate = space.
Interpreter::Step Interpreter::tmem_allocation(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (!whole_warp(lanes, "allocation of tensor memory")) return Step::next;
  if (!check_pairing(code_.tensor_cores[in.detail], 0)) return Step::next;
  const auto action = in.form_as<TmemAllocation>();
  if (action == TmemAllocation::relinquish) {
    block_->tensor.relinquished = true;
    return Step::next;
  }
  const std::uint32_t count = row_of<std::uint32_t>(in.b)[0];
  if (count < TensorMemory::least_columns || count > TensorMemory::columns || !std::has_single_bit(count)) {
    report(Detector::invalid_use, 0, [&] {
      return fmt::format("{} columns of tensor memory: a power of two from 32 to 512 is asked for", count);
    });
    return Step::next;
  }
  if (action == TmemAllocation::allocate) return allocate_tmem(in, count);
  free_tmem(row_of<std::uint32_t>(in.a)[0], count);
  return Step::next;
}

Interpreter::Step Interpreter::allocate_tmem(const Instruction& in, std::uint32_t count) {
  TensorMemory& own = block_->tensor;
  if (own.relinquished) {
    report(Detector::invalid_use, 0,
           [] { return std::string("tcgen05.alloc after tcgen05.relinquish_alloc_permit of this block"); });
    return Step::next;
  }
  const bool paired = code_.tensor_cores[in.detail].blocks == 2;
  Block* peer = paired ? unit_->blocks[block_->rank ^ 1].get() : nullptr;
  std::optional<std::uint32_t> first;
  if (!own.promises.empty()) {
    if (own.promises.front().count != count) {
      report(Detector::invalid_use, 0, [&] {
        return fmt::format("tcgen05.alloc of {} columns, where the peer asks for {}", count,
                           own.promises.front().count);
      });
      return Step::next;
    }
    first = own.promises.front().first;
    own.promises.erase(own.promises.begin());
  } else {
    first = own.find_free(count, peer == nullptr ? nullptr : &peer->tensor);
    // It waits until somebody frees columns.
    if (!first) return suspend(SplitState::columns);
    own.take(*first, count);
    if (peer != nullptr) {
      peer->tensor.take(*first, count);
      peer->tensor.promises.push_back({*first, count});
    }
  }
  std::uint64_t address = row_of<std::uint64_t>(in.a)[0];
  if (static_cast<Space>(in.immediate) == Space::generic) address -= shared_window;
  SharedTarget target;
  if (shared_target(address, 4, false, 0, target)) {
    const SharedOutcome outcome = block_->shared.write(target.offset, 4, shared_accessor(*block_, 0, false));
    if (outcome.fault != SharedFault::none) report_shared(outcome, 0, true);
    std::memcpy(block_->shared.data() + target.offset, &*first, 4);
  }
  unit_->clock->synchronise_lanes(warp_->agent, 0xFFFFFFFF, true);
  ++unit_->events;
  return Step::next;
}

void Interpreter::free_tmem(std::uint32_t address, std::uint32_t count) {
  const std::uint32_t first = address & 0xFFFF;
  TensorMemory& own = block_->tensor;
  if (address >> 16 == 0 && own.is_taken(first)) {
    TmemUse use(TensorAccess::free, "tcgen05.dealloc", unit_->clock->now());
    const std::uint32_t end = std::min(first + count, TensorMemory::columns);
    for (std::uint32_t column = first; column < end; ++column) {
      for (std::uint32_t lane = 0; lane < TensorMemory::lanes; lane += TensorMemory::cell_lanes) {
        if (own.is_taken(column)) touch_tmem(use, *block_, {lane, column}, true);
      }
    }
    report_tmem(use, 0);
  }
  if (address >> 16 != 0 || !own.give_back(first, count)) {
    report(Detector::invalid_use, 0, [&] {
      return fmt::format("tcgen05.dealloc of {} columns at 0x{:x}, which is no allocation of this block", count,
                         address);
    });
  }
  unit_->clock->advance();
  ++unit_->events;
}

/// A cell's check and its new state; what is found goes into `use`.
void Interpreter::touch_tmem(TmemUse& use, Block& block, TmemPlace at, bool writes) {
  if (at.lane >= TensorMemory::lanes || !block.tensor.is_taken(at.column)) {
    if (!use.outside) use.outside = at;
    return;
  }
  TensorMemory::Cell& cell = block.tensor.cell(at.lane, at.column);
  const auto check = [&](TensorStamp earlier) {
    if (!earlier.exists() || (earlier.time == use.time && earlier.agent == warp_->agent)) return;
    std::optional<TmemUse::Conflict>* found = nullptr;
    switch (unit_->tensor_order->verdict(warp_->agent, use.access, earlier, *unit_->clock)) {
      case TensorVerdict::ordered: return;
      case TensorVerdict::unfenced:
        // Freeing is synchronous: it needs no fence before it.
        if (use.access == TensorAccess::free) return;
        found = &use.unfenced;
        break;
      case TensorVerdict::incomplete: found = &use.incomplete; break;
      case TensorVerdict::unordered: found = &use.unordered; break;
    }
    if (!*found) *found = {at, earlier};
  };
  const TensorStamp mine{use.time, static_cast<std::uint16_t>(warp_->agent), use.access};
  check(cell.writer);
  if (writes) {
    for (const TensorStamp& reader : cell.readers) check(reader);
    cell.writer = mine;
    cell.readers = {};
    return;
  }
  const auto same = std::ranges::find_if(cell.readers, [&](const TensorStamp& reader) {
    return reader.exists() && reader.agent == mine.agent && reader.access == mine.access;
  });
  *(same != cell.readers.end() ? same : std::ranges::min_element(cell.readers, {}, &TensorStamp::time)) = mine;
}

void Interpreter::report_tmem(const TmemUse& use, std::uint32_t lane) {
  if (use.outside) {
    report(Detector::out_of_bounds, lane, [&] {
      return fmt::format("{} touches lane {}, column {} of tensor memory, which is not allocated", use.what,
                         use.outside->lane, use.outside->column);
    });
  }
  if (use.unwritten) {
    report(Detector::uninitialised_read, lane, [&] {
      return fmt::format("{} reads lane {}, column {} of tensor memory, which nobody wrote", use.what,
                         use.unwritten->lane, use.unwritten->column);
    });
  }
  const auto describe = [&](const TmemUse::Conflict& conflict) {
    return fmt::format("{} of lane {}, column {} of tensor memory and {} by {}", use.what, conflict.at.lane,
                       conflict.at.column, name_of(conflict.earlier.access),
                       name_agent(*unit_, conflict.earlier.agent));
  };
  if (use.unordered) {
    report(Detector::tensor_race, lane, [&] { return describe(*use.unordered) + " are not ordered"; });
  }
  if (use.incomplete) {
    report(Detector::async_before_wait, lane, [&] {
      return fmt::format("{}, which may not be complete (no {})", describe(*use.incomplete),
                         completion_of(use.incomplete->earlier.access));
    });
  }
  if (use.unfenced) {
    report(Detector::missing_fence, lane, [&] {
      return describe(*use.unfenced) +
             " are synchronised without tcgen05.fence (::before_thread_sync behind the earlier one unless it is "
             "committed, ::after_thread_sync before the later one)";
    });
  }
}

/// The address of ld or st, which lies in the warp's own lanes; false after a finding.
bool Interpreter::tmem_base(const Instruction& in, TmemPlace& base) {
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  const auto* addresses = row_of<std::uint64_t>(in.a);
  const auto address = static_cast<std::uint32_t>(addresses[0]);
  base = {address >> 16, address & 0xFFFF};
  if (std::any_of(addresses, addresses + 32, [&](std::uint64_t a) { return a != addresses[0]; })) {
    report(Detector::invalid_use, 0,
           [] { return std::string("lanes of a warp give tcgen05.ld or .st different addresses"); });
    return false;
  }
  const std::uint32_t first = warp_->index % 4 * 32;
  if (base.lane == first || (has_16_lanes(form) && base.lane == first + 16)) return true;
  report(Detector::invalid_use, 0, [&] {
    return fmt::format("warp {} begins at lane {} of tensor memory: it may access lanes {} to {}", warp_->index,
                       base.lane, first, first + 31);
  });
  return false;
}

/// a = address, list = registers. The registers hold the words at once; reading them is ordered by themselves (PTX ISA,
/// "Register dependencies, same thread").
Interpreter::Step Interpreter::tmem_load(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  TmemPlace base;
  if (!whole_warp(lanes, "tcgen05.ld") || !tmem_base(in, base)) return Step::next;
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  TensorMemory& memory = block_->tensor;
  TmemUse use(TensorAccess::load, "tcgen05.ld", unit_->clock->now());
  const auto word = [&](TmemPlace at) -> std::uint32_t {
    touch_tmem(use, *block_, at, false);
    if (!memory.is_taken(at.column)) return 0xCDCDCDCD;
    if (!memory.is_written(at.lane, at.column) && !use.unwritten) use.unwritten = at;
    return memory.read(at.lane, at.column);
  };
  for (std::uint32_t i = 0; i < form.registers; ++i) {
    auto* to = row_of<std::uint32_t>(code_.lists[in.list + i]);
    for (std::uint32_t thread = 0; thread < 32; ++thread) {
      const TmemPlace place = fragment_place(form, thread, i);
      const TmemPlace at{base.lane + place.lane, base.column + place.column * (form.packs ? 2 : 1)};
      to[thread] = word(at);
      if (form.packs) to[thread] = (to[thread] & 0xFFFF) | word({at.lane, at.column + 1}) << 16;
    }
  }
  report_tmem(use, 0);
  unit_->clock->advance();
  return Step::next;
}

/// a = address, list = registers.
Interpreter::Step Interpreter::tmem_store(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  TmemPlace base;
  if (!whole_warp(lanes, "tcgen05.st") || !tmem_base(in, base)) return Step::next;
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  TmemUse use(TensorAccess::store, "tcgen05.st", unit_->clock->now());
  const auto put = [&](TmemPlace at, std::uint32_t value) {
    touch_tmem(use, *block_, at, true);
    if (block_->tensor.is_taken(at.column)) block_->tensor.write(at.lane, at.column, value);
  };
  for (std::uint32_t i = 0; i < form.registers; ++i) {
    const auto* from = row_of<std::uint32_t>(code_.lists[in.list + i]);
    for (std::uint32_t thread = 0; thread < 32; ++thread) {
      const TmemPlace place = fragment_place(form, thread, i);
      const TmemPlace at{base.lane + place.lane, base.column + place.column * (form.packs ? 2 : 1)};
      put(at, form.packs ? from[thread] & 0xFFFF : from[thread]);
      if (form.packs) put({at.lane, at.column + 1}, from[thread] >> 16);
    }
  }
  report_tmem(use, 0);
  unit_->clock->advance();
  ++unit_->events;
  return Step::next;
}

/// form 0: wait::ld, 1: wait::st.
Interpreter::Step Interpreter::tmem_wait(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (!whole_warp(lanes, "tcgen05.wait")) return Step::next;
  unit_->tensor_order->wait(warp_->agent, in.form == 1, unit_->clock->now());
  unit_->clock->advance();
  return Step::next;
}

/// form 0: before_thread_sync, 1: after_thread_sync.
Interpreter::Step Interpreter::tmem_fence(const Instruction& in, std::uint32_t) {
  if (in.form == 1) {
    unit_->tensor_order->fence_after(warp_->agent, *unit_->clock);
  } else {
    unit_->tensor_order->fence_before(warp_->agent, unit_->clock->now());
  }
  unit_->clock->advance();
  return Step::next;
}

/// a = mbarrier, b = block mask of a multicast, form = space.
Interpreter::Step Interpreter::tmem_commit(const Instruction& in, std::uint32_t lanes) {
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  constexpr std::uint64_t within = (std::uint64_t{1} << shared_rank_shift) - 1;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0 || !check_pairing(form, lane)) continue;
    std::uint64_t address = row_of<std::uint64_t>(in.a)[lane];
    auto space = in.form_as<Space>();
    if (form.multicast && space == Space::generic) {
      address -= shared_window;
      space = Space::shared_cluster;
    }
    const UnitClock::Knowledge knowledge = unit_->clock->release_tensor_work(warp_->agent);
    const std::uint32_t receivers = form.multicast ? row_of<std::uint16_t>(in.b)[lane] : 1;
    for (std::uint32_t rank = 0; rank < unit_->blocks.size(); ++rank) {
      if (((receivers >> rank) & 1) == 0) continue;
      // In every receiving block the mbarrier has the offset that it has in the named one.
      const std::uint64_t signal = form.multicast ? shared_tag(rank) + (address & within) : address;
      SharedTarget target;
      Mbarrier* barrier = find_mbarrier(signal, space, lane, target);
      if (barrier == nullptr) continue;
      note_remote(*target.block);
      barrier->committed.push_back(knowledge);
    }
  }
  ++unit_->events;
  return Step::next;
}

/// Arrivals of commits, up to the end of the phase: those behind it come when somebody looks at the next.
void Interpreter::land_commits(Mbarrier& barrier) {
  const std::uint32_t phase = barrier.phase;
  std::size_t landed = 0;
  while (landed < barrier.committed.size() && barrier.phase == phase) {
    const UnitClock::Knowledge& knowledge = barrier.committed[landed++];
    barrier.knowledge.merge(knowledge);
    if (barrier.told.size() < knowledge.known.size()) barrier.told.resize(knowledge.known.size());
    for (std::size_t i = 0; i < knowledge.known.size(); ++i) {
      barrier.told[i] = std::max(barrier.told[i], knowledge.known[i]);
    }
    arrive_on(barrier, 1, false, 0);
    complete_phase(barrier);
  }
  barrier.committed.erase(barrier.committed.begin(), barrier.committed.begin() + static_cast<std::ptrdiff_t>(landed));
  ++unit_->events;
}

/// An arrival on an mbarrier, relaxed or not, tells of tensor memory.
void Interpreter::tell_tensor_order(Mbarrier& barrier) {
  if (unit_->tensor_order == nullptr) return;
  const std::vector<std::uint32_t> told = unit_->tensor_order->told_by(warp_->agent, *unit_->clock);
  if (barrier.told.size() < told.size()) barrier.told.resize(told.size());
  for (std::size_t i = 0; i < told.size(); ++i) barrier.told[i] = std::max(barrier.told[i], told[i]);
  unit_->clock->advance();
}

}  // namespace stitch::emulator
