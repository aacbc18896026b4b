#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "codegen/kernel.h"
#include "graph/graph.h"
#include "search/partition/fusion_plan.h"

namespace stitch::lab {

/// A random graph as kernels: not the best plan, but any that the explorers hold legal.
struct RandomPlan {
  graph::Graph expected;  ///< what is to be computed: the graph as it was, or simplified where that may round otherwise
  graph::Graph fragment;  ///< simplified
  std::vector<search::PlannedKernel> planned;     ///< in an order in which they can run; of each the first candidate
  std::vector<codegen::GeneratedKernel> kernels;  ///< of these, each with a name of its own
  std::string architecture;                       ///< of the device that the schedules are for
};

/// Simplifies the graph, divides its operators into random parts of a random order (now and then all of one, or each
/// alone), takes for each part a random legal schedule (one time in four the best by the analytical model) and prints
/// it. Names of kernels begin with `prefix`. The same arguments give the same plan.
///
/// Errors: constraint (an operator that fits no kernel, which is no fault of a kernel; the message names it), and
/// whatever simplifying, planning and printing must not give.
Result<RandomPlan> random_plan(const graph::Graph& graph, const DeviceSpec& device, std::uint64_t seed,
                               const std::string& prefix);

/// Bits of everything that tells one schedule from another, of a whole kernel or of a group by itself.
std::uint64_t schedule_bits(const kernel::KernelProgram& program);

}  // namespace stitch::lab
