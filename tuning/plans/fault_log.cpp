#include "tuning/plans/fault_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "tuning/plans/fault_report.h"

namespace stitch::tuning {

void FaultLog::note(const db::Candidate& candidate) {
  if (!tell_ || !is_fault(candidate.outcome)) return;
  const std::lock_guard lock(mutex_);
  if (!known_.insert(candidate.schedule_hash).second) return;
  std::string line =
      fmt::format("fragment {}, schedule {}: {}: {}", candidate.key.fragment.hex(),
                  candidate.schedule_hash.hex().substr(0, 12), db::to_string(candidate.outcome), candidate.detail);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' '; }, ' ');
  tell_(line);
}

}  // namespace stitch::tuning
