#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "search/kernel_cache.h"

namespace stitch::search {

/// One kernel of a plan.
struct PlannedKernel {
  std::shared_ptr<const ExploredKernel> kernel;
  std::vector<graph::Value> arguments;  ///< value of the fragment for each parameter of kernel->graph
  std::vector<graph::Value> results;    ///< value of the fragment that each result is
  std::vector<graph::NodeId> nodes;     ///< operators of the fragment that it computes (copies of cheap ones included)
};

/// A partition of a fragment's operators into kernels, in an order in which they can run.
struct FusionPlan {
  std::vector<PlannedKernel> kernels;
  double predicted_us = 0;
};

/// Device-memory bytes of a kernel: every distinct operand it reads and every result it writes once; of an operand
/// that is only sliced or gathered, the bytes taken; of an update in place, the bytes written (and read, when
/// combined). bench/models/README.md has the rules.
std::int64_t kernel_bytes(const graph::Graph& kernel);

/// The same for a kernel as scheduled: what later phases and sweeps read again counts again, scratch included.
std::int64_t scheduled_bytes(const graph::Graph& kernel, const KernelProgram& program);

/// Sum over the plan's kernels, as scheduled.
std::int64_t plan_bytes(const FusionPlan& plan);

}  // namespace stitch::search
