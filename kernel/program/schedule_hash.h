#pragma once

#include "base/hash.h"
#include "kernel/program/schedule.h"

namespace stitch::kernel {

/// Names a schedule by all that it holds: equal schedules have equal hashes, in every process and version. Together
/// with the key of the kernel's canonical graph it names a candidate.
Hash128 schedule_hash(const Schedule& schedule);

}  // namespace stitch::kernel
