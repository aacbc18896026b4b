#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernel/program/unwaited_loads.h"
#include "search/schedule/kernel_cache.h"

namespace stitch::search {

// A fusion plan says which operators of a fragment make which kernels, and which schedule each of these has:
//
//     y = softmax(x) + b, column sums of y   →   kernel 0: x, b → y          (rows in a tile)
//                                                kernel 1: y → column sums   (partial results of many tiles)
//
// unless the model predicts that one kernel with two phases, which stores y on its way, takes less.
//
// The fusion explorer makes plans (search/partition/fusion_explorer.h). The tuner compiles, verifies and measures each
// of a plan's kernels and stores the plan; `stitch explain` prints it.

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
  /// Of its kernels, each launched as usual, less what dependent launches save and what these load before they wait.
  double predicted_us = 0;
  /// Of that, what each kernel but the first saves by being launched to begin while the one before it still runs
  /// (DeviceSpec::dependent_saving_us). Partitions are chosen without it: it is a guess, and one kernel is the simpler
  /// plan.
  double dependent_saving_us = 0;
  /// And what all of them save besides by what they load before they wait (search/partition/unwaited_saving.h).
  double unwaited_saving_us = 0;

  /// What partitions are compared by: every kernel as if it were launched as usual, µs.
  [[nodiscard]] double cost_us() const {
    return predicted_us + static_cast<double>(dependent_launches()) * dependent_saving_us + unwaited_saving_us;
  }
  [[nodiscard]] std::int64_t dependent_launches() const { return kernels.empty() ? 0 : std::ssize(kernels) - 1; }
};

/// The arguments of a plan's kernel at place `at` that may be loaded before it waits for the kernel before it:
/// parameters of the fragment that none of the plan's kernels writes, of every kernel but the first
/// (codegen/device/launch.cuh).
kernel::UnwaitedInputs unwaited_inputs(const graph::Graph& fragment, std::span<const graph::Value> arguments,
                                       std::size_t at);

/// Takes off the plan's prediction what its kernels save by such loads, as their best schedules make them.
void take_off_unwaited(const graph::Graph& fragment, const DeviceSpec& device, FusionPlan& plan);

/// Sum over the plan's kernels, as scheduled.
std::int64_t plan_bytes(const FusionPlan& plan);

}  // namespace stitch::search
