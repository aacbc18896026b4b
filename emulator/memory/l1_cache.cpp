#include "emulator/memory/l1_cache.h"

#include <algorithm>
#include <bit>
#include <span>

namespace stitch::emulator {
namespace {

constexpr std::uint64_t line_bytes = 128;

}  // namespace

void L1Cache::reset(std::uint64_t bytes) {
  sets_ = bytes / (line_bytes * ways);
  lines_.resize(sets_ * ways);
  time_ = 0;
  invalidate();  // nothing to clear: blocks of a launch take over one another's
}

std::uint32_t L1Cache::load(std::uint64_t line, std::uint32_t mask, bool allocates) {
  const std::uint32_t wanted = std::popcount(mask);
  if (sets_ == 0) return wanted;
  // Rows a power of two apart would all want the same set: the set is chosen by a hash, as in hardware.
  const std::uint64_t mixed = (line ^ (line >> 15)) * 0x9E3779B97F4A7C15ULL;
  const std::uint64_t set = (mixed >> 32) % sets_;
  const std::span<Line> places(lines_.data() + set * ways, ways);
  ++time_;
  for (Line& each : places) {
    if (each.generation != generation_ || each.tag != line) continue;
    each.used = time_;
    const std::uint32_t missing = std::popcount(mask & ~each.sectors);
    if (allocates) each.sectors |= mask;
    return missing;
  }
  if (!allocates) return wanted;
  Line& oldest = *std::ranges::min_element(
      places, {}, [&](const Line& each) { return each.generation == generation_ ? each.used : 0; });
  oldest = {line, time_, generation_, mask};
  return wanted;
}

std::uint64_t l1_share(std::uint64_t blocks, std::uint32_t threads_per_block, std::uint64_t shared_bytes) {
  constexpr std::uint64_t sms = 132;
  constexpr std::uint64_t l1_and_shared = 256 << 10;
  constexpr std::uint64_t most_shared = 228 << 10;
  constexpr std::uint64_t reserved = 1 << 10;  // of shared memory, by the driver, in every block
  constexpr std::uint64_t most_threads = 2048;
  constexpr std::uint64_t most_blocks = 32;
  const std::uint64_t taken = shared_bytes + reserved;
  const std::uint64_t resident = std::clamp<std::uint64_t>(
      std::min({most_threads / std::max(1U, threads_per_block), most_shared / taken, (blocks + sms - 1) / sms}), 1,
      most_blocks);
  return (l1_and_shared - std::min(l1_and_shared, resident * taken)) / resident;
}

}  // namespace stitch::emulator
