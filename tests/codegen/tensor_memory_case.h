#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>

#include "kernel/contraction/contraction_rules.h"
#include "tests/codegen/matmul_case.h"
#include "tests/codegen/merged_case.h"
#include "tests/codegen/summed_case.h"

// Products by tcgen05, whose sums are in tensor memory, on a B200.
namespace stitch::codegen::test {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

inline const DeviceSpec& b200() {
  static const DeviceSpec device = *find_device("b200");
  return device;
}

/// Tiles of 128 rows or a multiple of them, of which a warp has 32.
struct InTensorMemory {
  std::string name;
  Matmul matmul;
  int block_rows = 128, block_columns = 64, block_depth = 64, warp_columns = 64, stages = 3;
  int cluster = 1, resident = 1, warp_rows = 32;
  bool paired = false;
};
inline void PrintTo(const InTensorMemory& each, std::ostream* out) { *out << each.name; }

inline ContractionSchedule schedule_of(const ContractionProblem& problem, const InTensorMemory& each) {
  ContractionSchedule s;
  s.instruction = kernel::tensor_memory_instruction_for(problem, b200()).value();
  s.block_rows = each.block_rows;
  s.block_columns = each.block_columns;
  s.block_depth = each.block_depth;
  s.warp_rows = each.warp_rows;
  s.warp_columns = each.warp_columns;
  s.thread_rows = s.thread_columns = 0;
  s.stages = each.stages;
  s.group = 2;
  s.tensor_copies = true;
  s.cluster = each.cluster;
  s.resident = each.resident;
  s.paired = each.paired;
  fit_accesses(problem, s);
  return s;
}

inline KernelCase case_of(const InTensorMemory& each) {
  const ContractionProblem problem = problem_of(each.matmul);
  return test::case_of(problem, schedule_of(problem, each), b200());
}

/// Computes what the reference does; the PTX of its kernel.
inline std::string expect_right(const InTensorMemory& of) {
  const ContractionProblem problem = problem_of(of.matmul);
  expect_problem_right(problem, schedule_of(problem, of), b200());
  const KernelCase each = case_of(of);
  EXPECT_EQ(each.architecture, "sm_100a");
  EXPECT_EQ(each.kernel.cluster, of.cluster);
  return compile(each.kernel, each.architecture).ptx;
}

/// Of any problem, by the tiles that are given; rows that are combined are walked one tile after the other.
inline void expect_right(const ContractionProblem& problem, const InTensorMemory& tiles) {
  ContractionSchedule s = schedule_of(problem, tiles);
  s.group = problem.row_reductions.empty() ? 2 : 1;
  expect_problem_right(problem, s, b200());
}

/// Several products of one operand, and a sum of products, of tiles of 128 × 64.
inline void expect_several_are_right(const InTensorMemory& tiles) {
  constexpr auto f16 = DType::f16, bf16 = DType::bf16;
  expect_right(
      problem_of(MergedMatmuls{"",
                               1,
                               300,
                               192,
                               f16,
                               plain,
                               {{128, turned}, {72, turned, bf16, "bias"}, {64, turned, DType::f32, "turned"}}}),
      tiles);
  expect_right(problem_of(SummedMatmuls{"", 2, 200, 128, bf16, plain, turned, {{128}, {72}, {200}}, bf16}), tiles);
}

/// What is drawn is right where it is legal, as a third of it must be. STITCH_TENSOR_MEMORY: how often instead of
/// `times`.
template <class Draw>
void expect_drawn_are_right(int times, std::uint64_t seed, const Draw& draw) {
  const char* const more = std::getenv("STITCH_TENSOR_MEMORY");
  const int count = more == nullptr ? times : std::stoi(more);
  Random random(seed);
  int legal = 0;
  for (int i = 0; i < count; ++i) {
    const InTensorMemory each = draw(random);
    const ContractionProblem problem = problem_of(each.matmul);
    const ContractionSchedule schedule = schedule_of(problem, each);
    SCOPED_TRACE(fmt::format("number {}: {}\n{}", i, to_string(problem), to_string(schedule)));
    if (!kernel::check_legality(problem, schedule, b200())) continue;
    ++legal;
    const KernelCase made = case_of(each);
    expect_right(made, inputs_of(*made.graph));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(3 * legal, count);
}

/// Neither with the right operand plain nor with it turned.
inline void expect_no_spills(InTensorMemory each) {
  for (const Layout right : {Layout::plain, Layout::turned}) {
    each.matmul.right = right;
    const ContractionProblem problem = problem_of(each.matmul);
    const auto compiled = compiled_for("sm_100a", problem, schedule_of(problem, each));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  }
}

}  // namespace stitch::codegen::test
