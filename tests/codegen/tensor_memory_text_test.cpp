// Products by tcgen05, whose sums are in tensor memory, on the emulated device, beside the float64 reference.
#include "codegen/contraction/tensor_memory_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "costmodel/contraction/contraction_time.h"
#include "kernel/contraction/contraction_shape.h"
#include "search/contraction/contraction_space.h"
#include "tests/codegen/normed_case.h"
#include "tests/codegen/tensor_memory_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionInstruction;

class TensorMemoryEmulated : public testing::TestWithParam<InTensorMemory> {};

TEST_P(TensorMemoryEmulated, IsRight) {
  EXPECT_THAT(expect_right(GetParam()), testing::HasSubstr("tcgen05.mma.cta_group::1.kind::"));
}

constexpr auto f16 = DType::f16, bf16 = DType::bf16, s8 = DType::s8, u8 = DType::u8, e4m3 = DType::f8e4m3,
               e5m2 = DType::f8e5m2, f32 = DType::f32, s32 = DType::s32;
INSTANTIATE_TEST_SUITE_P(
    Of, TensorMemoryEmulated,
    testing::Values(
        InTensorMemory{"one", {"", {1, 128, 64, 256}, f16, plain, turned}},
        InTensorMemory{"stays", {"", {1, 384, 192, 320}, f16, plain, turned}, 128, 64, 64, 64, 3, 1, 2},
        InTensorMemory{"two_stages", {"", {1, 128, 64, 320}, bf16, plain, turned}, 128, 64, 64, 64, 2},
        InTensorMemory{"more_stages_than_turns", {"", {1, 256, 128, 64}, f16, plain, turned}, 128, 64, 64, 64, 4, 1, 2},
        InTensorMemory{"two_across", {"", {1, 128, 128, 192}, bf16, plain, turned, bf16}, 128, 128, 64, 64},
        InTensorMemory{"widest", {"", {1, 256, 256, 192}, bf16, plain, turned, bf16}, 128, 256, 64, 128, 4},
        InTensorMemory{"two_below", {"", {1, 512, 128, 192}, f16, plain, turned}, 256, 128, 64, 128, 3, 1, 1},
        InTensorMemory{"two_strips", {"", {1, 300, 64, 192}, f16, plain, turned}, 256, 64, 64, 64, 3, 1, 1, 64},
        InTensorMemory{"one_of_sums", {"", {1, 640, 256, 128}, f16, plain, turned}, 256, 256, 64, 256, 3, 1, 2},
        InTensorMemory{
            "parts", {"", {1, 200, 288, 192}, bf16, plain, turned, bf16, "bias"}, 128, 144, 64, 144, 3, 1, 2},
        InTensorMemory{"pair", {"", {1, 256, 64, 320}, f16, plain, turned}, 128, 64, 64, 64, 3, 2, 2},
        InTensorMemory{"pairs_stay", {"", {2, 640, 192, 256}, bf16, plain, turned, bf16}, 128, 64, 64, 64, 3, 2, 4},
        InTensorMemory{"plain_right", {"", {1, 128, 256, 192}, f16, plain, plain}, 128, 128, 64, 128, 3, 1, 2},
        InTensorMemory{"turned_left", {"", {1, 256, 64, 128}, bf16, turned, turned}, 128, 64, 64, 64, 3},
        InTensorMemory{"turned_both", {"", {2, 200, 136, 136}, bf16, turned, plain, bf16}, 128, 128, 64, 128, 3, 2, 4},
        InTensorMemory{"panels_32", {"", {1, 64, 128, 160}, f16, turned, plain}, 128, 128, 32, 128, 4},
        InTensorMemory{"lines_32", {"", {1, 128, 64, 96}, f16, plain, turned}, 128, 64, 16, 64, 5},
        InTensorMemory{"lines_64", {"", {1, 128, 64, 96}, f16, plain, turned}, 128, 64, 32, 64, 5},
        InTensorMemory{"ragged", {"", {3, 72, 96, 200}, bf16, plain, turned, bf16}, 128, 64, 64, 64, 3, 1, 4},
        InTensorMemory{"shallow", {"", {1, 130, 64, 8}, bf16, plain, turned, bf16}, 128, 64, 16, 64, 3, 2, 2},
        InTensorMemory{"odd_tiles", {"", {1, 300, 200, 256}, bf16, plain, turned, bf16}, 128, 144, 64, 144, 5, 2, 4},
        InTensorMemory{"narrow_tiles", {"", {1, 256, 80, 256}, f16, plain, turned}, 128, 80, 64, 80, 3, 2, 2},
        InTensorMemory{"narrowest", {"", {1, 128, 24, 128}, f16, plain, turned}, 128, 16, 64, 16, 3, 1, 2},
        InTensorMemory{"one_row", {"", {1, 1, 64, 128}, bf16, plain, turned, bf16}},
        InTensorMemory{"bias", {"", {1, 200, 64, 256}, bf16, plain, turned, bf16, "bias"}, 128, 64, 64, 64, 3, 2, 2},
        InTensorMemory{"gelu", {"", {1, 200, 72, 256}, f16, plain, turned, f32, "gelu"}, 128, 64, 64, 64, 3, 1, 2},
        InTensorMemory{"residual", {"", {1, 64, 96, 256}, bf16, plain, turned, bf16, "residual"}},
        InTensorMemory{"narrow", {"", {1, 150, 96, 256}, f16, plain, turned, f32, "narrow"}, 128, 96, 64, 48},
        InTensorMemory{
            "result_turned", {"", {1, 200, 128, 256}, bf16, plain, turned, bf16, "turned"}, 128, 128, 64, 128},
        InTensorMemory{"s8", {"", {1, 256, 32, 512}, s8, plain, turned, s32}, 128, 32, 128, 32, 4, 2, 2},
        InTensorMemory{"u8", {"", {1, 130, 48, 320}, u8, plain, turned, s32}, 128, 48, 64, 48},
        InTensorMemory{"e4m3", {"", {1, 130, 64, 512}, e4m3, plain, turned, f32}, 128, 64, 128, 64, 3},
        InTensorMemory{"e5m2", {"", {1, 200, 64, 192}, e5m2, plain, turned, f32}, 128, 64, 64, 64, 3, 1, 1},
        InTensorMemory{
            "tf32", {"", {1, 150, 72, 160}, f32, plain, turned, f32, "", {.tf32 = true}}, 128, 64, 32, 64, 3, 1, 2}),
    [](const auto& each) { return each.param.name; });

