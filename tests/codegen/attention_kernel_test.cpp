// Attention kernels on the emulated device, beside the float64 reference.
#include "codegen/contraction/attention_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"
#include "tests/kernel/attention_graph.h"

namespace stitch::codegen::test {
namespace {

using graph::Dims;
using graph::DType;
using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::test::AttentionCase;
using kernel::test::Mask;

std::vector<Bytes> inputs_of(const graph::Graph& graph) {
  Random random(5);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Of a mask of [batch, keys] the second batch has nothing.
      const std::int64_t columns = type.dims.back();
      values[i] = type.dtype == DType::pred
                      ? static_cast<double>(random.below(3) != 0 && std::int64_t(i) / columns != 1)
                      : (static_cast<double>(random.below(33)) - 16) / 8;
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

AttentionProblem problem_of(const AttentionCase& attention) {
  auto problem = kernel::derive_attention(kernel::test::attention_graph(attention));
  if (!problem) throw std::runtime_error(attention.name + ": " + problem.error().message);
  return *std::move(problem);
}

AttentionSchedule schedule_of(const AttentionProblem& problem) {
  const auto schedule = kernel::default_schedule(problem, *find_device("h100"));
  if (!schedule) throw std::runtime_error(schedule.error().message);
  return *schedule;
}

KernelCase case_of(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const auto legal = kernel::check_legality(problem, schedule, *find_device("h100"));
  if (!legal) throw std::runtime_error(legal.error().message);
  auto kernel = generate_attention(problem, schedule, {.name = "attention", .comment = ""});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  KernelCase made;
  made.graph = problem.graph;
  made.kernel = *std::move(kernel);
  return made;
}

class AttentionEmulated : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionEmulated, IsRight) {
  const AttentionProblem problem = problem_of(GetParam());
  const AttentionSchedule schedule = schedule_of(problem);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  expect_right(each, inputs_of(*each.graph));
}

INSTANTIATE_TEST_SUITE_P(
    Of, AttentionEmulated,
    testing::Values(
        AttentionCase{"f16", {2}, 64, 128, 64, 64}, AttentionCase{"bf16", {1, 3}, 96, 96, 32, 32, DType::bf16},
        AttentionCase{"f32", {2}, 48, 80, 32, 32, DType::f32}, AttentionCase{"odd", {3}, 37, 53, 40, 24},
        AttentionCase{"odd_f32", {2}, 21, 45, 19, 33, DType::f32},
        AttentionCase{"causal", {2}, 80, 80, 64, 64, DType::bf16, Mask::causal},
        AttentionCase{"causal_f32", {2}, 48, 48, 16, 16, DType::f32, Mask::causal},
        AttentionCase{"window", {1, 2}, 72, 72, 32, 32, DType::f16, Mask::window},
        AttentionCase{"masked_keys", {2, 2}, 40, 72, 64, 64, DType::f16, Mask::keys},
        AttentionCase{"bias", {2, 2}, 40, 56, 64, 64, DType::f32, Mask::bias},
        AttentionCase{"empty_rows", {2, 2}, 24, 40, 32, 32, DType::f16, Mask::empty_rows},
        AttentionCase{"shared_heads", {2, 8}, 40, 40, 32, 32, DType::bf16, Mask::causal, 4},
        AttentionCase{"keys_turned", {2}, 64, 64, 32, 32, DType::f16, Mask::none, 1, true},
        AttentionCase{"keys_turned_f32", {2}, 20, 36, 32, 32, DType::f32, Mask::none, 1, true},
        AttentionCase{"heads_inside", {2, 3}, 40, 40, 32, 32, DType::f16, Mask::causal, 1, false, true},
        AttentionCase{"heads_inside_f32", {2, 3}, 40, 24, 32, 32, DType::f32, Mask::none, 1, false, true},
        AttentionCase{"divided", {2}, 32, 64, 64, 64, DType::f16, Mask::none, 1, false, false, false},
        AttentionCase{"weights_right", {2}, 32, 64, 32, 48, DType::f16, Mask::none, 1, false, false, true, true},
        AttentionCase{
            "narrow_logits", {2}, 32, 64, 32, 32, DType::bf16, Mask::none, 1, false, false, true, false, true},
        AttentionCase{"one_row", {4}, 1, 300, 64, 64, DType::bf16}, AttentionCase{"one_key", {2}, 16, 1, 16, 16},
        AttentionCase{"wide", {1}, 32, 48, 128, 128, DType::bf16},
        AttentionCase{"deep_80", {1, 2}, 40, 64, 80, 80, DType::f16, Mask::none, 1, false, true}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
