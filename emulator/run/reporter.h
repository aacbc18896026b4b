#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/decode/code.h"
#include "emulator/finding.h"

namespace stitch::emulator {

/// A thread as findings name it.
struct ThreadPlace {
  Dim3 block;
  Dim3 thread;
  std::uint64_t ordinal = 0;
};

/// Collects findings of one host thread: one entry per detector and instruction, with the occurrence that comes first
/// in block and thread order, so that reports do not depend on how blocks were scheduled.
class Reporter {
 public:
  explicit Reporter(const Code& code, Checks checks) : code_(&code), checks_(checks) {}

  [[nodiscard]] bool wants(Detector detector) const { return checks_.has(detector); }

  /// Notes an occurrence. `describe()` makes the message, and is called only if this occurrence is the first in order.
  template <class F>
  void report(Detector detector, std::uint32_t instruction, const ThreadPlace& place, F&& describe) {
    if (!wants(detector)) return;
    Entry& entry = entries_[{code_->origins[instruction].ptx_line, detector}];
    ++entry.count;
    if (entry.count > 1 && place.ordinal >= entry.place.ordinal) return;
    entry.place = place;
    entry.instruction = instruction;
    entry.message = describe();
  }

  void merge(const Reporter& other);
  /// At most `most` findings, in order of place; `total` is the number of occurrences of all.
  [[nodiscard]] std::vector<Finding> findings(std::size_t most, std::uint64_t& total) const;

 private:
  struct Entry {
    std::string message;
    ThreadPlace place;
    std::uint32_t instruction = 0;
    std::uint64_t count = 0;
  };
  const Code* code_;
  Checks checks_;
  std::map<std::pair<std::uint32_t, Detector>, Entry> entries_;
};

}  // namespace stitch::emulator
