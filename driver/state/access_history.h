#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/state/stream_clock.h"
#include "emulator/memory/memory.h"

namespace stitch::driver {

/// An operation that touched an allocation.
struct Access {
  std::uint32_t queue = 0;
  std::uint64_t time = 0;
  bool writes = false;
  std::string what;                         ///< "kernel saxpy on stream 3"
  std::vector<emulator::ByteRange> ranges;  ///< of the allocation, ascending
};

/// A byte that two operations touch, of which one writes, and that nothing orders.
struct Conflict {
  Access before;
  std::uint64_t offset = 0;
};

/// Who touched an allocation, as far as somebody could still come that does not know of it. Kept small: what happened
/// before everything that is to come is forgotten, and of very many accesses the oldest.
class AccessHistory {
 public:
  /// The earlier access that `next`, which knows `clock`, is not ordered with, if there is one. Remembers `next`.
  std::optional<Conflict> add(Access next, const StreamClock& clock);
  /// Forgets what everybody knows of: what the host has waited for.
  void forget(const StreamClock& known);
  void clear() { accesses_.clear(); }

 private:
  std::vector<Access> accesses_;
};

/// The first byte that two ascending lists of ranges share.
std::optional<std::uint64_t> first_shared(std::span<const emulator::ByteRange> a,
                                          std::span<const emulator::ByteRange> b);

}  // namespace stitch::driver
