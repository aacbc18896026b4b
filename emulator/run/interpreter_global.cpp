#include <algorithm>
#include <mutex>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

/// Holds the locks of the (at most two) pages of a run.
class PageGuard {
 public:
  PageGuard(MemoryRegion& region, std::uint64_t first, std::uint64_t last, bool needed) {
    if (!needed) return;
    // Two pages may share a lock, and every thread takes them in the same order.
    first_ = &region.lock_of(first);
    second_ = first == last || &region.lock_of(last) == first_ ? nullptr : &region.lock_of(last);
    if (second_ != nullptr && second_ < first_) std::swap(first_, second_);
    first_->lock();
    if (second_ != nullptr) second_->lock();
  }
  ~PageGuard() {
    if (second_ != nullptr) second_->unlock();
    if (first_ != nullptr) first_->unlock();
  }
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

 private:
  SpinLock* first_ = nullptr;
  SpinLock* second_ = nullptr;
};

/// Whether all lanes want the same address.
bool same(const std::array<std::uint64_t, 32>& at, std::uint32_t lanes) {
  const std::uint64_t first = at[std::countr_zero(lanes)];
  std::uint64_t off = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) off |= ((lanes >> lane) & 1) != 0 ? at[lane] ^ first : 0;
  return off == 0;
}

/// Whether the lanes of a whole warp follow each other in memory.
bool adjacent(const std::array<std::uint64_t, 32>& at, std::uint32_t bytes) {
  std::uint64_t off = 0;
  for (std::uint32_t lane = 1; lane < 32; ++lane) off |= at[lane] ^ (at[0] + std::uint64_t{lane} * bytes);
  return off == 0;
}

}  // namespace

GlobalAccessor Interpreter::global_accessor(bool strong, bool read_only) const {
  GlobalAccessor who;
  who.clock = unit_->clock.get();
  who.agent = warp_->agent;
  who.block = block_->rank;
  who.epoch = Epoch::of(block_->ordinal, who.clock->now(), warp_->index, strong);
  who.generation = context_.generation;
  who.read_only = read_only;
  who.times_matter = context_.times_matter;
  if (is_early()) who.early = context_.early;
  return who;
}

/// The region that holds the whole access and allows it, or null after a finding.
MemoryRegion* Interpreter::region_of(std::uint64_t address, std::uint64_t bytes, std::uint32_t lane, Touch touch,
                                     std::string_view what) {
  MemoryRegion* region = context_.memory->region_at(address);
  const bool inside = region != nullptr && region->contains(address, bytes);
  if (inside && (touch == Touch::read || !region->read_only)) return region;
  report(inside ? Detector::read_only_violation : Detector::out_of_bounds, lane, [&] {
    return fmt::format("{} of {} bytes at {}{}", what, bytes, context_.memory->describe(address),
                       inside ? ", which is read only" : "");
  });
  return nullptr;
}

BufferTraffic& Interpreter::traffic_of(const MemoryRegion& region) {
  if (region.buffer.id == last_region_) return *last_traffic_;
  BufferTraffic& traffic = traffic_[region.buffer.id];
  if (traffic.name.empty()) {
    traffic.name = region.name;
    traffic.buffer = region.buffer.id;
  }
  last_region_ = region.buffer.id;
  last_traffic_ = &traffic;
  return traffic;
}

/// Finds the distinct 32-byte sectors that the lanes touch, in the order of the lanes.
std::uint32_t Interpreter::find_sectors(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes,
                                        Sectors& seen) {
  std::uint32_t count = 0;
  std::uint64_t highest = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t first = addresses.at[lane] / sector_bytes;
    const std::uint64_t last = (addresses.at[lane] + bytes - 1) / sector_bytes;
    for (std::uint64_t sector = first; sector <= last; ++sector) {
      // Ascending addresses, the usual case, need no search.
      if (count == 0 || sector > highest) {
        highest = sector;
      } else if (sector == highest || std::find(seen.begin(), seen.begin() + count, sector) != seen.begin() + count) {
        continue;
      }
      seen[count++] = sector;
    }
  }
  return count;
}

std::uint32_t Interpreter::count_sectors(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes) {
  Sectors seen;
  return find_sectors(addresses, lanes, bytes, seen);
}

