#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "emulator/memory/buffer.h"

namespace stitch::emulator {

inline constexpr std::uint32_t sector_bytes = 32;
inline constexpr std::uint32_t sectors_per_page = buffer_page_bytes / sector_bytes;
inline constexpr std::uint32_t read_bytes_per_page = sectors_per_page / 8;
inline constexpr int region_shift = 36;

/// Who touched a sector last, and when: position of the block in the launch, time of the block's clock, warp.
///
///   63..38 ordinal + 1 (0: nobody)   37..7 time   6..2 warp   1 several warps   0 strong (atomic or ordered access)
struct Epoch {
  std::uint64_t bits = 0;

  static constexpr std::uint32_t latest_time = (1U << 31) - 1;
  static constexpr Epoch of(std::uint32_t ordinal, std::uint32_t time, std::uint32_t warp, bool strong) {
    return {(std::uint64_t{ordinal} + 1) << 38 | std::uint64_t{time} << 7 | warp << 2 | (strong ? 1 : 0)};
  }
  [[nodiscard]] bool exists() const { return bits != 0; }
  [[nodiscard]] std::uint32_t ordinal() const { return (bits >> 38) - 1; }
  [[nodiscard]] std::uint32_t time() const { return bits >> 7 & latest_time; }
  [[nodiscard]] std::uint32_t warp() const { return bits >> 2 & 31; }
  [[nodiscard]] bool several_warps() const { return (bits & 2) != 0; }
  [[nodiscard]] bool strong() const { return (bits & 1) != 0; }
  [[nodiscard]] bool same_block(Epoch other) const { return bits >> 38 == other.bits >> 38; }
  [[nodiscard]] Epoch with_several_warps() const { return {bits | 2}; }
};

/// One writer per byte, for a sector that several blocks write.
using ByteWriters = std::array<Epoch, sector_bytes>;

/// What is known about 32 bytes of global memory. All but `flipped` belongs to one launch, the generation in `stamp`;
/// a record of another generation counts as empty.
struct SectorRecord {
  std::uint32_t flipped = 0;            ///< bytes whose initialisation differs from the region's default
  std::uint32_t written = 0;            ///< bytes that the launch wrote
  std::array<std::uint32_t, 2> read{};  ///< bytes that each of `readers` read
  std::uint32_t stamp = 0;              ///< generation << 8 | readers seen (6 bits) << 2 | split << 1 | was read
  union {
    Epoch writer{};
    ByteWriters* writers;  ///< when split
  };
  /// Of the readers that are not ordered, two of different blocks, so that whichever block writes, one is another; of
  /// more, each with equal probability.
  std::array<Epoch, 2> readers;

  static constexpr std::uint32_t was_read = 1;
  static constexpr std::uint32_t split = 2;
  static constexpr std::uint32_t reader_unit = 4;
  static constexpr std::uint32_t reader_mask = 0xFC;

  [[nodiscard]] std::uint32_t generation() const { return stamp >> 8; }
  [[nodiscard]] bool is_split() const { return (stamp & split) != 0; }
  void open(std::uint32_t current_generation) {
    if (generation() == current_generation) return;
    written = 0;
    stamp = current_generation << 8;
    writer = {};
    read = {};
    readers = {};
  }
};
static_assert(sizeof(SectorRecord) == 48);

/// A lock that is held for a few hundred nanoseconds.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      while (flag_.test(std::memory_order_relaxed)) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

/// A buffer's host side: bytes and shadow, reserved as one mapping and committed page by page as they are touched.
/// Bytes and records of a page may be touched only under lock_of(page), once several host threads run.
struct MemoryRegion {
  Buffer buffer;
  std::string name;
  std::byte* data = nullptr;
  bool read_only = false;
  SectorRecord* sectors = nullptr;       ///< null when read only
  std::uint8_t* sectors_read = nullptr;  ///< when read only: a bit per sector, of the page's launch
  std::uint32_t* page_stamp = nullptr;   ///< generation of the last launch that touched the page
  std::unique_ptr<std::atomic<std::uint32_t>[]> group_stamp;  ///< the same for each run of pages_per_group pages
  std::uint8_t* page_ready = nullptr;                         ///< 1: the page holds its initial contents
  std::uint32_t default_initialised = 0;                      ///< all ones: bytes count as initialised from the start
  PageFiller filler;                                          ///< null: zero
  void* mapping = nullptr;
  std::size_t mapped_bytes = 0;

  static constexpr std::uint64_t pages_per_group = 1024;
  static constexpr std::size_t lock_count = 64;
  struct alignas(64) PaddedLock {
    SpinLock lock;
  };
  std::array<PaddedLock, lock_count> locks;
  std::mutex split_mutex;
  std::vector<std::unique_ptr<ByteWriters>> split_records;  ///< of the current launch

  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// Reserves host memory for `buffer.bytes` of data and their shadow, after `buffer`, `name` and `read_only` were set.
  /// Error: resource_exhausted.
  Status map();
  /// The same around bytes that exist: only their shadow is reserved, and nothing fills them.
  Status map_shadow(std::byte* host);
  [[nodiscard]] std::uint64_t page_count() const { return (buffer.bytes + buffer_page_bytes - 1) / buffer_page_bytes; }
  [[nodiscard]] SpinLock& lock_of(std::uint64_t page) { return locks[page % lock_count].lock; }
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return address >= buffer.address && bytes <= buffer.bytes && address - buffer.address <= buffer.bytes - bytes;
  }
  /// Bytes of the sector that are initialised.
  [[nodiscard]] std::uint32_t initialised(const SectorRecord& record) const {
    return record.flipped ^ default_initialised;
  }
  /// Marks bytes as initialised.
  void initialise(SectorRecord& record, std::uint32_t mask) const {
    record.flipped = (record.flipped & ~mask) | (~default_initialised & mask);
  }
  /// Marks bytes as not initialised.
  void forget(SectorRecord& record, std::uint32_t mask) const {
    record.flipped = (record.flipped & ~mask) | (default_initialised & mask);
  }
  /// Gives the page its initial contents if it has none yet. The caller holds its lock.
  void prepare(std::uint64_t page) {
    if (page_ready[page] == 0) fill(page);
  }
  /// Notes that the launch touches the page, and makes it ready. The caller holds its lock.
  void touch(std::uint64_t page, std::uint32_t generation) {
    prepare(page);
    if (read_only && page_stamp[page] != generation)
      std::fill_n(sectors_read + page * read_bytes_per_page, read_bytes_per_page, std::uint8_t{0});
    page_stamp[page] = generation;
    // Pages of a group have different locks.
    std::atomic<std::uint32_t>& group = group_stamp[page / pages_per_group];
    if (group.load(std::memory_order_relaxed) != generation) group.store(generation, std::memory_order_relaxed);
  }
  void fill(std::uint64_t page);
  /// Reserves what a region has beside `data_bytes` of data, and lays it out. Error: resource_exhausted.
  Status reserve(std::size_t data_bytes);
  ByteWriters* new_split();
};

/// The bytes of a sector that [begin, end) covers, as a mask; positions relative to the sector, clipped to it.
constexpr std::uint32_t sector_mask(std::int64_t begin, std::int64_t end) {
  const std::int64_t first = begin < 0 ? 0 : begin;
  const std::int64_t last = end > sector_bytes ? sector_bytes : end;
  if (first >= last) return 0;
  const std::uint32_t up_to_last = last >= 32 ? ~0U : (1U << last) - 1;
  return up_to_last & ~((1U << first) - 1);
}

}  // namespace stitch::emulator