/// A pair of blocks that stays for several tiles: without one of its waits or fences it multiplies what is not there
/// yet, overwrites what is still read, or takes sums that are still made.
TEST(TensorMemoryKernelEmulated, EveryWaitAndFenceIsNeeded) {
  const InTensorMemory pair = {"", {"", {1, 768, 64, 640}, f16, plain, turned}, 128, 64, 64, 64, 3, 2, 2};
  const KernelCase each = case_of(pair);
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("TensorStages<2, 4, 1> sums")) << "two tiles of sums";
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  for (const char* wait : {"stages.wait_for(at);", "sums.wait_for(at);", "sums.wait_for_room(turn);",
                           "hand_over_sums();", "stages.begin();", "stages.end();", "sums.prepare();"}) {
    const KernelCase broken = profiler::test::mutated(each, wait, ";");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty())) << wait;
  }
}

/// Those behind the generated lines: of who asks for a tile, of who multiplies, and of who takes sums.
TEST(TensorMemoryKernelEmulated, WaitsOfTheHeadersAreNeeded) {
  const InTensorMemory one = {"", {"", {1, 384, 64, 640}, f16, plain, turned}, 128, 64, 64, 64, 3, 1, 1};
  const KernelCase each = case_of(one);
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  const auto without = [&](const std::string& call, const std::string& name, const std::string& function) {
    KernelCase broken = profiler::test::mutated(each, call, name);
    broken.kernel.source.insert(broken.kernel.source.find("extern \"C\""), function);
    return launch(broken, inputs_of(*each.graph)).findings;
  };
  EXPECT_THAT(without("stages.expect(at, ", "expect_at_once(stages, at, ", R"(template <class Stages, class Turn>
__device__ u32 expect_at_once(const Stages& stages, const Turn& at, int bytes) {
  arrive_expecting(stages.full(at.stage), bytes);
  return stages.full(at.stage);
}
)"),
              testing::Not(testing::IsEmpty()))
      << "the wait for room";
  EXPECT_THAT(without("cores.load<64>(", "load_at_once(cores, ", R"(template <class C>
__device__ void load_at_once(C& cores, u32 at, int row, int column) {
  at += (static_cast<u32>(row % 128) << 16) + static_cast<u32>(column);
  for (int c = 0; c < 4; ++c) {
    u32 words[16];
    load_columns(words, at + c * 16);
    for (int i = 0; i < 16; ++i) from_word(cores.sums[0][c * 16 + i], words[i]);
  }
}
)"),
              testing::Not(testing::IsEmpty()))
      << "the wait for loads";
  // Both fences of who takes over: of sums that are there, and of room for the next ones.
  for (const char* who : {"sums.wait_for(at);\n", "sums.wait_for_room(turn);\n"}) {
    const std::size_t at = each.kernel.source.find(who);
    ASSERT_NE(at, std::string::npos);
    const std::string fence = "take_over_sums();";
    KernelCase broken = each;
    broken.kernel.source.erase(broken.kernel.source.find(fence, at), fence.size());
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty())) << who;
  }
  // Who asks for a tile, and who takes sums, must be told.
  for (const char* commit : {"tell_when_multiplied<1>(stages.empty(at.stage));",
                             "tell_when_multiplied<1>(sums.full(turn.stage));", "sums.release(at.stage);"}) {
    const auto outcome = [&] {
      try {
        return !launch(profiler::test::mutated(each, commit, ""), inputs_of(*each.graph)).findings.empty();
      } catch (const std::runtime_error&) {
        return true;  // everybody waits
      }
    };
    EXPECT_TRUE(outcome()) << commit;
  }
}

