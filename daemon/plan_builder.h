#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/kernel_workshop.h"
#include "daemon/protocol.h"
#include "search/fusion_plan.h"

namespace stitch::daemon {

/// Turns a fusion plan and its built kernels (one per kernel of the plan, in order) into what a client runs: argument
/// tables, the workspace for intermediates and scratch, copies of results that nobody writes. `fragment` is canonical.
Result<Plan> build_plan(const graph::Graph& fragment, const search::FusionPlan& fusion,
                        const std::vector<std::shared_ptr<const BuiltKernel>>& kernels);

/// What a kernel does, in a few words: "softmax-like: 2 reductions, 3 results, 1 phase".
std::string describe_kernel(const graph::Graph& kernel, const search::KernelProgram& program);

}  // namespace stitch::daemon
