#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/matmul_case.h"

/// Main loops read and write shared memory in as few wavefronts as there can be: four turns more have no wavefront
/// beyond one a request (of 128 bytes) more.
namespace stitch::codegen::test {
namespace {

using kernel::ContractionInstruction;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

struct Operands {
  std::string name;
  DType dtype, result;
  graph::Constraints constraints = {};
};
void PrintTo(const Operands& operands, std::ostream* out) { *out << operands.name; }

struct Tile {
  int rows, columns, warp_rows, warp_columns, depth_bytes;
};
/// Lines of 16 to 256 bytes along rows, of 64 and 128 along the depth.
constexpr Tile tiles[] = {{16, 32, 16, 32, 64}, {64, 128, 32, 32, 128}};
constexpr Layout layouts[] = {plain, turned};

ContractionSchedule schedule_for(const ContractionProblem& problem, ContractionInstruction instruction,
                                 const Tile& tile) {
  const int size = graph::byte_size(problem.left.dtype);
  ContractionSchedule s;
  s.instruction = instruction;
  s.block_rows = tile.rows;
  s.block_columns = tile.columns;
  s.warp_rows = tile.warp_rows;
  s.warp_columns = tile.warp_columns;
  s.block_depth = tile.depth_bytes / size;
  const bool cores = instruction == ContractionInstruction::cuda_core;
  s.thread_rows = cores ? s.warp_rows / 4 : 0;
  s.thread_columns = cores ? s.warp_columns / 8 : 0;
  s.stages = 3;
  fit_accesses(problem, s);
  return s;
}

class LoopConflictsEmulated : public testing::TestWithParam<Operands> {
 protected:
  [[nodiscard]] Matmul matmul_of(Layout left, Layout right, const Tile& tile, int turns, bool narrow) const {
    const Operands& of = GetParam();
    const int less = narrow ? 1 : 0;  // what begins at any element is copied element by element
    const std::int64_t depth = std::int64_t{turns} * tile.depth_bytes / graph::byte_size(of.dtype);
    return {"",       {1, tile.rows - less, tile.columns - less, depth - less},
            of.dtype, left,
            right,    of.result,
            "",       of.constraints};
  }
  static std::uint64_t conflicts_of(const Matmul& matmul, ContractionInstruction instruction, const Tile& tile,
                                    const DeviceSpec& device) {
    const ContractionProblem problem = problem_of(matmul);
    const KernelCase each = case_of(problem, schedule_for(problem, instruction, tile), device);
    return run(each, inputs_of(*each.graph)).counters.shared_extra_wavefronts;
  }
  void expect_none(ContractionInstruction instruction, const DeviceSpec& device, bool narrow) const {
    for (const Tile& tile : tiles) {
      for (const Layout left : layouts) {
        for (const Layout right : layouts) {
          SCOPED_TRACE(fmt::format("{} tile {}×{}, left {}, right {}{}", to_string(instruction), tile.rows,
                                   tile.columns, left == turned ? "along rows" : "along depth",
                                   right == turned ? "along depth" : "along columns", narrow ? ", narrow" : ""));
          EXPECT_EQ(conflicts_of(matmul_of(left, right, tile, 4, narrow), instruction, tile, device),
                    conflicts_of(matmul_of(left, right, tile, 8, narrow), instruction, tile, device));
        }
      }
    }
  }
};

TEST_P(LoopConflictsEmulated, NoneByTheInstructionThatIsChosen) {
  const DeviceSpec device = *find_device("h100");
  const ContractionProblem problem = problem_of(matmul_of(plain, turned, tiles[1], 4, false));
  expect_none(kernel::instruction_for(problem, device), device, false);
}

TEST_P(LoopConflictsEmulated, NoneByCudaCores) {
  expect_none(ContractionInstruction::cuda_core, *find_device("l4"), false);
}

TEST_P(LoopConflictsEmulated, NoneWhereElementsAreCopiedOneByOne) {
  const DeviceSpec device = *find_device("h100");
  const ContractionProblem problem = problem_of(matmul_of(plain, turned, tiles[1], 4, true));
  expect_none(kernel::instruction_for(problem, device), device, true);
}

INSTANTIATE_TEST_SUITE_P(
    Of, LoopConflictsEmulated,
    testing::Values(Operands{"f16", DType::f16, DType::f32}, Operands{"bf16", DType::bf16, DType::f32},
                    Operands{"f32", DType::f32, DType::f32}, Operands{"tf32", DType::f32, DType::f32, {.tf32 = true}},
                    Operands{"bf16x3", DType::f32, DType::f32, {.bf16x3 = true}},
                    Operands{"f64", DType::f64, DType::f64}, Operands{"s8", DType::s8, DType::s32},
                    Operands{"u8", DType::u8, DType::s32}, Operands{"s32", DType::s32, DType::s32},
                    Operands{"f8e4m3", DType::f8e4m3, DType::f32}, Operands{"f8e5m2", DType::f8e5m2, DType::f32}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
