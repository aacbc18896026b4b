#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/random.h"
#include "codegen/contraction/attention_kernel.h"
#include "tests/codegen/kernel_run.h"
#include "tests/kernel/attention_graph.h"

/// Attention kernels as tests make and run them.
namespace stitch::codegen::test {

using graph::DType;
using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::test::AttentionCase;
using kernel::test::Dropout;
using kernel::test::Mask;

inline std::vector<Bytes> inputs_of(const graph::Graph& graph) {
  Random random(5);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Of a mask of [batch, keys] the second batch has nothing.
      const std::int64_t columns = type.dims.empty() ? 1 : type.dims.back();
      values[i] = type.dtype == DType::pred
                      ? static_cast<double>(random.below(3) != 0 && std::int64_t(i) / columns != 1)
                      : (static_cast<double>(random.below(33)) - 16) / 8;
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

inline AttentionProblem problem_of(const AttentionCase& attention) {
  auto problem = kernel::derive_attention(kernel::test::attention_graph(attention));
  if (!problem) throw std::runtime_error(attention.name + ": " + problem.error().message);
  return *std::move(problem);
}

inline AttentionSchedule schedule_of(const AttentionProblem& problem) {
  const auto schedule = kernel::default_schedule(problem, *find_device("h100"));
  if (!schedule) throw std::runtime_error(schedule.error().message);
  return *schedule;
}

inline KernelCase case_of(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const auto legal = kernel::check_legality(problem, schedule, *find_device("h100"));
  if (!legal) throw std::runtime_error(legal.error().message);
  auto kernel = generate_attention(problem, schedule, {.name = "attention", .comment = ""});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  KernelCase made;
  made.graph = problem.graph;
  made.kernel = *std::move(kernel);
  return made;
}

/// Runs the kernel beside the reference, which must say something of most elements of each result.
inline void expect_attention(const KernelCase& each, const std::vector<Bytes>& inputs) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::TensorType& type = each.graph->node(each.graph->parameters()[p]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), inputs[p]));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  const auto reference = graph::evaluate(*each.graph, arguments, options);
  ASSERT_TRUE(reference) << reference.error().message;
  for (std::size_t r = 0; r < reference->size(); ++r) {
    const graph::Tensor& want = (*reference)[r];
    double widest = 0;
    std::int64_t bounded = 0;
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      if (std::isnan(want.at(i)) || std::isinf(want.bound(i))) continue;
      // A sum of a row is of many exponentials.
      const double size = want.type.dtype == DType::f32 ? std::max(1.0, std::abs(want.at(i))) : 1;
      widest = std::max(widest, want.bound(i) / size);
      ++bounded;
    }
    EXPECT_LT(widest, 0.5) << "the reference's bounds of result " << r;
    EXPECT_GE(2 * bounded, want.elements());
  }
  expect_right(each, inputs);
}

/// The first of some small schedules by wgmma that is legal; nothing: none is.
inline std::optional<AttentionSchedule> warpgroup_schedule(const AttentionProblem& problem, bool overlaps) {
  const DeviceSpec h100 = *find_device("h100");
  const auto instruction = kernel::warpgroup_instruction_for(problem, h100);
  if (!instruction) return std::nullopt;
  AttentionSchedule s;
  s.instruction = *instruction;
  s.overlaps = overlaps;
  for (const int rows : {128, 64}) {
    for (const int keys : {32, 64, 128}) {
      s.block_rows = rows;
      s.block_keys = keys;
      kernel::fit_accesses(problem, s);
      if (kernel::check_legality(problem, s, h100)) return s;
    }
  }
  return std::nullopt;
}

/// A schedule by wgmma in the words of its printed form.
inline AttentionSchedule together_of(const AttentionProblem& problem,
                                     const std::function<void(AttentionSchedule&)>& set) {
  AttentionSchedule s;
  s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
  set(s);
  kernel::fit_accesses(problem, s);
  return s;
}

}  // namespace stitch::codegen::test
