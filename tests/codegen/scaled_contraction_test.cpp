// Products whose depth is scaled part by part, on the emulated device, beside the float64 reference.
#include "kernel/contraction/scaled_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/codegen/contraction_case.h"
#include "tests/kernel/scaled_graphs.h"

namespace stitch::codegen::test {
namespace {

using graph::DType;
using kernel::ContractionInstruction;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::test::ScaledMatmul;
using testing::HasSubstr;

constexpr auto f8 = DType::f8e4m3, wide_f8 = DType::f8e5m2, s8 = DType::s8, u8 = DType::u8, bf16 = DType::bf16,
               f16 = DType::f16, f32 = DType::f32;

ContractionProblem problem_of(const ScaledMatmul& m) {
  auto problem = kernel::derive_scaled(kernel::test::graph_of(m));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

/// Narrow elements over all of their range, and scales of any magnitude from 2^-8 to 2^8.
std::vector<Bytes> scaled_inputs_of(const graph::Graph& graph) {
  Random random(7);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) {
      const double sign = random.below(2) == 0 ? -1 : 1;
      if (graph::byte_size(type.dtype) > 1) {
        value = sign * (1 + random.uniform()) * std::exp2(static_cast<double>(random.below(17)) - 8);
      } else if (graph::is_floating(type.dtype)) {
        value = sign * (1 + random.uniform()) * std::exp2(static_cast<double>(random.below(12)) - 5);
      } else {
        value = static_cast<double>(random.below(128)) * (type.dtype == u8 ? 2 : sign);
      }
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

void expect_scaled_right(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  EXPECT_THAT(each.kernel.source, HasSubstr("cores.add_scaled();"));
  expect_right(each, scaled_inputs_of(*each.graph));
}

class ScaledEmulated : public testing::TestWithParam<ScaledMatmul> {};

TEST_P(ScaledEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  expect_scaled_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ScaledEmulated,
    testing::Values(ScaledMatmul{"f8", 1, 64, 128, 512},                                        //
                    ScaledMatmul{"f8_by_parts", 1, 64, 128, 512, f8, f8, true},                 //
                    ScaledMatmul{"f8_odd", 1, 37, 150, 384},                                    //
                    ScaledMatmul{"f8_odd_by_parts", 1, 37, 150, 384, f8, f8, true},             //
                    ScaledMatmul{"f8_short_part", 1, 33, 70, 300},                              //
                    ScaledMatmul{"f8_unaligned", 2, 19, 45, 203},                               //
                    ScaledMatmul{"f8_mixed", 1, 48, 64, 256, f8, wide_f8},                      //
                    ScaledMatmul{"f8_of_columns", 1, 40, 72, 256, f8, f8, false, 128, 1},       //
                    ScaledMatmul{"f8_in_bf16", 1, 64, 64, 512, f8, f8, false, 128, 128, bf16},  //
                    ScaledMatmul{"f8_turned", 1, 64, 96, 256, f8, f8, false, 128, 128, f32, true, bf16, "bias"},
                    ScaledMatmul{"s8", 1, 64, 64, 512, s8, s8},                             //
                    ScaledMatmul{"s8_by_parts", 2, 50, 66, 256, s8, s8, true},              //
                    ScaledMatmul{"s8_short_part", 1, 33, 70, 200, s8, s8},                  //
                    ScaledMatmul{"s8_groups_of_64", 1, 64, 40, 320, s8, s8, false, 64, 1},  //
                    ScaledMatmul{"s8_by_parts_turned", 1, 33, 64, 256, s8, s8, true, 128, 1, f32, true, f16, "bias"},
                    ScaledMatmul{"s8_u8", 1, 32, 48, 256, s8, u8},
                    ScaledMatmul{"s8_of_32", 1, 32, 48, 256, s8, s8, false, 32, 1},
                    ScaledMatmul{"s8_of_96", 1, 32, 48, 500, s8, s8, false, 96, 1},    //
                    ScaledMatmul{"bf16", 1, 48, 64, 384, bf16, bf16},                  //
                    ScaledMatmul{"f16_by_parts", 1, 40, 33, 256, f16, f16, true, 64},  //
                    ScaledMatmul{"norm", 1, 40, 64, 256, f8, f8, false, 128, 128, f32, false, f32, "norm"}),
    [](const auto& each) { return each.param.name; });

/// A part ends in the middle of a turn's steps for nobody, but within a block's share of the depth.
TEST(ScaledKernelEmulated, PipelinesAndSplitsAreRight) {
  for (const bool by_parts : {false, true}) {
    const ContractionProblem problem = problem_of({"", 1, 96, 64, 1024, f8, f8, by_parts});
    for (const auto& [stages, fragments, splits] : {std::tuple{1, 1, 1}, {1, 1, 2}, {2, 1, 1}, {3, 1, 4}, {4, 1, 8}}) {
      expect_scaled_right(problem, pipelined(problem, stages, fragments, splits));
    }
    // Several steps a turn: of f8 in tiles of 128 fewer are in registers at once.
    for (const auto& [dtype, depth, fragments] : {std::tuple{f8, 64, 2}, {f8, 128, 1}, {s8, 64, 1}, {s8, 128, 2}}) {
      const ContractionProblem deep = problem_of({"", 1, 96, 64, 1024, dtype, dtype, by_parts});
      ContractionSchedule schedule = pipelined(deep, 2, 1, 2);
      schedule.block_depth = depth;
      schedule.fragment_stages = fragments;
      expect_scaled_right(deep, schedule);
    }
  }
}

/// The last of the blocks that share a depth has nothing of it: what it would scale is zero, whatever the scale.
TEST(ScaledKernelEmulated, SplitsMayHaveNothingLeft) {
  const ContractionProblem problem = problem_of({"", 1, 32, 32, 5 * 128, s8, s8});
  ContractionSchedule schedule = pipelined(problem, 1, 1, 4);
  schedule.block_depth = 128;
  const KernelCase each = case_of(problem, schedule);
  std::vector<Bytes> inputs = scaled_inputs_of(*each.graph);
  expect_right(each, inputs);
}

TEST(ScaledKernelEmulated, CudaCoresAreRight) {
  for (const DType dtype : {s8, f8, bf16}) {
    const ContractionProblem problem = problem_of({"", 1, 45, 70, 300, dtype, dtype});
    ContractionSchedule schedule = default_of(problem);
    schedule.instruction = ContractionInstruction::cuda_core;
    schedule.block_rows = schedule.block_columns = 32;
    schedule.warp_rows = schedule.warp_columns = 32;
    schedule.thread_rows = 8;
    schedule.thread_columns = 4;
    schedule.block_depth = 32;
    schedule.stages = 2;
    schedule.fragment_stages = 1;
    expect_scaled_right(problem, schedule);
  }
}

/// wgmma's sums are read once all of its products are there.
TEST(ScaledKernelEmulated, WarpgroupsAreRight) {
  for (const DType dtype : {s8, bf16}) {
    const ContractionProblem problem =
        problem_of({"", 1, 70, 96, 600, dtype, dtype, false, 128, dtype == s8 ? 128 : 1});
    ContractionSchedule s;
    s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
    s.block_rows = s.block_columns = s.warp_columns = 64;
    s.warp_rows = 16;
    s.block_depth = 64;
    s.thread_rows = s.thread_columns = 0;
    s.stages = 4;
    kernel::fit_accesses(problem, s);
    EXPECT_THAT(case_of(problem, s).kernel.source, HasSubstr("wgmma.mma_async"));
    expect_scaled_right(problem, s);
    KernelCase broken = case_of(problem, s);  // read before
    const std::string wait = "wait_for_products<0>();";
    broken.kernel.source.replace(broken.kernel.source.find(wait), wait.size(), "");
    EXPECT_THAT(launch(broken, scaled_inputs_of(*broken.graph)).findings, testing::Not(testing::IsEmpty()));
  }
}

/// Two sums of each result, and factors, fit the registers that the rules count.
TEST(ScaledKernel, DoesNotSpill) {
  for (const DType dtype : {f8, s8}) {
    const ContractionProblem problem = problem_of({"", 1, 4096, 4096, 4096, dtype, dtype});
    const ContractionSchedule schedule = default_of(problem);
    SCOPED_TRACE(to_string(schedule));
    const CompiledKernel compiled = compiled_for_hopper(problem, schedule);
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  }
}

}  // namespace
}  // namespace stitch::codegen::test
