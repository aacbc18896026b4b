#pragma once

#include "base/device_spec.h"
#include "costmodel/group_features.h"
#include "kernel/program/program.h"

namespace stitch::costmodel {

/// Counts what one group does, of a recurrent kernel: what one block does in one turn, a barrier behind it included.
GroupFeatures group_features(const graph::Graph& graph, const kernel::GroupProgram& group,
                             const kernel::KernelProgram& kernel, const DeviceSpec& device);

}  // namespace stitch::costmodel
