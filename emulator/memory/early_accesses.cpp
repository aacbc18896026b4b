#include "emulator/memory/early_accesses.h"

#include <algorithm>

namespace stitch::emulator {
namespace {

/// Lists are put in order when they have grown to this.
constexpr std::size_t most_ranges = 4096;

void merge(std::vector<ByteRange>& ranges) {
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    ByteRange& before = ranges[last];
    if (ranges[i].offset <= before.offset + before.bytes) {
      before.bytes = std::max(before.offset + before.bytes, ranges[i].offset + ranges[i].bytes) - before.offset;
    } else {
      ranges[++last] = ranges[i];
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
}

}  // namespace

void EarlyAccesses::add(std::uint64_t buffer, std::uint64_t offset, std::uint32_t bytes, bool writes) {
  const std::lock_guard guard(mutex_);
  Touched& touched = touched_[buffer];
  touched.buffer = buffer;
  std::vector<ByteRange>& ranges = writes ? touched.writes : touched.reads;
  if (!ranges.empty() && ranges.back().offset + ranges.back().bytes == offset) {
    ranges.back().bytes += bytes;
    return;
  }
  ranges.push_back({offset, bytes});
  // Where most of them stay apart they are sorted ever more rarely.
  if (ranges.size() >= most_ranges && (ranges.size() & (ranges.size() - 1)) == 0) merge(ranges);
}

std::vector<EarlyAccesses::Touched> EarlyAccesses::touched() {
  const std::lock_guard guard(mutex_);
  std::vector<Touched> all;
  for (auto& [buffer, touched] : touched_) {
    merge(touched.reads);
    merge(touched.writes);
    all.push_back(touched);
  }
  return all;
}

}  // namespace stitch::emulator