TEST(TensorMemoryKernelEmulated, RowsAreCombined) {
  const auto expect = [](const NormedMatmul& of, int columns) {
    expect_right(problem_of(of), {"", {}, 128, columns, 64, 64, 3, 1, 4});
  };
  expect({"", {1, 200, 64, 192}, f16}, 64);
  expect({"", {1, 300, 256, 192}, bf16, "softmax", bf16}, 128);
  expect({"", {2, 130, 200, 128}, f16, "rms", f32, true, true}, 64);
  expect({"", {1, 200, 128, 192}, f16, "statistics"}, 64);
}

TEST(TensorMemoryKernelEmulated, SeveralProductsAndSumsOfThemAreRight) {
  expect_several_are_right({"", {}, 128, 64, 64, 64, 3, 2, 4});
}

InTensorMemory draw(Random& random) {
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  constexpr int rows[] = {128, 128, 256}, columns[] = {48, 64, 128, 192}, depths[] = {32, 64}, stages[] = {2, 3, 4},
                halves[] = {1, 2};
  constexpr Layout layouts[] = {plain, turned};
  const auto extent = [&](int most) { return 8 * static_cast<std::int64_t>(1 + random.below(most)); };
  InTensorMemory each;
  each.matmul = {"",
                 {1 + static_cast<std::int64_t>(random.below(3)), extent(60), extent(30), extent(40)},
                 among(std::array{f16, bf16}),
                 among(layouts),
                 among(layouts),
                 f32,
                 among(std::array<std::string, 4>{"", "bias", "gelu", "turned"})};
  each.block_rows = among(rows);
  each.block_columns = among(columns);
  each.block_depth = among(depths);
  each.warp_columns = each.block_columns > 64 ? each.block_columns / 2 : each.block_columns;
  each.stages = among(stages);
  each.cluster = among(halves);
  each.resident = 2 * (1 + static_cast<int>(random.below(3)));
  return each;
}

TEST(TensorMemoryKernelEmulated, RandomProblemsAreRight) { expect_drawn_are_right(8, 12, draw); }

const InTensorMemory large = {"", {"", {1, 4096, 4096, 4096}, bf16, plain, turned, bf16}, 128, 256, 64, 128, 4, 2, 148};

