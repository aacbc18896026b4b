#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program/program.h"

namespace stitch::search {

/// A schedule of a kernel, the program that follows from it, and how long that is predicted to take.
struct StitchCandidate {
  kernel::Schedule schedule;
  kernel::KernelProgram program;
  double predicted_us = 0;
};

/// The legal schedules of one kernel.
struct ScheduleSpace {
  std::vector<StitchCandidate> candidates;  ///< distinct, best prediction first; at least one
  std::vector<StitchCandidate> others;      ///< a uniform sample of the rest (least hashes), best prediction first
  std::int64_t legal = 0;                   ///< how many were found, those beyond both included
  bool whole = true;                        ///< every combination of mappings was looked at
};

}  // namespace stitch::search
