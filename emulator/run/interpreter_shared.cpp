#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

namespace {

/// memcpy of one lane's bytes, without a call for the usual sizes.
void copy_lane(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  switch (bytes) {
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    case 16: std::memcpy(to, from, 16); break;
    default: std::memcpy(to, from, bytes);
  }
}

/// Whether no two lanes use one bank.
bool one_word_per_bank(const std::array<std::uint64_t, 32>& at, std::uint32_t lanes) {
  std::uint32_t banks = 0;
  std::uint32_t twice = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t bank = ((lanes >> lane) & 1) << ((at[lane] / 4) % 32);
    twice |= banks & bank;
    banks |= bank;
  }
  return twice == 0;
}

}  // namespace

SharedAccessor Interpreter::shared_accessor(const Block& target, std::uint32_t lane, bool strong) const {
  SharedAccessor who;
  who.clock = unit_->clock.get();
  who.agent = warp_->agent;
  who.lane = lane;
  who.remote = &target != block_;
  who.strong = strong;
  return who;
}

/// Resolves an address in the shared window: whose block, and where in it. False after a finding.
bool Interpreter::shared_target(std::uint64_t address, std::uint32_t bytes, bool cluster, std::uint32_t lane,
                                SharedTarget& target) {
  const std::uint64_t tag = address >> shared_rank_shift;
  const std::uint64_t within = address & ((std::uint64_t{1} << shared_rank_shift) - 1);
  target.block = block_;
  if (tag != 0) {
    if (tag > unit_->blocks.size() || (!cluster && tag != block_->rank + std::uint64_t{1})) {
      report(Detector::out_of_bounds, lane, [&] {
        return cluster ? fmt::format("address of block rank {} in a cluster of {}", tag - 1, unit_->blocks.size())
                       : fmt::format(
                             "shared address 0x{:x} belongs to the cluster's window, the instruction to the block's",
                             address);
      });
      return false;
    }
    target.block = unit_->blocks[tag - 1].get();
  }
  if (within < shared_base || !target.block->shared.contains(within - shared_base, bytes)) {
    report(Detector::out_of_bounds, lane, [&] {
      return fmt::format("{} bytes at offset {} of {} bytes of shared memory", bytes,
                         static_cast<std::int64_t>(within) - shared_base, target.block->shared.bytes());
    });
    return false;
  }
  target.offset = within - shared_base;
  return true;
}

/// Another block's memory may be used only between that block's start and its exit.
void Interpreter::note_remote(Block& target) {
  if (&target == block_) return;
  const std::uint32_t lane = std::countr_zero(active_);
  // A relaxed cluster barrier orders no accesses, but nobody passes it before all blocks have come.
  const bool met = (active_ & ~warp_->cluster_met) == 0;
  if (!met && !unit_->clock->knows_block(warp_->agent, target.rank)) {
    report(Detector::cluster_lifetime, lane, [&] {
      return fmt::format(
          "shared memory of block rank {} is used before that block is known to run (no cluster barrier yet)",
          target.rank);
    });
  }
  if (target.alive_threads == 0) {
    report(Detector::cluster_lifetime, lane, [&] {
      return fmt::format("shared memory of block rank {} is used after that block has ended", target.rank);
    });
  }
  target.remote_accesses[warp_->agent] = unit_->clock->now();
}

/// `changes`: whether a write leaves other bytes than it found.
void Interpreter::report_shared(const SharedOutcome& outcome, std::uint32_t lane, bool writes, bool changes) {
  const char* what = writes ? "write" : "read";
  const auto other = [&] {
    return fmt::format("lane {} of {}", outcome.other.lane(), name_agent(*unit_, outcome.other.agent()));
  };
  switch (outcome.fault) {
    case SharedFault::none: return;
    case SharedFault::uninitialised:
      report(Detector::uninitialised_read, lane,
             [&] { return fmt::format("read of shared memory at offset {}, which nobody wrote", outcome.offset); });
      return;
    case SharedFault::pending:
      report(Detector::async_before_wait, lane, [&] {
        return fmt::format("{} of shared memory at offset {}, where an asynchronous copy of {} has not been waited for",
                           what, outcome.offset, other());
      });
      return;
    case SharedFault::being_read:
      report(Detector::async_before_wait, lane, [&] {
        return fmt::format("write of shared memory at offset {}, which an asynchronous operation may still read",
                           outcome.offset);
      });
      return;
    case SharedFault::read_after_write:
    case SharedFault::write_after_write:
    case SharedFault::write_after_read:
      if (unit_->clock->is_tensor_agent(outcome.other.agent())) {
        report(Detector::async_before_wait, lane, [&] {
          return fmt::format(
              "write of shared memory at offset {}, which {} may still read (no wait for a tcgen05.commit after it)",
              outcome.offset, name_agent(*unit_, outcome.other.agent()));
        });
        return;
      }
      const bool redundant = !changes && outcome.fault == SharedFault::write_after_write;
      report(redundant ? Detector::redundant_write : Detector::shared_race, lane, [&] {
        return fmt::format("{} of shared memory at offset {} and a {} by {}{} are not ordered", what, outcome.offset,
                           outcome.fault == SharedFault::write_after_read ? "read" : "write", other(),
                           redundant ? ", of the same value," : "");
      });
      return;
  }
}