/// Sums of 128 columns are in registers while they leave, without spills.
TEST(TensorMemoryKernel, DoesNotSpill) { expect_no_spills(large); }

/// Strips of 32 columns are stored and read 16 bytes at a time without conflict. Of more than four warps they have 16,
/// two rows of which meet when they are read; the loop has no conflicts.
TEST(TensorMemoryKernelEmulated, LoopsHaveNoBankConflicts) {
  const auto conflicts = [](std::int64_t depth, int warp_columns) {
    const KernelCase each =
        case_of({"", {"", {1, 128, 128, depth}, f16, plain, turned, f32}, 128, 128, 64, warp_columns, 3});
    return run(each, inputs_of(*each.graph)).counters.shared_extra_wavefronts;
  };
  EXPECT_EQ(conflicts(256, 128), 0);
  EXPECT_EQ(conflicts(256, 64), conflicts(512, 64));
}

TEST(TensorMemoryRules, SayWhatIsInTheWay) {
  const auto legality = [](const InTensorMemory& each, const DeviceSpec& device) {
    const ContractionProblem problem = problem_of(each.matmul);
    const Status legal = kernel::check_legality(problem, schedule_of(problem, each), device);
    return legal ? std::string() : legal.error().message;
  };
  EXPECT_EQ(legality(large, b200()), "");
  EXPECT_THAT(legality(large, *find_device("h100")), testing::HasSubstr("device: tcgen05_m128k16 on sm_90a"));
  EXPECT_THAT(legality(large, *find_device("rtx5090")), testing::HasSubstr("device: tcgen05_m128k16 on sm_120a"));
  InTensorMemory each = large;
  each.block_rows = 64;
  EXPECT_THAT(legality(each, b200()), testing::HasSubstr("tensor-memory: 64 rows by warps of 32"));
  each = large;
  each.block_columns = 384;
  EXPECT_THAT(legality(each, b200()), testing::HasSubstr("tensor-memory: 384 columns"));
  each = large;
  each.block_rows = 256;
  each.stages = 2;
  EXPECT_THAT(legality(each, b200()), testing::HasSubstr("registers")) << "of 16 warps with 128 columns each";
  each.warp_columns = 256;
  EXPECT_EQ(legality(each, b200()), "") << "of 8 that take them in parts";
  each = large;
  each.matmul.right = plain;
  each.block_columns = 208;
  each.warp_columns = 208;
  EXPECT_THAT(legality(each, b200()), testing::HasSubstr("panels of 208 elements"));
  const ContractionProblem s8_problem = problem_of({"", {1, 256, 256, 1024}, s8, plain, turned, s32});
  EXPECT_TRUE(kernel::tensor_memory_instruction_for(s8_problem, b200()));
  EXPECT_FALSE(kernel::tensor_memory_instruction_for(s8_problem, *find_device("b300"))) << "it has no such kind";
  EXPECT_FALSE(kernel::tensor_memory_instruction_for(problem_of(large.matmul), *find_device("h100")));
}

/// Of a large product on a B200 it is predicted to be fastest; the best one by other instructions is kept for compilers
/// that know no tensor copies.
TEST(TensorMemorySpace, IsChosenForLargeProducts) {
  const ContractionProblem problem = problem_of(large.matmul);
  const auto ranked = search::best_contractions(problem, b200(), [&](const ContractionSchedule& s) {
    return costmodel::contraction_time(problem, s, b200()).total;
  });
  ASSERT_TRUE(ranked) << ranked.error().message;
  const search::RankedContraction& best = ranked->best.front();
  EXPECT_EQ(best.schedule.instruction, ContractionInstruction::tcgen05_m128k16) << to_string(best.schedule);
  const auto other = std::ranges::find_if(ranked->best, [](const search::RankedContraction& each) {
    return each.schedule.instruction == ContractionInstruction::mma_m16n8k16;
  });
  ASSERT_NE(other, ranked->best.end());
  EXPECT_LT(1.5 * best.predicted_us, other->predicted_us) << to_string(best.schedule) << "\n"
                                                          << to_string(other->schedule);
}

}  // namespace
}  // namespace stitch::codegen::test
