#include "costmodel/contraction/product_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernel/contraction/computed_operand.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::ContractionProblem;

/// The same of multiply-adds; guess.
constexpr double fma_share = 0.9;
/// Of the clock that tensor cores keep on an Ada board, what power leaves while lanes multiply and add f32: 12 of an
/// L4's 30 TFLOP/s, 36 to 50 of an L40S' 92, 56 of an RTX 4090's 83. Fitted to published times
/// (bench/contractions/measured.csv); an A100 and an H100 keep theirs.
constexpr double ada_core_share = 0.85;
constexpr double order = 8;
/// Results that are stored together, of 16 bits; what is a row's own is computed once for them.
constexpr double row_share = 1.0 / 8;

/// Of the rate of f16, what TF32 has by the data sheets of all GPUs since the A100.
constexpr double tf32_share = 0.5;
/// Instructions of SASS (CUDA 13.0, sm_80 and sm_90a alike) for an element of f32 that is rounded to TF32, or split in
/// two parts of it or of bf16. There is none that rounds to TF32, but one that rounds two elements to bf16.
constexpr double tf32_rounding = 2, tf32_splitting = 7, bf16_splitting = 3;

/// Of products of f32 by tensor cores.
double single_rate(graph::F32Arithmetic arithmetic, const DeviceSpec& device) {
  if (device.compute_major < 8) return 0;
  switch (arithmetic) {
    case graph::F32Arithmetic::f32: return 0;
    case graph::F32Arithmetic::tf32: return device.tensor.f16 * tf32_share;
    case graph::F32Arithmetic::tf32x3: return device.tensor.f16 * tf32_share / 3;
    case graph::F32Arithmetic::bf16x3: return static_cast<double>(device.tensor.f16) / 3;
  }
  return 0;
}

bool is_ada(const DeviceSpec& device) { return device.compute_major == 8 && device.compute_minor == 9; }

double dense_rate(const ContractionProblem& problem, const DeviceSpec& device) {
  switch (problem.left.dtype) {
    case DType::f16:
    case DType::bf16: return device.tensor.f16;
    case DType::f8e4m3:
    case DType::f8e5m2: return device.tensor.f8;
    case DType::s8:
    case DType::u8: return device.tensor.s8;
    case DType::f32: return single_rate(kernel::types_of(problem).f32, device);
    case DType::f64: return device.has_fast_f64_tensor_cores() ? device.tensor.f64 : 0;
    default: return 0;
  }
}

}  // namespace

double launch_time(const DeviceSpec& device, const AnalyticalConstants& constants) {
  return cold_code_us + (constants.launch * device.launch_us) +
         constants.ramp_latencies * device.dram_latency * (1e6 / device.clock_hz);
}

double tile_bandwidth(const DeviceSpec& device) {
  // 4096³ in tiles of 128 × 256 by the copy engine reads 1.6 GB in 187 us on an H100 (bench/results/gpu). On a B200 the
  // same ratio was found in published times (bench/contractions/measured.csv).
  constexpr double hopper = 8.6 / 6.5;
  return device.l2_bandwidth * (device.compute_major == 9 || device.compute_major == 10 ? hopper : 1);
}

double load_latency(const DeviceSpec& device, double found_in_l2) {
  return busy_latency * (device.l2_latency * found_in_l2 + device.dram_latency * (1 - found_in_l2));
}

double norm_of(std::initializer_list<double> limits) {
  double most = 0, sum = 0;
  for (const double each : limits) most = std::max(most, each);
  if (most == 0) return 0;
  for (const double each : limits) sum += std::pow(each / most, order);
  return most * std::pow(sum, 1 / order);
}

double tensor_rate(const ContractionProblem& problem, const DeviceSpec& device) {
  return dense_rate(problem, device) * device.tensor.sustained_share * tensor_share;
}

double core_rate(const ContractionProblem& problem, const DeviceSpec& device) {
  if (problem.accumulator == DType::f64) return fma_share * device.fp64_lanes_per_sm;
  const bool floating = graph::is_floating(problem.accumulator);
  return fma_share * (floating ? device.fp32_lanes_per_sm : device.int32_lanes_per_sm);
}

double core_clock_share(const ContractionProblem& problem, const DeviceSpec& device) {
  const bool lanes = graph::is_floating(problem.accumulator) && problem.accumulator != DType::f64;
  return is_ada(device) && lanes ? ada_core_share * device.tensor.sustained_share : 1;
}

double clock_share(const ContractionProblem& problem, kernel::ContractionInstruction instruction,
                   const DeviceSpec& device) {
  if (instruction == kernel::ContractionInstruction::cuda_core) return core_clock_share(problem, device);
  return is_ada(device) ? device.tensor.sustained_share : 1;
}

double full_clock_rate(const ContractionProblem& problem, kernel::ContractionInstruction instruction,
                       const DeviceSpec& device) {
  const double rate = multiply_rate(problem, instruction, device);
  return instruction == kernel::ContractionInstruction::cuda_core ? rate
                                                                  : rate / clock_share(problem, instruction, device);
}

