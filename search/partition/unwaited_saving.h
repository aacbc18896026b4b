#pragma once

#include "base/device_spec.h"
#include "graph/graph.h"
#include "kernel/program/program.h"
#include "kernel/program/unwaited_loads.h"

namespace stitch::search {

/// What a kernel takes less, in µs, where it loads these inputs before it waits for the launch before
/// (kernel/program/unwaited_loads.h): the time of these bytes of the first wave's blocks at the bandwidth that device
/// memory reaches, each byte of a tensor once. Their latency is not counted: what is loaded behind the wait has it,
/// too. No more than what a dependent launch leaves of the launch gap (DeviceSpec::dependent_share): blocks come as the
/// launch before makes room for them. That they find room that early, and that memory has nothing else to do by then,
/// is a guess. 0 where the device has no such launches.
double unwaited_saving_us(const graph::Graph& graph, const kernel::KernelProgram& program,
                          kernel::UnwaitedInputs inputs, const DeviceSpec& device);

}  // namespace stitch::search
