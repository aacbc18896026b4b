#include <algorithm>
#include <mutex>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// cp.async: a = shared target, b = global source, c = source bytes (none: all), e = predicate that ignores the source,
/// immediate = size, detail = L1Use. The bytes are read now and appear when the lane waits for its group.
Interpreter::Step Interpreter::copy_async(const Instruction& in, std::uint32_t lanes) {
  const std::uint32_t size = in.immediate;
  const auto* to = row_of<std::uint64_t>(in.a);
  const std::uint32_t ignored = in.e == no_slot ? 0 : mask_of(in.e);
  MemoryAccess access;
  access.space = Space::global;
  access.element_bytes = size;
  access.l1 = in.detail_as<L1Use>();
  Addresses from;
  std::memcpy(from.at.data(), row(in.b), sizeof(from.at));
  Addresses target;
  std::memcpy(target.at.data(), to, sizeof(target.at));
  lanes = drop_misaligned(target, lanes, size);
  lanes = drop_misaligned(from, lanes, size);
  staging_.fill(std::byte{0});
  // Lanes that take fewer bytes than they write read them one by one.
  std::uint32_t whole = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0 || ((ignored >> lane) & 1) != 0) continue;
    const std::uint32_t bytes = in.c == no_slot ? size : std::min(row_of<std::uint32_t>(in.c)[lane], size);
    counters_.async_copy_bytes += bytes;
    if (bytes == size) {
      whole |= 1U << lane;
    } else if (bytes != 0) {
      MemoryRegion* region = region_of(from.at[lane], bytes, lane, Touch::read, "read");
      // A short run is staged where the lane's whole one would be.
      if (region != nullptr) global_run(*region, from.at[lane], bytes, lane, Touch::read, access);
    }
  }
  if (whole != 0) access_global(access, from, whole, Touch::read, true);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    SharedTarget place;
    if (((lanes >> lane) & 1) == 0 || !shared_target(to[lane], size, false, lane, place)) continue;
    PendingCopy copy;
    copy.lane = lane;
    copy.group = warp_->copy_groups[lane];
    copy.offset = place.offset;
    copy.bytes = size;
    std::memcpy(copy.data.data(), staging_.data() + std::size_t{lane} * size, size);
    const SharedOutcome outcome =
        block_->shared.begin_async_write(place.offset, size, shared_accessor(*block_, lane, false));
    if (outcome.fault != SharedFault::none) report_shared(outcome, lane, true);
    warp_->copies.push_back(copy);
  }
  count_wavefronts(target, lanes, size);
  return Step::next;
}

Interpreter::Step Interpreter::copy_async_commit(const Instruction&, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) warp_->copy_groups[lane] += (lanes >> lane) & 1;
  return Step::next;
}

/// Copies of the lane that belong to its first `groups` groups land in shared memory, as writes of that lane.
void Interpreter::land_copies(std::uint32_t lane, std::uint32_t groups) {
  std::erase_if(warp_->copies, [&](const PendingCopy& copy) {
    if (copy.lane != lane || copy.group >= groups) return false;
    std::memcpy(block_->shared.data() + copy.offset, copy.data.data(), copy.bytes);
    block_->shared.end_async_write(copy.offset, copy.bytes, shared_accessor(*block_, lane, false));
    return true;
  });
}

/// cp.async.wait_group immediate; form 1: wait_all, which needs no commit.
Interpreter::Step Interpreter::copy_async_wait(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint32_t committed = warp_->copy_groups[lane];
    const std::uint32_t pending = std::min<std::uint64_t>(in.immediate, committed);
    land_copies(lane, in.form == 1 ? committed + 1 : committed - pending);
  }
  unit_->clock->advance();
  ++unit_->events;
  return Step::next;
}

