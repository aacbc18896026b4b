#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"

namespace stitch::lab {

/// What a call of the recorder did with one kernel.
struct KernelRecord {
  Hash128 key;
  std::string name;
  std::int64_t legal = 0;                      ///< candidates that were found
  std::int64_t wanted = 0;                     ///< of those, to be recorded
  std::int64_t recorded = 0;                   ///< in the file now
  std::int64_t before = 0;                     ///< in the file before this call
  std::int64_t right = 0;                      ///< of the recorded ones
  std::map<std::string, std::int64_t> failed;  ///< of the recorded ones, by outcome
  std::string why_failed;                      ///< of the first
  std::int64_t untimed = 0;  ///< neither right nor wrong by this call, which could not judge them; left to the next one
  std::string why_untimed;   ///< of the first
  double first = 0;          ///< median of what tuning predicts to be best; 0: it failed, or is not recorded
  double best = 0;           ///< least median; 0: none
  double seconds = 0;
};

struct RecordingReport {
  std::string device, unit;
  std::vector<KernelRecord> kernels;  ///< each once, by model, fragment and launch

  /// Whether every kernel has all candidates that were wanted.
  [[nodiscard]] bool complete() const;
};
std::string to_json(const RecordingReport& report);
std::string to_table(const RecordingReport& report);

}  // namespace stitch::lab
