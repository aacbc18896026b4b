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
/// unwaited: those that a thread makes once and whose address follows from its place alone, without a guard. They are
/// what it keeps for all turns of its outer loops (GroupProgram::hoisted), and where it has no such loops what the
/// first sweep loads before its arithmetic, unless a loop within the sweep makes it turn by turn. In the order of the
/// program's items.
///
/// None of a kernel of several groups or phases, of one that loops over tiles or takes turns (its wait stands before
/// these), of scans, sorts and scatters, which have loops of their own, and of rows whose vectors begin before them.
std::vector<ItemId> unwaited_loads(const KernelProgram& program, UnwaitedInputs inputs);

}  // namespace stitch::kernel