/// Bytes of global memory for a bulk copy, checked as the issuing lane's reads; `is_request`: counts as one, else only
/// as sectors. False after a finding.
bool Interpreter::read_run_for_bulk(std::uint64_t address, std::uint32_t bytes, std::uint32_t lane,
                                    std::vector<std::byte>& data, bool is_request) {
  MemoryRegion* region = region_of(address, bytes, lane, Touch::read, "bulk read");
  if (region == nullptr) return false;
  data.resize(bytes);
  MemoryAccess access;
  access.element_bytes = 16;
  const std::size_t chunk = 512;
  for (std::size_t at = 0; at < bytes; at += chunk) {
    const std::size_t length = std::min<std::size_t>(chunk, bytes - at);
    global_run(*region, address + at, length, 0, Touch::read, access);
    std::memcpy(data.data() + at, staging_.data(), length);
  }
  const std::uint64_t sectors = (address + bytes - 1) / sector_bytes - address / sector_bytes + 1;
  for (GlobalTraffic* traffic : {&counters_.global_loads, &traffic_of(*region).loads}) {
    traffic->requests += is_request ? 1 : 0;
    traffic->sectors += sectors;
    traffic->l2_sectors += sectors;
  }
  return true;
}

/// Source bytes of a bulk copy, checked as the issuing lane's reads. False after a finding.
bool Interpreter::read_for_bulk(Space space, std::uint64_t address, std::uint32_t bytes, std::uint32_t lane,
                                std::vector<std::byte>& data) {
  if (space == Space::global) return read_run_for_bulk(address, bytes, lane, data, true);
  SharedTarget source;
  if (!shared_target(address, bytes, false, lane, source)) return false;
  const SharedOutcome outcome = block_->shared.read(source.offset, bytes, shared_accessor(*block_, lane, false));
  if (outcome.fault != SharedFault::none) report_shared(outcome, lane, false);
  if (block_->shared.written_since(source.offset, bytes, block_->proxy_fence)) {
    report(Detector::missing_fence, lane, [] {
      return std::string("an asynchronous copy reads shared memory that was written without a fence.proxy.async since");
    });
  }
  data.resize(bytes);
  std::memcpy(data.data(), block_->shared.data() + source.offset, bytes);
  return true;
}

/// a = target, b = source, c = bytes, e = mbarrier, list[0] = block mask of a multicast.
Interpreter::Step Interpreter::bulk_copy(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0) issue_bulk(in, code_.bulks[in.detail], lane);
  }
  ++unit_->events;
  return Step::next;
}

void Interpreter::issue_bulk(const Instruction& in, const BulkAccess& access, std::uint32_t lane) {
  const std::uint64_t to = row_of<std::uint64_t>(in.a)[lane];
  const std::uint64_t from = row_of<std::uint64_t>(in.b)[lane];
  const std::uint32_t bytes = row_of<std::uint32_t>(in.c)[lane];
  if (bytes % 16 != 0 || to % 16 != 0 || from % 16 != 0) {
    report(Detector::misaligned, lane, [&] {
      return fmt::format("a bulk copy of {} bytes from 0x{:x} to 0x{:x}: all must be multiples of 16", bytes, from, to);
    });
    return;
  }
  if (bytes == 0) return;
  PendingBulk copy;
  copy.reduces = access.reduces;
  copy.reduction = access.type;
  copy.detail = in.detail;
  copy.instruction = pc_;
  copy.lane = lane;
  const Space source_space = access.kind == BulkKind::global_to_shared ? Space::global : Space::shared;
  if (!read_for_bulk(source_space, from, bytes, lane, copy.data)) return;
  counters_.bulk_copy_bytes += bytes;
  if (access.kind == BulkKind::shared_to_global) {
    SharedTarget source;
    if (!shared_target(from, bytes, false, lane, source)) return;
    copy.to_global = true;
    copy.target = to;
    copy.group = warp_->bulk_groups[lane];
    copy.source_offset = source.offset;
    block_->shared.begin_async_read(source.offset, bytes);
    warp_->bulk_stores.push_back(std::move(copy));
    return;
  }
  SharedTarget target;
  if (!shared_target(to, bytes, true, lane, target)) return;
  send_to_shared(in, access, std::move(copy), target, lane);
}

