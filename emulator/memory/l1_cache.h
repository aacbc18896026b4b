#pragma once

#include <cstdint>
#include <vector>

namespace stitch::emulator {

/// A block's share of the SM's L1 data cache: lines of 128 bytes, filled a sector of 32 bytes at a time, the least
/// recently used line of a set leaves first. Stores write through and bring nothing in. It holds no data, only knows
/// which loads L2 would see.
///
/// What it leaves out: blocks on the same SM would find one another's lines, and the emulator runs a warp for longer at
/// a time than a GPU does, so warps that share sectors ask for them further apart. Either way it passes on more than a
/// GPU would.
class L1Cache {
 public:
  /// Empties it and gives it room for `bytes`; 0: everything is passed on.
  void reset(std::uint64_t bytes);

  /// A load of the sectors of `mask` (bit i: bytes 32 i to 32 i + 31) of the line at address 128 * `line`, which brings
  /// them in if `allocates`. Returns how many of them have to come from L2.
  std::uint32_t load(std::uint64_t line, std::uint32_t mask, bool allocates);

  /// What was loaded may be stale from here on: an acquire of device scope.
  void invalidate() { ++generation_; }

 private:
  static constexpr std::uint32_t ways = 8;
  struct Line {
    std::uint64_t tag = 0;
    std::uint32_t used = 0;        ///< time of the last load
    std::uint32_t generation = 0;  ///< it is valid in; 0: never filled
    std::uint32_t sectors = 0;
  };

  std::vector<Line> lines_;  ///< set after set
  std::uint64_t sets_ = 0;
  std::uint32_t time_ = 0;
  std::uint32_t generation_ = 1;
};

/// Bytes of L1 for each block when as many of the launch's reside on an SM as threads and shared memory allow: what
/// shared memory leaves of the 256 KiB that both are parts of (H100, 132 SMs), divided among them.
std::uint64_t l1_share(std::uint64_t blocks, std::uint32_t threads_per_block, std::uint64_t shared_bytes);

}  // namespace stitch::emulator
