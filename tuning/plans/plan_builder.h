#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/result.h"
#include "search/partition/fusion_plan.h"
#include "tuning/kernels/kernel_workshop.h"

namespace stitch::tuning {

/// Turns a fusion plan and its built kernels (one per kernel of the plan, in order) into what a client runs: argument
/// tables, the workspace for intermediates and scratch, copies of results that nobody writes. `fragment` is canonical.
Result<api::Plan> build_plan(const graph::Graph& fragment, const search::FusionPlan& fusion,
                             const std::vector<std::shared_ptr<const BuiltKernel>>& kernels);

/// What a kernel does, in a few words: "softmax-like: 2 reductions, 3 results, 1 phase".
std::string describe_kernel(const graph::Graph& kernel, const kernel::KernelProgram& program);

}  // namespace stitch::tuning