/// How many of these sectors, which a warp loads, L2 sees.
std::uint32_t Interpreter::load_through_l1(const Sectors& sectors, std::uint32_t count, bool allocates) {
  constexpr std::uint64_t per_line = 4;
  std::uint32_t missed = 0;
  for (std::uint32_t i = 0; i < count;) {
    const std::uint64_t line = sectors[i] / per_line;
    std::uint32_t mask = 0;
    for (; i < count && sectors[i] / per_line == line; ++i) mask |= 1U << (sectors[i] % per_line);
    missed += block_->l1.load(line, mask, allocates);
  }
  return missed;
}

/// `changes`: whether a write leaves other bytes than it found.
void Interpreter::report_global(const GlobalOutcome& outcome, const MemoryRegion& region, std::uint32_t lane,
                                Touch touch, bool changes) {
  const auto where = [&](GlobalFault fault) {
    return fmt::format("offset {} of buffer \"{}\" ({} bytes)", outcome.offset[static_cast<int>(fault)], region.name,
                       region.buffer.bytes);
  };
  if (outcome.has(GlobalFault::uninitialised)) {
    report(Detector::uninitialised_read, lane,
           [&] { return fmt::format("read of {}, which nobody wrote", where(GlobalFault::uninitialised)); });
  }
  if (outcome.has(GlobalFault::read_only_violation)) {
    report(Detector::read_only_violation, lane, [&] {
      return fmt::format("ld.global.nc of {}, which this launch writes", where(GlobalFault::read_only_violation));
    });
  }
  if (!outcome.has(GlobalFault::race)) return;
  const Epoch other = outcome.other;
  const bool foreign = other.ordinal() - unit_->clock->first_ordinal() >= unit_->clock->blocks();
  const bool fenced_would_do = foreign && unit_->clock->weakly_ordered(warp_->agent, other.ordinal(), other.warp(),
                                                                       other.several_warps(), other.time());
  const bool redundant = !changes && outcome.other_wrote && context_.blocks[other.ordinal()] == block_->linear;
  const Detector detector = fenced_would_do ? Detector::missing_fence
                            : redundant     ? Detector::redundant_write
                                            : Detector::global_race;
  report(detector, lane, [&] {
    const std::uint64_t linear = context_.blocks[other.ordinal()];
    const Dim3& grid = context_.config.grid;
    const char* mine = touch == Touch::read ? "read" : touch == Touch::write ? "write" : "atomic";
    const std::string text =
        fmt::format("{} of {} and {} by warp {} of block ({},{},{})", mine, where(GlobalFault::race),
                    outcome.other_wrote ? "a write" : "a read", other.warp(), linear % grid.x, linear / grid.x % grid.y,
                    linear / (std::uint64_t{grid.x} * grid.y));
    return text + (fenced_would_do ? " are ordered only by relaxed atomics: a fence or .release/.acquire is missing"
                   : redundant     ? ", of the same value, are not ordered"
                                   : " are not ordered");
  });
}

/// One contiguous run of lanes. For reads, bytes go to the staging area from `first_lane` on; for writes, from there.
void Interpreter::global_run(MemoryRegion& region, std::uint64_t address, std::uint32_t bytes, std::uint32_t first_lane,
                             Touch touch, const MemoryAccess& access) {
  const std::uint64_t offset = address - region.buffer.address;
  const std::uint64_t first_page = offset / Memory::page_bytes;
  const std::uint64_t last_page = (offset + bytes - 1) / Memory::page_bytes;
  const GlobalAccessor who = global_accessor(access.strong(), access.read_only);
  std::byte* staged = staging_.data() + std::size_t{first_lane} * access.bytes();
  GlobalOutcome outcome;
  bool changes = true;
  {
    const PageGuard guard(region, first_page, last_page, !context_.single_threaded);
    for (std::uint64_t page = first_page; page <= last_page; ++page) region.touch(page, context_.generation);
    if (touch == Touch::read) {
      check_global_read(region, offset, bytes, who, outcome);
      std::memcpy(staged, region.data + offset, bytes);
    } else {
      check_global_write(region, offset, bytes, who, outcome);
      if (outcome.faults != 0) changes = std::memcmp(region.data + offset, staged, bytes) != 0;
      std::memcpy(region.data + offset, staged, bytes);
    }
  }
  BufferTraffic& traffic = traffic_of(region);
  counters_.global_loads.unique_sectors += outcome.new_read_sectors;
  counters_.global_stores.unique_sectors += outcome.new_written_sectors;
  traffic.loads.unique_sectors += outcome.new_read_sectors;
  traffic.stores.unique_sectors += outcome.new_written_sectors;
  if (outcome.faults != 0) {
    const std::uint64_t at = outcome.offset[std::countr_zero(outcome.faults)];
    const std::uint32_t lane = at < offset ? 0 : (at - offset) / access.bytes();
    report_global(outcome, region, std::min(first_lane + lane, 31U), touch, changes);
  }
}

