#pragma once

#include <string>
#include <string_view>

#include "api/protocol.h"
#include "base/device_spec.h"

namespace stitch::api {

/// Why a GPU cannot launch the kernels of a plan that was made for another class, whatever their code is compiled for:
/// a kernel has more threads, shared memory or blocks in a cluster than the GPU allows, or a barrier over more blocks
/// than may be resident there at once. Names the kernel, both figures and the GPU; empty: it can. `planned`: the class
/// that the plan is for (PlanTarget::device); of one that nobody knows no more blocks are taken to be resident than
/// must be.
std::string why_not_launched(const Plan& plan, std::string_view planned, const DeviceSpec& device);

}  // namespace stitch::api
