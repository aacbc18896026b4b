// Products whose tiles come by the tensor copy engine, on the emulated device, beside the float64 reference.
#include "codegen/contraction/tensor_copy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile/nvrtc.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

struct Staying {
  Warpgroups tile;
  int cluster = 1, resident = 1;
};
void PrintTo(const Staying& each, std::ostream* out) { *out << each.tile.name; }

ContractionSchedule schedule_of(const ContractionProblem& problem, const Staying& staying) {
  ContractionSchedule s = test::schedule_of(problem, staying.tile);
  s.tensor_copies = true;
  s.cluster = staying.cluster;
  s.resident = staying.resident;
  fit_accesses(problem, s);
  return s;
}

class TensorCopiesEmulated : public testing::TestWithParam<Staying> {
 protected:
  const ContractionProblem problem = problem_of(GetParam().tile.matmul);
  const ContractionSchedule schedule = schedule_of(problem, GetParam());
};

TEST_P(TensorCopiesEmulated, AreRight) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("copy_box<"));
  EXPECT_EQ(each.kernel.cluster, GetParam().cluster);
  EXPECT_EQ(each.kernel.blocks, std::min<std::int64_t>(GetParam().resident, shape_of(problem, schedule).blocks));
  expect_right(each, inputs_of(*each.graph));
}

constexpr auto f16 = DType::f16, bf16 = DType::bf16;
INSTANTIATE_TEST_SUITE_P(
    Of, TensorCopiesEmulated,
    testing::Values(
        Staying{{"one", {"", {1, 64, 64, 256}, f16, plain, turned}, 64, 64, 64, 16, 64}},
        Staying{{"stays", {"", {1, 192, 192, 320}, f16, plain, turned}, 64, 64, 64, 16, 64, 3}, 1, 2},
        Staying{{"more_stages_than_turns", {"", {1, 256, 64, 64}, f16, plain, turned}, 64, 64, 64, 16, 64, 4}, 1, 2},
        Staying{{"pair", {"", {1, 128, 64, 320}, f16, plain, turned}, 64, 64, 64, 16, 64, 3}, 2, 2},
        Staying{{"pairs_stay", {"", {2, 320, 192, 256}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3}, 2, 4},
        Staying{{"widest", {"", {1, 256, 256, 192}, bf16, plain, turned, bf16}, 128, 256, 64, 16, 256, 3}, 2, 2},
        Staying{{"plain_right", {"", {1, 128, 256, 192}, f16, plain, plain}, 64, 128, 64, 16, 128, 3}, 2, 4},
        Staying{{"turned_left", {"", {1, 256, 64, 128}, bf16, turned, turned}, 128, 64, 64, 32, 64, 3}, 1, 1},
        Staying{{"turned_both", {"", {2, 200, 136, 136}, bf16, turned, plain, bf16}, 128, 128, 64, 32, 64, 3}, 2, 4},
        Staying{{"panels_32", {"", {1, 64, 128, 160}, f16, turned, plain}, 64, 128, 32, 16, 128, 4}, 1, 1},
        Staying{{"lines_32", {"", {1, 128, 64, 96}, f16, plain, turned}, 64, 64, 16, 16, 64, 5}, 1, 1},
        Staying{{"ragged", {"", {3, 72, 96, 200}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3}, 1, 4},
        Staying{{"shallow", {"", {1, 130, 64, 8}, bf16, plain, turned, bf16}, 64, 64, 16, 16, 64, 3}, 2, 2},
        Staying{{"one_row", {"", {1, 1, 64, 128}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3}},
        Staying{{"s8", {"", {1, 128, 32, 512}, DType::s8, plain, turned, DType::s32}, 64, 32, 64, 16, 32, 4}, 2, 2},
        Staying{{"bias", {"", {1, 100, 64, 256}, bf16, plain, turned, bf16, "bias"}, 64, 64, 64, 16, 64, 3}, 2, 2},
        Staying{{"residual", {"", {1, 64, 96, 256}, bf16, plain, turned, bf16, "residual"}, 64, 64, 64, 16, 64, 3}},
        Staying{
            {"result_turned", {"", {1, 64, 128, 256}, bf16, plain, turned, bf16, "turned"}, 64, 128, 64, 16, 128, 3}}),
    [](const auto& each) { return each.param.tile.name; });

}  // namespace
}  // namespace stitch::codegen::test
