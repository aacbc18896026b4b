#include "driver/state/access_history.h"

#include <algorithm>
#include <utility>

namespace stitch::driver {
namespace {

constexpr std::size_t most_accesses = 256;

}  // namespace

std::optional<std::uint64_t> first_shared(std::span<const emulator::ByteRange> a,
                                          std::span<const emulator::ByteRange> b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint64_t begin = std::max(a[i].offset, b[j].offset);
    const std::uint64_t end_a = a[i].offset + a[i].bytes, end_b = b[j].offset + b[j].bytes;
    if (begin < std::min(end_a, end_b)) return begin;
    if (end_a <= end_b) {
      ++i;
    } else {
      ++j;
    }
  }
  return std::nullopt;
}

std::optional<Conflict> AccessHistory::add(Access next, const StreamClock& clock) {
  std::optional<Conflict> conflict;
  for (const Access& before : accesses_) {
    if (!(before.writes || next.writes) || clock.knows(before.queue, before.time)) continue;
    if (before.queue == next.queue && before.time == next.time) continue;
    if (const auto offset = first_shared(before.ranges, next.ranges)) {
      conflict = Conflict{before, *offset};
      break;
    }
  }
  // An access to the same bytes by the same queue stands for the older one.
  std::erase_if(accesses_, [&](const Access& before) {
    return before.queue == next.queue && before.writes == next.writes && before.ranges == next.ranges;
  });
  if (accesses_.size() >= most_accesses) accesses_.erase(accesses_.begin());
  accesses_.push_back(std::move(next));
  return conflict;
}

void AccessHistory::forget(const StreamClock& known) {
  std::erase_if(accesses_, [&](const Access& access) { return known.knows(access.queue, access.time); });
}

}  // namespace stitch::driver
