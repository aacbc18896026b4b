#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "emulator/memory/memory.h"

namespace stitch::emulator {

/// What of global memory a launch touched before its griddepcontrol.wait, for a kernel that is launched to begin before
/// what it depends on has ended (programmatic dependent launch). An access counts unless the thread has waited, or
/// knows by barriers of its block or cluster that another one has. The launch notes, from any thread; its caller asks.
class EarlyAccesses {
 public:
  struct Touched {
    std::uint64_t buffer = 0;              ///< its address
    std::vector<ByteRange> reads, writes;  ///< merged and ascending
  };

  void add(std::uint64_t buffer, std::uint64_t offset, std::uint32_t bytes, bool writes);
  void note_wait() { waited_ = true; }

  /// By buffer. Sorts what was noted.
  [[nodiscard]] std::vector<Touched> touched();
  /// Whether any thread has waited.
  [[nodiscard]] bool waited() const { return waited_; }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Touched> touched_;
  std::atomic<bool> waited_ = false;
};

}  // namespace stitch::emulator
