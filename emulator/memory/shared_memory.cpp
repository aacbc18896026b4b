#include "emulator/memory/shared_memory.h"

#include <algorithm>
#include <bit>

namespace stitch::emulator {

void SharedMemory::reset(std::uint32_t block, std::uint32_t bytes, std::uint32_t granule) {
  block_ = block;
  bytes_ = bytes;
  granule_shift_ = std::countr_zero(granule);
  const std::size_t padded = (std::size_t{bytes} + 15) / 16 * 16;
  const std::size_t granules = padded >> granule_shift_;
  // Deterministic filler: reads of it are findings, and results must not depend on what ran before.
  data_.assign(padded, std::byte{0xCD});
  writers_.assign(granules, {});
  readers_.assign(granules, {});
  second_readers_.assign(granules, {});
  async_reads_.clear();
  async_read_count_ = 0;
}

bool SharedMemory::ordered(SharedStamp stamp, const SharedAccessor& who) const {
  if (!who.remote && stamp.bits < SharedStamp::before(who.clock->block_floor(block_))) return true;
  if (stamp.agent() != who.agent) return who.clock->ordered(who.agent, stamp.agent(), stamp.time());
  if (stamp.has(SharedStamp::lanes_flag)) return stamp.time() < who.clock->warp_floor(who.agent);
  return who.clock->lanes_ordered(who.agent, who.lane, stamp.lane(), stamp.time());
}

void SharedMemory::record_read(std::uint32_t granule, SharedStamp mine, const SharedAccessor& who) {
  SharedStamp& reader = readers_[granule];
  if (reader.exists() && !ordered(reader, who)) {
    if (reader.agent() == who.agent) {
      mine.bits |= SharedStamp::lanes_flag | (reader.bits & SharedStamp::second_flag);
    } else {
      // A stamp of another warp that is not ordered is kept beside the latest.
      second_readers_[granule] = reader;
      mine.bits |= SharedStamp::second_flag;
    }
  } else if (reader.has(SharedStamp::second_flag) && !ordered(second_readers_[granule], who)) {
    mine.bits |= SharedStamp::second_flag;
  }
  reader = mine;
}

SharedOutcome SharedMemory::read(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who) {
  SharedOutcome outcome;
  const std::uint64_t flags =
      (who.strong ? SharedStamp::strong_flag : 0) | (who.remote || who.detached ? SharedStamp::special : 0);
  const SharedStamp mine = SharedStamp::of(who.clock->now(), who.agent, who.lane, flags);
  const std::uint64_t floor = who.remote ? 0 : SharedStamp::before(who.clock->block_floor(block_));
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) {
    const SharedStamp writer = writers_[g];
    if (writer.bits - 1 >= floor - 1 || floor == 0) {
      SharedFault fault = SharedFault::none;
      if (!writer.exists()) {
        fault = SharedFault::uninitialised;
      } else if (writer.has(SharedStamp::pending_flag)) {
        fault = SharedFault::pending;
      } else if (!(who.strong && writer.has(SharedStamp::strong_flag)) && !ordered(writer, who)) {
        fault = SharedFault::read_after_write;
      }
      if (fault != SharedFault::none && outcome.fault == SharedFault::none)
        outcome = {fault, writer, g << granule_shift_};
    }
    if (readers_[g].bits < floor && !readers_[g].has(SharedStamp::second_flag)) {
      readers_[g] = mine;
    } else {
      record_read(g, mine, who);
    }
  }
  return outcome;
}

SharedOutcome SharedMemory::write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who) {
  SharedOutcome outcome;
  const std::uint64_t flags = (who.strong ? SharedStamp::strong_flag : 0) | (who.async ? SharedStamp::async_flag : 0) |
                              (who.remote ? SharedStamp::special : 0);
  const SharedStamp mine = SharedStamp::of(who.clock->now(), who.agent, who.lane, flags);
  const std::uint64_t floor = who.remote ? 0 : SharedStamp::before(who.clock->block_floor(block_));
  const auto conflicts = [&](SharedStamp other) {
    return other.exists() && !(who.strong && other.has(SharedStamp::strong_flag)) && !ordered(other, who);
  };
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) {
    const SharedStamp writer = writers_[g];
    const SharedStamp reader = readers_[g];
    if (writer.bits >= floor || reader.bits >= floor || reader.has(SharedStamp::second_flag)) {
      SharedFault fault = SharedFault::none;
      SharedStamp other = writer;
      if (writer.has(SharedStamp::pending_flag)) {
        fault = SharedFault::pending;
      } else if (conflicts(writer)) {
        fault = SharedFault::write_after_write;
      } else if (conflicts(reader)) {
        fault = SharedFault::write_after_read;
        other = reader;
      } else if (reader.has(SharedStamp::second_flag) && conflicts(second_readers_[g])) {
        fault = SharedFault::write_after_read;
        other = second_readers_[g];
      }
      if (fault != SharedFault::none && outcome.fault == SharedFault::none)
        outcome = {fault, other, g << granule_shift_};
      // The copy will still arrive: its mark stays until then.
      if (fault == SharedFault::pending) continue;
    }
    writers_[g] = mine;
    readers_[g] = {};
  }
  if (async_read_count_ != 0 && outcome.fault == SharedFault::none) {
    for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) {
      if (async_reads_[g] != 0) return {SharedFault::being_read, {}, g << granule_shift_};
    }
  }
  return outcome;
}

