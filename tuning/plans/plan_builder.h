#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/result.h"
#include "search/partition/fusion_plan.h"
#include "tuning/kernels/kernel_workshop.h"

namespace stitch::tuning {

/// One launch of a plan: a built kernel, and what of the fragment it reads and writes.
struct PlannedLaunch {
  const BuiltKernel* built = nullptr;
  std::vector<graph::Value> arguments;          ///< of the kernel's parameters, in order
  std::vector<graph::Value> results;            ///< of its outputs, in order
  std::string description;                      ///< for people
  std::int64_t bytes = 0;                       ///< of device memory, predicted
  double predicted_us = 0, uncertainty_us = 0;  ///< what dependent launches save taken off
};

/// Turns launches, in order, into what a client runs: argument tables, the workspace for intermediates and scratch,
/// copies of results that nobody writes. `fragment` is canonical. Errors: internal (a value that nobody computes,
/// a kernel that loads before it waits what search::unwaited_inputs does not have).
Result<api::Plan> build_plan(const graph::Graph& fragment, const std::vector<PlannedLaunch>& launches);

/// The same of a fusion plan and its built kernels, one per kernel of the plan, in order.
Result<api::Plan> build_plan(const graph::Graph& fragment, const search::FusionPlan& fusion,
                             const std::vector<std::shared_ptr<const BuiltKernel>>& kernels);

/// What a kernel does, in a few words: "softmax-like: 2 reductions, 3 results, 1 phase".
std::string describe_kernel(const graph::Graph& kernel, const kernel::KernelProgram& program);

}  // namespace stitch::tuning
