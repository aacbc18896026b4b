#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// Inputs of a kernel, by number, that nobody writes while the launch before it still runs: the bits of those with a
/// number below 64. What such a launch has not yet ended is for the kernel to wait for; these it may load before
/// (codegen/device/launch.cuh says when nobody does).
using UnwaitedInputs = std::uint64_t;

inline bool is_unwaited(UnwaitedInputs inputs, const Buffer& buffer) {
  return buffer.kind == Buffer::Kind::input && buffer.number < 64 && ((inputs >> buffer.number) & 1U) != 0;
}

/// The loads of a kernel's only group that are made before the wait for the launch before, where `inputs` are
/// unwaited: those that a thread makes once, in no loop, and whose address follows from its place alone, without a
/// guard. Of later sweeps as many as keep no more than 32 registers until then: where the first sweep reads what the
/// launch before has written these are all that does not depend on it (a norm's gain and residual). In the order of the
/// program's items.
///
/// None of a kernel of several groups or phases, of one that loops over tiles or rows or takes turns (what it waits for
/// is not worth a part of its first turn), of scans, sorts and scatters, which have loops of their own, and of rows
/// whose vectors begin before them.
std::vector<ItemId> unwaited_loads(const KernelProgram& program, UnwaitedInputs inputs);

}  // namespace stitch::kernel
