#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::kernel {

/// Device-memory bytes of a kernel: every distinct operand it reads and every result it writes once; of an operand
/// that is only sliced or gathered, the bytes taken; of an update in place, the bytes written (and read, when
/// combined). bench/models/README.md has the rules.
std::int64_t kernel_bytes(const graph::Graph& kernel);

/// The same for a kernel as scheduled: what later phases and sweeps read again counts again, scratch included.
std::int64_t scheduled_bytes(const graph::Graph& kernel, const KernelProgram& program);

}  // namespace stitch::kernel