bool SharedMemory::read_run(std::uint32_t offset, std::uint32_t lane_bytes, const SharedAccessor& warp) {
  const std::uint64_t floor = SharedStamp::before(warp.clock->block_floor(block_));
  const std::uint32_t first = granule_of(offset);
  const std::uint32_t per_lane = lane_bytes >> granule_shift_;
  const std::uint32_t count = warp_lanes * per_lane;
  const SharedStamp* writers = writers_.data() + first;
  SharedStamp* readers = readers_.data() + first;
  if (floor == 0) return false;
  bool bad = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    bad |= writers[i].bits - 1 >= floor - 1;
    bad |= readers[i].bits >= floor;
    bad |= (readers[i].bits & SharedStamp::second_flag) != 0;
  }
  if (bad) return false;
  SharedStamp mine = SharedStamp::of(warp.clock->now(), warp.agent, 0, 0);
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane, mine.bits += 1U << 14) {
    for (std::uint32_t i = 0; i < per_lane; ++i) readers[lane * per_lane + i] = mine;
  }
  return true;
}

bool SharedMemory::write_run(std::uint32_t offset, std::uint32_t lane_bytes, const SharedAccessor& warp) {
  // Before the first barrier nothing was touched, or only by this very pattern: zero stamps pass.
  const std::uint64_t floor = std::max<std::uint64_t>(SharedStamp::before(warp.clock->block_floor(block_)), 1);
  const std::uint32_t first = granule_of(offset);
  const std::uint32_t per_lane = lane_bytes >> granule_shift_;
  const std::uint32_t count = warp_lanes * per_lane;
  SharedStamp* writers = writers_.data() + first;
  SharedStamp* readers = readers_.data() + first;
  bool bad = async_read_count_ != 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    bad |= writers[i].bits >= floor;
    bad |= readers[i].bits >= floor;
    bad |= (readers[i].bits & SharedStamp::second_flag) != 0;
  }
  if (bad) return false;
  SharedStamp mine = SharedStamp::of(warp.clock->now(), warp.agent, 0, 0);
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane, mine.bits += 1U << 14) {
    for (std::uint32_t i = 0; i < per_lane; ++i) writers[lane * per_lane + i] = mine;
  }
  std::fill_n(readers, count, SharedStamp{});
  return true;
}

SharedOutcome SharedMemory::begin_async_write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who) {
  const SharedOutcome outcome = write(offset, length, who);
  const SharedStamp mark =
      SharedStamp::of(who.clock->now(), who.agent, who.lane, SharedStamp::special | SharedStamp::pending_flag);
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) writers_[g] = mark;
  return outcome;
}

void SharedMemory::end_async_write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who) {
  const SharedStamp mine = SharedStamp::of(who.clock->now(), who.agent, who.lane,
                                           SharedStamp::async_flag | (who.remote ? SharedStamp::special : 0));
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) {
    writers_[g] = mine;
    readers_[g] = {};
  }
}

void SharedMemory::begin_async_read(std::uint32_t offset, std::uint32_t length) {
  if (async_reads_.empty()) async_reads_.resize(writers_.size());
  ++async_read_count_;
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) ++async_reads_[g];
}

void SharedMemory::end_async_read(std::uint32_t offset, std::uint32_t length) {
  --async_read_count_;
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) --async_reads_[g];
}

bool SharedMemory::written_since(std::uint32_t offset, std::uint32_t length, std::uint32_t time) const {
  for (std::uint32_t g = granule_of(offset); g <= granule_of(offset + length - 1); ++g) {
    const SharedStamp writer = writers_[g];
    if (writer.exists() && !writer.has(SharedStamp::async_flag | SharedStamp::pending_flag) && writer.time() >= time) {
      return true;
    }
  }
  return false;
}

}  // namespace stitch::emulator
