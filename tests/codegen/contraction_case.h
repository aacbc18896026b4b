#pragma once

#include "base/random.h"
#include "codegen/contraction/contraction_kernel.h"
#include "kernel/contraction/contraction_rules.h"
#include "tests/codegen/kernel_run.h"

/// Kernels of products on the emulated device, beside the float64 reference.
namespace stitch::codegen::test {

/// Small numbers, which f16 sums exactly for the most part.
inline std::vector<Bytes> inputs_of(const graph::Graph& graph) {
  Random random(3);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    const double scale = graph::is_floating(type.dtype) ? 8 : 1;
    const double middle = graph::is_unsigned_integer(type.dtype) ? 0 : 8;
    for (double& value : values) value = (static_cast<double>(random.below(17)) - middle) / scale;
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

/// The kernel of a legal schedule, with the graph that it computes.
inline KernelCase case_of(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule) {
  const auto legal = kernel::check_legality(problem, schedule, *find_device("h100"));
  if (!legal) throw std::runtime_error(legal.error().message);
  auto kernel = generate_contraction(problem, schedule, {.name = "contraction", .comment = ""});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  KernelCase made;
  made.graph = problem.graph;
  made.kernel = *std::move(kernel);
  return made;
}

}  // namespace stitch::codegen::test
