#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/device_spec.h"
#include "kernel/program/program.h"

namespace stitch::search {

/// Visits a kernel of several phases under every way of crossing from one to the next that is worth scoring: all phases
/// after the first by the last block, or a barrier of the grid before each, with fewer blocks that take several tiles
/// each, so that all are resident; and where there are more than two phases, small ones by one block.
void for_each_sync(kernel::KernelProgram& program, const DeviceSpec& device,
                   const std::function<void(const kernel::KernelProgram&)>& visit);

/// The same for a kernel whose phases load alike: what they do is kept in the shared memory that as many blocks an SM
/// as the barriers allow have left, or half as many and so on to one: the room of two may hold a round more.
void for_each_retention(kernel::KernelProgram& program, const DeviceSpec& device,
                        const std::function<void(const kernel::KernelProgram&)>& visit);

}  // namespace stitch::search
