#pragma once

#include <vector>

#include "base/device_spec.h"
#include "kernel/program/program.h"

namespace stitch::search {

/// What a kernel can be instead that leaves the compiler more registers for a thread's turn, simplest first: for one
/// whose schedule counted on fewer registers than ptxas takes, so that it spills in a loop. Each of these by itself,
/// then together:
///
///   nothing hoisted     what is the same in every turn is loaded in each (GroupMapping::hoists), mostly from L1, and
///                       what is written under the guard of a tail is cleared first, or it would count as live from the
///                       turn before
///   no turn ahead       loads have no registers of the next turn's (GroupMapping::stages), and wait
///   half of the blocks  where blocks wait for each other, and so are bounded to what lets all of an SM's be resident:
///                       half of them, with twice the registers
///
/// Legal ones only, whose mappings are otherwise those of `kernel`; none of recurrent kernels. What all turns then load
/// again, and how much is on its way to an SM, is the cost model's to judge.
std::vector<kernel::KernelProgram> with_register_relief(const kernel::KernelProgram& kernel, const DeviceSpec& device);

}  // namespace stitch::search
