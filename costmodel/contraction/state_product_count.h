#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// What tensor cores' products of a recurrent kernel's state take in one turn (kernel/program/state_products.h): the
/// fragments that warps read, the instructions that multiply them, and the sums on their way to the threads whose they
/// are. Nothing for other groups.
void count_state_products(const CountedGroup& counted, GroupFeatures& features);

/// Multiply-adds of 16-bit floats that an SM makes in a clock by mma.sync, in loops that never wait.
double synchronous_rate(const DeviceSpec& device);

}  // namespace stitch::costmodel
