#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stitch::driver {

/// How far along several queues something is known to be: a vector clock whose threads are streams. Times count the
/// operations of a queue from 1; a queue that is not named is at 0.
///
/// An operation's clock says both when it may begin (every queue has got as far) and what happened before it (all
/// that, and nothing else): the order that events, default streams and waits of the host make.
class StreamClock {
 public:
  [[nodiscard]] std::uint64_t at(std::uint32_t queue) const;
  /// Takes over whatever `other` knows beyond this.
  void join(const StreamClock& other);
  void advance(std::uint32_t queue, std::uint64_t time);
  void clear() { times_.clear(); }
  [[nodiscard]] bool knows(std::uint32_t queue, std::uint64_t time) const { return at(queue) >= time; }
  /// Queues and times, by queue.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, std::uint64_t>>& times() const { return times_; }

 private:
  std::vector<std::pair<std::uint32_t, std::uint64_t>> times_;
};

}  // namespace stitch::driver