/// On its way to the target's block, or with a multicast to those of its mask, until somebody looks at the mbarrier.
void Interpreter::send_to_shared(const Instruction& in, const BulkAccess& access, PendingBulk copy,
                                 const SharedTarget& target, std::uint32_t lane) {
  const std::uint32_t bytes = copy.data.size();
  const std::uint32_t receivers =
      access.multicast ? row_of<std::uint16_t>(code_.lists[in.list])[lane] : 1U << target.block->rank;
  const std::uint64_t barrier_address = row_of<std::uint64_t>(in.e)[lane];
  constexpr std::uint64_t within = (std::uint64_t{1} << shared_rank_shift) - 1;
  for (std::uint32_t rank = 0; rank < unit_->blocks.size(); ++rank) {
    if (((receivers >> rank) & 1) == 0) continue;
    Block& receiver = *unit_->blocks[rank];
    // In every receiving block data and mbarrier have the offsets that they have in the named one; of pairs the
    // mbarrier of the receiver or its peer, whichever has the place in its pair that the named mbarrier's block has.
    std::uint32_t signalling = rank;
    if (access.paired) {
      const std::uint64_t named = barrier_address >> shared_rank_shift;
      signalling = (rank & ~1U) | ((named == 0 ? block_->rank : static_cast<std::uint32_t>(named - 1)) & 1U);
    }
    const std::uint64_t signal =
        access.multicast ? shared_tag(signalling) + (barrier_address & within) : barrier_address;
    SharedTarget signalled;
    Mbarrier* barrier = find_mbarrier(signal, Space::shared_cluster, lane, signalled);
    if (barrier == nullptr) continue;
    if ((signalled.block->rank ^ rank) > (access.paired ? 1U : 0U)) {
      report(Detector::invalid_use, lane, [&] {
        return fmt::format("a copy to block {} of the cluster whose mbarrier is block {}'s{}", rank,
                           signalled.block->rank, access.paired ? ", which is not of its pair" : "");
      });
      continue;
    }
    if (&receiver != block_) note_remote(receiver);
    if (signalled.block != block_ && signalled.block != &receiver) note_remote(*signalled.block);
    PendingBulk arrival = copy;
    arrival.block = rank;
    arrival.target = target.offset;
    if (!access.reduces) {
      const SharedOutcome outcome =
          receiver.shared.begin_async_write(target.offset, bytes, shared_accessor(receiver, lane, false));
      if (outcome.fault != SharedFault::none) report_shared(outcome, lane, true);
    }
    barrier->arriving.push_back(std::move(arrival));
  }
}

Interpreter::Step Interpreter::bulk_commit(const Instruction&, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) warp_->bulk_groups[lane] += (lanes >> lane) & 1;
  return Step::next;
}

/// A copy to global memory takes effect, as writes of the lane that waits for it.
void Interpreter::land_bulk_store(PendingBulk& copy) {
  const std::uint32_t bytes = copy.data.size();
  block_->shared.end_async_read(copy.source_offset, bytes);
  MemoryRegion* region = region_of(copy.target, bytes, copy.lane, Touch::write, "bulk write");
  if (region == nullptr) return;
  MemoryAccess access;
  access.element_bytes = 16;
  constexpr std::uint32_t chunk = 512;
  for (std::uint32_t at = 0; at < bytes; at += chunk) {
    const std::uint32_t length = std::min(chunk, bytes - at);
    if (copy.reduces) {
      reduce_into_global(*region, copy, at, length);
      continue;
    }
    std::memcpy(staging_.data(), copy.data.data() + at, length);
    global_run(*region, copy.target + at, length, 0, Touch::write, access);
  }
  const std::uint64_t sectors = (copy.target + bytes - 1) / sector_bytes - copy.target / sector_bytes + 1;
  for (GlobalTraffic* traffic : {&counters_.global_stores, &traffic_of(*region).stores}) {
    traffic->requests += copy.first_of_tile ? 1 : 0;
    traffic->sectors += sectors;
    traffic->l2_sectors += sectors;
  }
  ++unit_->events;
  ++unit_->global_events;
}

