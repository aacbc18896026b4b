#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/memory/unit_clock.h"

namespace stitch::emulator {

/// Who touched a piece of shared memory last, and when.
///
///   63 special (below: pending, remote, detached)   62..31 time   30..19 agent of the unit's clock   18..14 lane flags
///
/// Time stands highest, so that one comparison tells that an access happened before the block's last barrier; special
/// stamps never pass it.
struct SharedStamp {
  std::uint64_t bits = 0;

  static constexpr std::uint64_t special = std::uint64_t{1} << 63;
  static constexpr std::uint64_t strong_flag = 1;   ///< atomic or ordered access
  static constexpr std::uint64_t lanes_flag = 2;    ///< several lanes of the warp read
  static constexpr std::uint64_t second_flag = 4;   ///< another warp read as well: see second_reader
  static constexpr std::uint64_t pending_flag = 8;  ///< an asynchronous copy is on its way here
  static constexpr std::uint64_t async_flag = 16;   ///< written by an asynchronous copy

  static constexpr SharedStamp of(std::uint32_t time, std::uint32_t agent, std::uint32_t lane, std::uint64_t flags) {
    return {std::uint64_t{time} << 31 | std::uint64_t{agent} << 19 | lane << 14 | flags};
  }
  /// What stamps before `time` are smaller than.
  static constexpr std::uint64_t before(std::uint32_t time) { return std::uint64_t{time} << 31; }
  [[nodiscard]] bool exists() const { return bits != 0; }
  [[nodiscard]] bool has(std::uint64_t flag) const { return (bits & flag) != 0; }
  [[nodiscard]] std::uint32_t time() const { return (bits & ~special) >> 31; }
  [[nodiscard]] std::uint32_t agent() const { return bits >> 19 & 0xFFF; }
  [[nodiscard]] std::uint32_t lane() const { return bits >> 14 & 31; }
};

enum class SharedFault : std::uint8_t {
  none,
  uninitialised,
  write_after_write,
  read_after_write,
  write_after_read,
  pending,     ///< touches the target of an asynchronous copy that was not waited for
  being_read,  ///< writes to the source of an asynchronous copy that was not waited for
};

struct SharedOutcome {
  SharedFault fault = SharedFault::none;
  SharedStamp other;         ///< the access it conflicts with
  std::uint32_t offset = 0;  ///< of the first byte concerned
};

/// Who accesses shared memory.
struct SharedAccessor {
  const UnitClock* clock = nullptr;
  std::uint32_t agent = 0;
  std::uint32_t lane = 0;
  bool remote = false;  ///< from another block of the cluster
  bool strong = false;
  bool async = false;
  bool detached = false;  ///< goes on behind the block's barriers: they order what follows it with nothing
};

/// A block's shared memory with its shadow: per granule (the narrowest access of the kernel) the last writer and up to
/// two unordered readers. A granule without a writer is uninitialised. Offsets count from the first usable byte.
class SharedMemory {
 public:
  /// Forgets everything; `bytes` is rounded up to 16.
  void reset(std::uint32_t block, std::uint32_t bytes, std::uint32_t granule);

  [[nodiscard]] std::uint32_t bytes() const { return bytes_; }
  [[nodiscard]] std::byte* data() { return data_.data(); }
  [[nodiscard]] bool contains(std::uint64_t offset, std::uint64_t length) const {
    return offset <= bytes_ && length <= bytes_ - offset;
  }

  /// Checks one lane's access of `length` bytes (a multiple of the granule, aligned to it) and records it.
  SharedOutcome read(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who);
  SharedOutcome write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who);

  /// The usual case of read and write, quickly: nobody touched the bytes since the block's last barrier. False: ask
  /// read or write, nothing was recorded. `who` is of the block itself, neither strong nor asynchronous.
  bool read_after_barrier(std::uint32_t offset, std::uint32_t length, SharedStamp mine, std::uint64_t floor) {
    const std::uint32_t first = granule_of(offset);
    const std::uint32_t last = granule_of(offset + length - 1);
    for (std::uint32_t g = first; g <= last; ++g) {
      if (writers_[g].bits - 1 >= floor - 1 || readers_[g].bits >= floor || readers_[g].has(SharedStamp::second_flag))
        return false;
    }
    for (std::uint32_t g = first; g <= last; ++g) readers_[g] = mine;
    return true;
  }
  bool write_after_barrier(std::uint32_t offset, std::uint32_t length, SharedStamp mine, std::uint64_t floor) {
    if (async_read_count_ != 0) return false;
    const std::uint32_t first = granule_of(offset);
    const std::uint32_t last = granule_of(offset + length - 1);
    for (std::uint32_t g = first; g <= last; ++g) {
      if (writers_[g].bits >= floor || readers_[g].bits >= floor || readers_[g].has(SharedStamp::second_flag))
        return false;
    }
    for (std::uint32_t g = first; g <= last; ++g) {
      writers_[g] = mine;
      readers_[g] = {};
    }
    return true;
  }

  /// Whole-warp access of 32 adjacent lanes that can only be in order: true when it was checked and recorded, false
  /// when lanes have to be looked at one by one.
  bool read_run(std::uint32_t offset, std::uint32_t lane_bytes, const SharedAccessor& warp);
  bool write_run(std::uint32_t offset, std::uint32_t lane_bytes, const SharedAccessor& warp);

  /// Marks a range as the target of an asynchronous copy (after checking that nobody else may still use it).
  SharedOutcome begin_async_write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who);
  /// The copy's bytes have arrived.
  void end_async_write(std::uint32_t offset, std::uint32_t length, const SharedAccessor& who);
  /// Marks a range as being read by an asynchronous copy, until the matching end.
  void begin_async_read(std::uint32_t offset, std::uint32_t length);
  void end_async_read(std::uint32_t offset, std::uint32_t length);
  /// Whether an ordinary write at or after `time` went to the range.
  [[nodiscard]] bool written_since(std::uint32_t offset, std::uint32_t length, std::uint32_t time) const;

 private:
  [[nodiscard]] std::uint32_t granule_of(std::uint32_t offset) const { return offset >> granule_shift_; }
  [[nodiscard]] bool ordered(SharedStamp stamp, const SharedAccessor& who) const;
  void record_read(std::uint32_t granule, SharedStamp mine, const SharedAccessor& who);

  std::uint32_t block_ = 0;
  std::uint32_t bytes_ = 0;
  int granule_shift_ = 2;
  std::vector<std::byte> data_;
  std::vector<SharedStamp> writers_;
  std::vector<SharedStamp> readers_;
  std::vector<SharedStamp> second_readers_;
  std::vector<std::uint8_t> async_reads_;  ///< copies that read each granule; empty when there never were any
  std::uint32_t async_read_count_ = 0;
};

}  // namespace stitch::emulator