/// Bank conflicts: lanes are served in groups of 128 bytes; a group takes as many wavefronts as its fullest bank has
/// distinct words.
void Interpreter::count_wavefronts(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes) {
  const std::uint32_t group = bytes <= 4 ? 32 : bytes == 8 ? 16 : bytes == 16 ? 8 : 4;
  for (std::uint32_t first = 0; first < 32; first += group) {
    std::uint32_t wavefronts = 0;
    if (bytes == 4 && one_word_per_bank(addresses.at, lanes)) {
      counters_.shared_wavefronts += 1;
      continue;
    }
    std::array<std::uint8_t, 32> depth{};
    std::array<std::array<std::uint32_t, 32>, 32> words;
    for (std::uint32_t lane = first; lane < first + group; ++lane) {
      if (((lanes >> lane) & 1) == 0) continue;
      const std::uint32_t first_word = addresses.at[lane] / 4;
      for (std::uint32_t word = first_word; word < first_word + std::max(bytes / 4, 1U); ++word) {
        const std::uint32_t bank = word % 32;
        auto& here = words[bank];
        if (std::find(here.begin(), here.begin() + depth[bank], word) != here.begin() + depth[bank]) continue;
        here[depth[bank]++] = word;
        wavefronts = std::max<std::uint32_t>(wavefronts, depth[bank]);
      }
    }
    counters_.shared_wavefronts += wavefronts;
    if (wavefronts > 1) counters_.shared_extra_wavefronts += wavefronts - 1;
  }
}

void Interpreter::access_shared(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes,
                                Touch touch, bool cluster) {
  const std::uint32_t bytes = access.bytes();
  const bool writes = touch != Touch::read;
  ++(writes ? counters_.shared_store_requests : counters_.shared_load_requests);
  bool adjacent = lanes == 0xFFFFFFFF && !access.strong();
  for (std::uint32_t lane = 1; lane < 32; ++lane)
    adjacent &= addresses.at[lane] == addresses.at[0] + std::uint64_t{lane} * bytes;
  SharedTarget target;
  // The block's own memory, under either of its names.
  const std::uint64_t first = addresses.at[std::countr_zero(lanes)];
  const std::uint64_t own_tag = shared_tag(block_->rank);
  const std::uint64_t base = shared_base + (first - own_tag < (std::uint64_t{1} << shared_rank_shift) ? own_tag : 0);
  if (adjacent && first >= base && block_->shared.contains(first - base, std::uint64_t{bytes} * 32)) {
    counters_.shared_wavefronts += bytes <= 4 ? 1 : bytes / 4;
    const std::uint32_t offset = first - base;
    const SharedAccessor who = shared_accessor(*block_, 0, false);
    std::byte* memory = block_->shared.data() + offset;
    if (writes ? block_->shared.write_run(offset, bytes, who) : block_->shared.read_run(offset, bytes, who)) {
      if (writes) {
        std::memcpy(memory, staging_.data(), std::size_t{bytes} * 32);
        ++unit_->events;
      } else {
        std::memcpy(staging_.data(), memory, std::size_t{bytes} * 32);
      }
      return;
    }
  } else {
    count_wavefronts(addresses, lanes, bytes);
  }
  if (writes) ++unit_->events;
  Block* remote = nullptr;
  SharedMemory& own = block_->shared;
  const std::uint64_t floor = SharedStamp::before(unit_->clock->block_floor(block_->rank));
  const bool plain = !access.strong() && floor != 0;
  const std::uint32_t now = unit_->clock->now();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    std::byte* staged = staging_.data() + std::size_t{lane} * bytes;
    if (const std::uint64_t offset = addresses.at[lane] - base; plain && own.contains(offset, bytes)) {
      const std::uint32_t at = offset;
      const SharedStamp mine = SharedStamp::of(now, warp_->agent, lane, 0);
      if (writes ? own.write_after_barrier(at, bytes, mine, floor) : own.read_after_barrier(at, bytes, mine, floor)) {
        copy_lane(writes ? own.data() + at : staged, writes ? staged : own.data() + at, bytes);
        continue;
      }
    }
    if (!shared_target(addresses.at[lane], bytes, cluster, lane, target)) {
      if (!writes) std::memset(staged, 0xCD, bytes);
      continue;
    }
    if (target.block != block_ && target.block != remote) {
      remote = target.block;
      note_remote(*target.block);
      ++counters_.distributed_shared_requests;
    }
    const SharedAccessor who = shared_accessor(*target.block, lane, access.strong());
    if (access.strong() && writes) order_shared(target, access.semantics, false, true);
    SharedMemory& shared = target.block->shared;
    const SharedOutcome outcome =
        writes ? shared.write(target.offset, bytes, who) : shared.read(target.offset, bytes, who);
    if (outcome.fault != SharedFault::none) {
      const bool changes = !writes || std::memcmp(shared.data() + target.offset, staged, bytes) != 0;
      report_shared(outcome, lane, writes, changes);
    }
    if (writes) {
      std::memcpy(shared.data() + target.offset, staged, bytes);
    } else {
      std::memcpy(staged, shared.data() + target.offset, bytes);
    }
    if (access.strong() && !writes) order_shared(target, access.semantics, true, false);
  }
}

/// Synchronisation through variables in shared memory.
void Interpreter::order_shared(const SharedTarget& target, Semantics semantics, bool reads, bool writes) {
  const std::uint64_t key = std::uint64_t{target.block->rank} << 32 | target.offset;
  // Relaxed accesses order nothing by themselves; a fence before or after them is taken as part of them.
  const bool fenced = semantics == Semantics::relaxed;
  if (reads && (acquires(semantics) || fenced)) {
    if (const auto found = unit_->sync.find(key); found != unit_->sync.end())
      unit_->clock->acquire(warp_->agent, found->second);
  }
  if (writes && (releases(semantics) || fenced)) unit_->sync[key].merge(unit_->clock->release(warp_->agent));
}

}  // namespace stitch::emulator