/// cp.reduce.async.bulk into global memory: every element is an atomic of device scope, unordered.
void Interpreter::reduce_into_global(MemoryRegion& region, const PendingBulk& copy, std::uint32_t at,
                                     std::uint32_t length) {
  const BulkAccess& access = code_.bulks[copy.detail];
  constexpr std::uint32_t sizes[] = {4, 4, 8, 8, 4, 8, 2, 2, 4, 4, 2, 4, 8, 16};
  const std::uint32_t size = sizes[static_cast<int>(copy.reduction)];
  const std::uint64_t offset = copy.target + at - region.buffer.address;
  GlobalOutcome outcome;
  const GlobalAccessor who = global_accessor(true, false);
  // A chunk is at most a page long; its pages are taken one after the other.
  for (std::uint32_t done = 0; done < length; done += size) {
    const std::uint64_t page = (offset + done) / Memory::page_bytes;
    const std::lock_guard guard(region.lock_of(page));
    region.touch(page, context_.generation);
    check_global_read(region, offset + done, size, who, outcome);
    check_global_write(region, offset + done, size, who, outcome);
    combine_element(copy.reduction, access.operation, false, region.data + offset + done, copy.data.data() + at + done);
  }
  counters_.global_loads.unique_sectors += outcome.new_read_sectors;
  counters_.global_stores.unique_sectors += outcome.new_written_sectors;
  traffic_of(region).loads.unique_sectors += outcome.new_read_sectors;
  traffic_of(region).stores.unique_sectors += outcome.new_written_sectors;
  if (outcome.faults != 0) report_global(outcome, region, copy.lane, Touch::update);
}

/// cp.async.bulk.wait_group[.read] immediate. With .read (form 1) the source may be reused, but the target is not yet
/// known to be written: it is written here all the same, as the copy's writes may happen at any time.
Interpreter::Step Interpreter::bulk_wait(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint32_t committed = warp_->bulk_groups[lane];
    const std::uint32_t pending = std::min<std::uint64_t>(in.immediate, committed);
    std::vector<PendingBulk> landing;
    std::erase_if(warp_->bulk_stores, [&](PendingBulk& copy) {
      if (copy.lane != lane || copy.group >= committed - pending) return false;
      landing.push_back(std::move(copy));
      return true;
    });
    for (PendingBulk& copy : landing) land_bulk_store(copy);
  }
  unit_->clock->advance();
  ++unit_->events;
  return Step::next;
}

/// st.async: a = target, e = mbarrier, list = values. Each lane's bytes arrive on the mbarrier.
Interpreter::Step Interpreter::store_async(const Instruction& in, std::uint32_t lanes) {
  const MemoryAccess& access = code_.accesses[in.detail];
  move_to_staging(in, access);
  const auto* to = row_of<std::uint64_t>(in.a);
  const auto* signal = row_of<std::uint64_t>(in.e);
  const std::uint32_t bytes = access.bytes();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    SharedTarget target;
    SharedTarget signalled;
    if (((lanes >> lane) & 1) == 0 || !shared_target(to[lane], bytes, true, lane, target)) continue;
    Mbarrier* barrier = find_mbarrier(signal[lane], Space::shared_cluster, lane, signalled);
    if (barrier == nullptr) continue;
    note_remote(*target.block);
    PendingBulk arrival;
    arrival.lane = lane;
    arrival.block = target.block->rank;
    arrival.target = target.offset;
    arrival.instruction = pc_;
    const std::byte* staged = staging_.data() + std::size_t{lane} * bytes;
    arrival.data.assign(staged, staged + bytes);
    const SharedOutcome outcome =
        target.block->shared.begin_async_write(target.offset, bytes, shared_accessor(*target.block, lane, false));
    if (outcome.fault != SharedFault::none) report_shared(outcome, lane, true);
    barrier->arriving.push_back(std::move(arrival));
  }
  ++unit_->events;
  return Step::next;
}

}  // namespace stitch::emulator