void Interpreter::access_global(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes,
                                Touch touch, bool counted) {
  const std::uint32_t bytes = access.bytes();
  if (touch != Touch::read) {
    ++unit_->events;
    ++unit_->global_events;
    if (access.strong()) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        if (((lanes >> lane) & 1) != 0)
          order_global(addresses.at[lane], access.semantics, access.scope, false, true, true);
      }
    }
  }
  MemoryRegion* counted_region = nullptr;
  std::uint32_t sectors = 0;
  std::uint32_t previous = 32;  ///< lane that was read just before
  const std::string_view what = touch == Touch::read ? "read" : "write";
  const std::uint64_t first_address = addresses.at[std::countr_zero(lanes)];
  if (touch == Touch::read && same(addresses.at, lanes)) {
    sectors = (first_address + bytes - 1) / sector_bytes - first_address / sector_bytes + 1;
  }
  for (std::uint32_t lane = 0; lane < 32;) {
    if (((lanes >> lane) & 1) == 0) {
      ++lane;
      continue;
    }
    const std::uint64_t start = addresses.at[lane];
    // Lanes that read the same address share what the first of them was checked for.
    if (touch == Touch::read && previous < 32 && addresses.at[previous] == start) {
      std::memcpy(staging_.data() + std::size_t{lane} * bytes, staging_.data() + std::size_t{previous} * bytes, bytes);
      ++lane;
      continue;
    }
    std::uint32_t end =
        sectors == 0 && lane == 0 && lanes == 0xFFFFFFFF && adjacent(addresses.at, bytes) ? 32 : lane + 1;
    while (end < 32 && ((lanes >> end) & 1) != 0 && addresses.at[end] == start + std::uint64_t{end - lane} * bytes)
      ++end;
    std::uint32_t run_bytes = (end - lane) * bytes;
    MemoryRegion* region = context_.memory->region_at(start);
    if (region == nullptr || !region->contains(start, run_bytes) || (region->read_only && touch != Touch::read)) {
      // Part of the run may be inside: look at its first lane alone.
      end = lane + 1;
      run_bytes = bytes;
      region = region_of(start, bytes, lane, touch, what);
    }
    if (region == nullptr) {
      if (touch == Touch::read) std::memset(staging_.data() + std::size_t{lane} * bytes, 0xCD, bytes);
    } else {
      counted_region = region;
      global_run(*region, start, run_bytes, lane, touch, access);
      if (run_bytes == bytes) previous = lane;
      if (end - lane == static_cast<std::uint32_t>(std::popcount(lanes))) {
        sectors = (start + run_bytes - 1) / sector_bytes - start / sector_bytes + 1;
      }
    }
    lane = end;
  }
  if (touch == Touch::read && access.strong()) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (((lanes >> lane) & 1) != 0)
        order_global(addresses.at[lane], access.semantics, access.scope, true, false, false);
    }
    if (acquires(access.semantics)) acquired(access.scope);
  }
  if (!counted || counted_region == nullptr) return;
  // A load of device scope has to see what other SMs wrote.
  const bool through_l1 = touch == Touch::read && !access.strong() && access.l1 != L1Use::passes;
  Sectors touched;
  if (sectors == 0) {
    sectors = find_sectors(addresses, lanes, bytes, touched);
  } else if (through_l1) {  // they are in a row
    for (std::uint32_t i = 0; i < sectors; ++i) touched[i] = first_address / sector_bytes + i;
  }
  const std::uint32_t passed = through_l1 ? load_through_l1(touched, sectors, access.l1 == L1Use::allocates) : sectors;
  GlobalTraffic& total = touch == Touch::read ? counters_.global_loads : counters_.global_stores;
  BufferTraffic& of_buffer = traffic_of(*counted_region);
  GlobalTraffic& traffic = touch == Touch::read ? of_buffer.loads : of_buffer.stores;
  for (GlobalTraffic* counts : {&total, &traffic}) {
    ++counts->requests;
    counts->sectors += sectors;
    counts->l2_sectors += passed;
  }
}

}  // namespace stitch::emulator
