#pragma once

#include "base/file.h"

namespace stitch {

/// How many threads this process can keep busy, at least 1: the processors that it may run on, or fewer where its
/// control groups grant it less time. A container with `--cpus 1.5` on a machine with 64 processors has 2, where
/// std::thread::hardware_concurrency() says 64. STITCH_THREADS may be less. Asked once; what changes later is not seen.
int usable_processors();

/// The same of a process that may run on `scheduled` processors, by what `files` has of /proc/self/cgroup and
/// /sys/fs/cgroup: cpu.max of version 2 (Linux, Documentation/admin-guide/cgroup-v2.rst), cpu.cfs_quota_us and
/// cpu.cfs_period_us of version 1 (Documentation/scheduler/sched-bwc.rst), of the process's group and of all groups
/// around it. What is absent or cannot be read limits nothing; a part of a processor counts as one.
int usable_processors(const FileSystem& files, int scheduled);

/// `processors`, or fewer where `asked` is a number from 1 on (of STITCH_THREADS; null, or anything else, asks for
/// nothing).
int at_most_asked(int processors, const char* asked);

}  // namespace stitch