double multiply_rate(const ContractionProblem& problem, kernel::ContractionInstruction instruction,
                     const DeviceSpec& device) {
  if (instruction == kernel::ContractionInstruction::cuda_core) return core_rate(problem, device);
  const double rate = tensor_rate(problem, device);
  // No asynchronous instruction multiplies f64, so that this one has all of the rate.
  if (instruction == kernel::ContractionInstruction::mma_m16n8k4_f64) return rate;
  return reads_tiles(instruction) ? rate : rate * device.tensor.synchronous_share;
}

SplitWork split_work(kernel::ContractionInstruction instruction) {
  using enum kernel::ContractionInstruction;
  switch (instruction) {
    case mma_m16n8k8_tf32: return {1, tf32_rounding};
    case mma_m16n8k8_tf32x3: return {3, tf32_splitting};
    case mma_m16n8k16_bf16x3: return {3, bf16_splitting};
    default: return {};
  }
}

double core_load_cycles(int elements, double size) { return std::max(1.0, elements * size / 8); }

double different_batches(const kernel::ContractionOperand& operand) {
  double count = 1;
  for (const auto& digit : operand.batch) count *= digit.stride == 0 ? 1.0 : static_cast<double>(digit.extent);
  return count;
}

double different_share(const ContractionProblem& problem, const kernel::ContractionOperand& operand,
                       std::int64_t rows) {
  if (!problem.is_convolution()) return 1;
  const graph::NodeId parameter = problem.graph->parameters()[operand.parameter];
  const double there = static_cast<double>(problem.graph->node(parameter).type().elements());
  const double named = different_batches(operand) * static_cast<double>(rows) * static_cast<double>(problem.contracted);
  return named > there ? there / named : 1;
}

double read_bytes(const ContractionProblem& problem, bool left) {
  const kernel::ComputedOperand* computed = kernel::computed_side(problem, left);
  if (computed != nullptr) return computed->tensor_bytes;
  return graph::byte_size((left ? problem.left : problem.right).dtype);
}

double computing_instructions(const kernel::ComputedOperand& computed, int element_bytes, int elements) {
  // Beside what ptxas of CUDA 13.0 made of six kernels' loops a turn takes 22 more for 20, 22 for 19, 152 for 149, 196
  // for 190, 230 for 207, and 52 for 68. An element of 16 bits takes two to be widened; pairs are rounded at once.
  constexpr double more_of_place = 4, widening = 2;
  const double loads = std::ceil(static_cast<double>(computed.each.bytes) * elements / kernel::widest_bytes);
  const double together = computed.together.count + widening * computed.together.narrow;
  const double rounding = element_bytes >= 4 ? 0 : element_bytes == 2 ? 0.5 : 1;
  const double of_element = widening * computed.each.narrow + computed.instructions + rounding;
  return copy_instructions + more_of_place + std::max<double>(loads, computed.each.count) + together + 1 +
         elements * of_element;
}

double epilogue_reads(const ContractionProblem& problem) {
  const graph::Graph& graph = *problem.graph;
  std::set<graph::NodeId> read;
  for (const graph::Node& node : graph.nodes()) {
    for (const graph::Value operand : node.operands) read.insert(operand.node);
  }
  double bytes = 0;
  // Behind the kernel's own parameters are those that stand for what it multiplies.
  const std::size_t own = problem.scaled ? problem.scaled->parameters().size() : graph.parameters().size();
  for (std::size_t p = 0; p < own; ++p) {
    const int number = static_cast<int>(p);
    const bool multiplied = std::ranges::any_of(kernel::parts_of(problem), [&](const ContractionProblem& part) {
      return number == part.left.parameter || number == part.right.parameter ||
             (part.other_right && number == part.other_right->parameter);
    });
    if (multiplied) continue;
    const graph::NodeId parameter = graph.parameters()[p];
    if (read.contains(parameter)) bytes += static_cast<double>(graph.node(parameter).type().bytes());
  }
  return bytes;
}

double result_bytes(const ContractionProblem& problem) {
  double bytes = 0;
  for (const ContractionProblem& part : kernel::parts_of(problem)) {
    for (const kernel::ContractionResult& result : kernel::results_of(part)) {
      const double columns = result.of_rows ? 1 : static_cast<double>(part.units());
      const double rows = static_cast<double>(part.rows) / result.summed;
      bytes += static_cast<double>(part.batch) * rows * columns * graph::byte_size(result.dtype);
    }
  }
  return bytes;
}

double epilogue_operators(const ContractionProblem& problem) {
  double count = 0;
  for (const ContractionProblem& member : problem.members) count = std::max(count, epilogue_operators(member));
  if (!problem.members.empty()) return count;
  const std::int64_t results = problem.graph->node(problem.root).type().elements();
  const std::int64_t units = problem.batch * problem.rows * problem.units();
  for (const graph::Node& node : problem.graph->nodes()) {
    if (!graph::is_elementwise(node.op)) continue;
    // What is the same along a row is computed once for a run of results.
    const bool of_rows = !problem.row_reductions.empty() && node.type().elements() < results;
    // What follows all gates is computed once for a unit.
    const bool of_units = problem.gates > 1 && node.type().elements() <= units;
    count += of_rows ? row_share : of_units ? 1.0 / problem.gates : 1;
  }
  return count;
}

}  // namespace stitch::costmodel
