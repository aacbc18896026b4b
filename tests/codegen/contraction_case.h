#pragma once

#include "base/random.h"
#include "codegen/compile/nvrtc.h"
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

/// Numbers of 1 to 2 of either sign with all bits of an f32, of which TF32 loses half.
inline std::vector<Bytes> fine_inputs_of(const graph::Graph& graph) {
  Random random(5);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) value = (random.below(2) == 0 ? -1 : 1) * (1 + random.uniform());
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

/// The kernel of a legal schedule, with the graph that it computes.
inline KernelCase case_of(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                          const DeviceSpec& device = *find_device("h100")) {
  const auto legal = kernel::check_legality(problem, schedule, device);
  if (!legal) throw std::runtime_error(legal.error().message);
  auto kernel = generate_contraction(problem, schedule, {.name = "contraction", .comment = ""});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  KernelCase made;
  made.graph = problem.whole();
  made.kernel = *std::move(kernel);
  made.architecture = device.architecture();
  if (promotes(schedule.instruction)) made.narrow_part = kernel::promoted_depth;
  return made;
}

inline void expect_problem_right(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                                 const DeviceSpec& device = *find_device("h100")) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule, device);
  expect_right(each, problem.graph->constraints.any() ? fine_inputs_of(*each.graph) : inputs_of(*each.graph));
}

inline kernel::ContractionProblem derived(const Result<graph::Graph>& graph) {
  if (!graph) throw std::runtime_error(graph.error().message);
  auto problem = kernel::derive_contraction(*graph);
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

inline kernel::ContractionSchedule default_of(const kernel::ContractionProblem& problem) {
  const auto schedule = kernel::default_schedule(problem, *find_device("h100"));
  if (!schedule) throw std::runtime_error(schedule.error().message);
  return *schedule;
}

/// Small tiles, so that small problems have several, in pipelines of so many stages of tiles and of fragments.
inline kernel::ContractionSchedule pipelined(const kernel::ContractionProblem& problem, int stages, int fragment_stages,
                                             int split = 1) {
  kernel::ContractionSchedule schedule = default_of(problem);
  schedule.block_rows = schedule.block_columns = 64;
  schedule.block_depth = 32;
  schedule.warp_rows = schedule.warp_columns = 32;
  schedule.stages = stages;
  schedule.fragment_stages = fragment_stages;
  schedule.split = split;
  return schedule;
}

/// What the compiler makes of a schedule.
inline CompiledKernel compiled_for(const std::string& architecture, const kernel::ContractionProblem& problem,
                                   const kernel::ContractionSchedule& schedule) {
  const auto compiler = NvrtcCompiler::create();
  if (!compiler) throw std::runtime_error(compiler.error().message);
  const auto kernel = generate_contraction(problem, schedule, {});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  CompileRequest request;
  request.source = kernel->source;
  request.architecture = architecture;
  auto compiled = (*compiler)->compile(request);
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return *std::move(compiled);
}
inline CompiledKernel compiled_for_hopper(const kernel::ContractionProblem& problem,
                                          const kernel::ContractionSchedule& schedule) {
  return compiled_for("sm_90a", problem, schedule);
}

/// Without one of the waits of tiles that come by the copy engine, a block multiplies what is not there yet, or
/// overwrites what is still read: the device says so.
inline void expect_every_wait_is_needed(const KernelCase& each) {
  const auto findings_of = [&](const KernelCase& made) { return launch(made, inputs_of(*each.graph)).findings; };
  EXPECT_TRUE(findings_of(each).empty());
  for (const char* wait : {"stages.wait_for(at);", "wait_for_products<1>();", "wait_for_products<0>();",
                           "stages.begin();", "stages.end();"})
    EXPECT_FALSE(findings_of(profiler::test::mutated(each, wait, "")).empty()) << wait;
}

/// One that is drawn: the default one, or another if that is legal.
inline kernel::ContractionSchedule drawn_schedule(const kernel::ContractionProblem& problem, Random& random) {
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const kernel::ContractionSchedule schedule = default_of(problem);
  kernel::ContractionSchedule drawn = schedule;
  constexpr int stages[] = {1, 2, 3, 4}, splits[] = {1, 1, 2, 3}, groups[] = {1, 2, 8}, halves[] = {1, 2},
                streams[] = {0, 0, 0, 2, 3, 7};
  drawn.stages = among(stages);
  drawn.fragment_stages = among(halves);
  drawn.split = among(splits);
  drawn.group = among(groups);
  drawn.block_rows /= among(halves);
  drawn.warp_rows /= among(halves);
  drawn.swizzle = random.below(8) != 0;
  if (drawn.split == 1) drawn.streamed = among(streams);
  return kernel::check_legality(problem, drawn, *find_device("h100")) ? drawn : schedule;
}

}  // namespace stitch::codegen::test
