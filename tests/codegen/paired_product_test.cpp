// Products by tcgen05 of which the two blocks of a cluster multiply a tile together (.cta_group::2), on the emulated
// device, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/contraction/tensor_memory_text.h"
#include "costmodel/contraction/contraction_time.h"
#include "kernel/contraction/contraction_shape.h"
#include "search/contraction/contraction_space.h"
#include "tests/codegen/tensor_memory_case.h"

namespace stitch::codegen::test {
namespace {

constexpr auto f16 = DType::f16, bf16 = DType::bf16, s8 = DType::s8, u8 = DType::u8, e4m3 = DType::f8e4m3,
               e5m2 = DType::f8e5m2, f32 = DType::f32, s32 = DType::s32;

/// Tiles of `block_rows` × `block_columns` of each block, of which `blocks` stay.
InTensorMemory paired(std::string name, Matmul matmul, int block_rows, int block_columns, int block_depth,
                      int warp_columns, int stages, int blocks, int cluster = 2) {
  return {std::move(name),
          std::move(matmul),
          block_rows,
          block_columns,
          block_depth,
          warp_columns,
          stages,
          cluster,
          blocks,
          32,
          true};
}

class PairedProductEmulated : public testing::TestWithParam<InTensorMemory> {};

TEST_P(PairedProductEmulated, IsRight) {
  const std::string ptx = expect_right(GetParam());
  EXPECT_THAT(ptx, testing::HasSubstr("tcgen05.mma.cta_group::2.kind::"));
  EXPECT_THAT(ptx, testing::HasSubstr("complete_tx::bytes.cta_group::2"));
  EXPECT_THAT(ptx, testing::Not(testing::HasSubstr("cta_group::1")));
}

INSTANTIATE_TEST_SUITE_P(
    Of, PairedProductEmulated,
    testing::Values(
        paired("one", {"", {1, 256, 64, 256}, f16, plain, turned}, 128, 64, 64, 64, 3, 2),
        paired("stays", {"", {1, 768, 192, 320}, f16, plain, turned}, 128, 64, 64, 64, 3, 2),
        paired("pairs_stay", {"", {2, 640, 192, 256}, bf16, plain, turned, bf16}, 128, 64, 64, 64, 3, 4),
        paired("two_stages", {"", {1, 256, 64, 320}, bf16, plain, turned}, 128, 64, 64, 64, 2, 2),
        paired("more_stages_than_turns", {"", {1, 512, 128, 64}, f16, plain, turned}, 128, 64, 64, 64, 4, 2),
        paired("narrowest", {"", {1, 256, 24, 128}, f16, plain, turned}, 128, 32, 64, 32, 3, 2),
        paired("two_across", {"", {1, 256, 128, 192}, bf16, plain, turned, bf16}, 128, 128, 64, 64, 3, 2),
        paired("widest", {"", {1, 512, 256, 192}, bf16, plain, turned, bf16}, 128, 256, 64, 256, 4, 2),
        paired("two_below", {"", {1, 512, 128, 192}, f16, plain, turned}, 256, 128, 64, 128, 3, 2),
        paired("one_of_sums", {"", {1, 1100, 256, 128}, f16, plain, turned}, 256, 256, 64, 256, 3, 2),
        paired("parts", {"", {1, 300, 320, 192}, bf16, plain, turned, bf16, "bias"}, 128, 160, 64, 160, 5, 2),
        paired("plain_right", {"", {1, 256, 256, 192}, f16, plain, plain}, 128, 128, 64, 128, 3, 2),
        paired("two_panels", {"", {1, 256, 256, 192}, f16, plain, plain}, 128, 256, 64, 256, 3, 2),
        paired("turned_left", {"", {1, 256, 64, 128}, bf16, turned, turned}, 128, 64, 64, 64, 3, 2),
        paired("turned_both", {"", {2, 200, 136, 136}, bf16, turned, plain, bf16}, 128, 128, 64, 128, 3, 4),
        paired("lines_32", {"", {1, 200, 64, 96}, f16, plain, turned}, 128, 64, 16, 64, 5, 2),
        paired("lines_64", {"", {1, 200, 64, 96}, f16, plain, turned}, 128, 64, 32, 64, 5, 2),
        paired("ragged", {"", {3, 172, 96, 200}, bf16, plain, turned, bf16}, 128, 64, 64, 64, 3, 4),
        paired("second_is_empty", {"", {1, 300, 72, 136}, f16, plain, turned}, 128, 64, 64, 64, 3, 4),
        paired("two_pairs", {"", {1, 1024, 128, 320}, f16, plain, turned}, 128, 64, 64, 64, 3, 4, 4),
        paired("two_pairs_stay", {"", {2, 900, 128, 200}, bf16, plain, turned, bf16}, 128, 64, 64, 64, 3, 8, 4),
        paired("two_pairs_of_panels", {"", {1, 512, 256, 192}, f16, turned, plain}, 128, 256, 64, 256, 4, 4, 4),
        paired("four_pairs", {"", {1, 1024, 128, 192}, f16, plain, turned}, 128, 64, 64, 64, 3, 8, 8),
        paired("gelu", {"", {1, 200, 72, 256}, f16, plain, turned, f32, "gelu"}, 128, 64, 64, 64, 3, 2),
        paired("residual", {"", {1, 164, 96, 256}, bf16, plain, turned, bf16, "residual"}, 128, 64, 64, 64, 3, 2),
        paired("result_turned", {"", {1, 200, 128, 256}, bf16, plain, turned, bf16, "turned"}, 128, 128, 64, 128, 3, 2),
        paired("s8", {"", {1, 256, 64, 512}, s8, plain, turned, s32}, 128, 64, 128, 64, 4, 2),
        paired("u8", {"", {1, 130, 96, 320}, u8, plain, turned, s32}, 128, 96, 64, 96, 3, 2),
        paired("e4m3", {"", {1, 230, 64, 512}, e4m3, plain, turned, f32}, 128, 64, 128, 64, 3, 2),
        paired("e5m2", {"", {1, 200, 64, 192}, e5m2, plain, turned, f32}, 128, 64, 64, 64, 3, 2),
        paired("tf32", {"", {1, 150, 72, 160}, f32, plain, turned, f32, "", {.tf32 = true}}, 128, 64, 32, 64, 3, 2)),
    [](const auto& each) { return each.param.name; });

bool is_found(const KernelCase& each) {
  try {
    return !launch(each, inputs_of(*each.graph)).findings.empty();
  } catch (const std::runtime_error&) {
    return true;  // everybody waits
  }
}

/// Of a pair that stays for several tiles, what either block tells or waits for.
TEST(PairedProductKernelEmulated, EveryWaitAndFenceIsNeeded) {
  const KernelCase each = case_of(paired("", {"", {1, 768, 64, 640}, f16, plain, turned}, 128, 64, 64, 64, 3, 2));
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("TensorStages<2, 4, 2> sums")) << "two tiles of sums";
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  for (const char* wait :
       {"stages.wait_for(at);", "sums.wait_for(at);", "sums.wait_for_room(turn);", "hand_over_sums();",
        "stages.begin();", "stages.end();", "sums.prepare();", "release_to_first(sums, at.stage, rank);",
        "tell_when_multiplied<2, true>(stages.empty(at.stage));", "tell_pair(sums.full(turn.stage), rank);"}) {
    EXPECT_TRUE(is_found(profiler::test::mutated(each, wait, ";"))) << wait;
  }
  // Both fences of who takes over: of sums that are there, and of room for the next ones.
  for (const char* who : {"sums.wait_for(at);\n", "sums.wait_for_room(turn);\n"}) {
    const std::size_t at = each.kernel.source.find(who);
    ASSERT_NE(at, std::string::npos);
    const std::string fence = "take_over_sums();";
    KernelCase broken = each;
    broken.kernel.source.erase(broken.kernel.source.find(fence, at), fence.size());
    EXPECT_TRUE(is_found(broken)) << who;
  }
}

/// What a pair has to itself: the other block's part in it taken away.
TEST(PairedProductKernelEmulated, TheOtherBlockIsWaitedForAndTold) {
  const KernelCase each = case_of(paired("", {"", {1, 768, 64, 640}, f16, plain, turned}, 128, 64, 64, 64, 3, 2));
  const auto changed = [&](std::initializer_list<std::pair<const char*, const char*>> changes,
                           const std::string& function = {}) {
    KernelCase broken = each;
    for (const auto& [from, to] : changes) broken = profiler::test::mutated(broken, from, to);
    broken.kernel.source.insert(broken.kernel.source.find("extern \"C\""), function);
    return broken;
  };
  // The one who multiplies waits for half of what is multiplied.
  const std::string expecting = R"(template <class Stages, class Turn>
__device__ u32 expect_otherwise(const Stages& stages, const Turn& at, int bytes, int rank) {{
  {}
  if (rank == 0) arrive_expecting(stages.full(at.stage), {});
  return {};
}}
)";
  const auto expect = [&](const char* room, const char* bytes, const char* barrier) {
    return changed({{"expect_of_both(", "expect_otherwise("}},
                   fmt::format(fmt::runtime(expecting), room, bytes, barrier));
  };
  const char* const room = "stages.wait_for_room(at);";
  const char* const barrier = "of_first_block(stages.full(at.stage), rank)";
  EXPECT_FALSE(is_found(expect(room, "2 * bytes", barrier)));
  EXPECT_TRUE(is_found(expect(room, "bytes", barrier))) << "bytes of one block";
  EXPECT_TRUE(is_found(expect(room, "2 * bytes", "stages.full(at.stage)"))) << "barriers of each block's own";
  EXPECT_TRUE(is_found(expect("", "2 * bytes", barrier))) << "no wait for room";
  EXPECT_TRUE(is_found(expect("if (rank == 0) stages.wait_for_room(at);", "2 * bytes", barrier)))
      << "the second block does not wait for room";
  // Copies whose barrier is the peer's say so.
  EXPECT_TRUE(is_found(changed({{"copy_box<2, false, true>(", "copy_box<2, false>("}})));
  EXPECT_TRUE(
      is_found(changed({{"release_to_first(sums, at.stage, rank);", "if (rank == 0) sums.release(at.stage);"}})))
      << "arrivals that are not the other block's";
  EXPECT_TRUE(is_found(changed({{"TensorStages<2, 4, 2> sums", "TensorStages<2, 4, 1> sums"}})))
      << "sums of the second block that nobody waits for";
  EXPECT_TRUE(is_found(changed({{"tell_pair(sums.full(turn.stage), rank);", "tell_first(sums.full(turn.stage));"}},
                               R"(__device__ void tell_first(u32 barrier) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
)"))) << "only the first block knows of sums";
}

/// Two pairs that share their columns: each overwrites what the other one may still read, and is told by both.
TEST(PairedProductKernelEmulated, OtherPairsAreWaitedForAndTold) {
  const KernelCase each = case_of(paired("", {"", {1, 2048, 64, 384}, f16, plain, turned}, 128, 64, 64, 64, 3, 4, 4));
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("TensorStages<3, 1, 4, 2> stages"));
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  for (const auto& [from, to] :
       {std::pair{"TensorStages<3, 1, 4, 2> stages", "TensorStages<3, 1, 4, 1> stages"},
        std::pair{"tell_when_multiplied<4, true>(stages.empty(at.stage));", "tell_pair(stages.empty(at.stage), rank);"},
        std::pair{"tell_pair(sums.full(turn.stage), rank);", "tell_pair(sums.full(turn.stage), 0);"},
        std::pair{"copy_box<2, true, true>(", "copy_box<2, true>("}, std::pair{"5 << rank % 2", "5"},
        std::pair{"release_to_first(sums, at.stage, rank);", "release_to_first(sums, at.stage, 0);"},
        std::pair{"stages.begin();", ";"}, std::pair{"stages.end();", ";"}})
    EXPECT_TRUE(is_found(profiler::test::mutated(each, from, to))) << from;
}

TEST(PairedProductKernelEmulated, SeveralProductsAndSumsOfThemAreRight) {
  expect_several_are_right(paired("", {}, 128, 64, 64, 64, 3, 4));
}

InTensorMemory draw(Random& random) {
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  constexpr int rows[] = {128, 128, 256}, columns[] = {64, 96, 128, 192, 256}, depths[] = {32, 64},
                stages[] = {2, 3, 4};
  constexpr Layout layouts[] = {plain, turned, turned};
  const auto extent = [&](int most) { return 8 * static_cast<std::int64_t>(1 + random.below(most)); };
  const std::int64_t batch = 1 + static_cast<std::int64_t>(random.below(3));
  Matmul matmul = {"",
                   {batch, 400 + extent(60), extent(30), extent(40)},
                   among(std::array{f16, bf16}),
                   among(layouts),
                   among(layouts),
                   f32,
                   among(std::array<std::string, 4>{"", "bias", "gelu", "turned"})};
  const int width = among(columns);
  const int block_rows = among(rows), depth = among(depths), least = among(stages);
  const int cluster = 2 << random.below(2), blocks = cluster * (1 + static_cast<int>(random.below(3)));
  InTensorMemory each =
      paired("", std::move(matmul), block_rows, width, depth, width > 64 ? width / 2 : width, least, blocks, cluster);
  const ContractionProblem problem = problem_of(each.matmul);
  // With so few stages that two blocks find room on an SM they may have too many columns of tensor memory together.
  while (!kernel::check_legality(problem, schedule_of(problem, each), b200()) && each.stages < 12) ++each.stages;
  return each;
}

TEST(PairedProductKernelEmulated, RandomProblemsAreRight) { expect_drawn_are_right(6, 28, draw); }

const InTensorMemory large =
    paired("", {"", {1, 4096, 4096, 4096}, bf16, plain, turned, bf16}, 128, 256, 64, 128, 6, 148);

TEST(PairedProductKernel, DoesNotSpill) { expect_no_spills(large); }

TEST(PairedProductRules, SayWhatIsInTheWay) {
  const auto legality = [](InTensorMemory each, auto change) {
    const ContractionProblem problem = problem_of(each.matmul);
    ContractionSchedule s = schedule_of(problem, each);
    change(s);
    const Status legal = kernel::check_legality(problem, s, b200());
    return legal ? std::string() : legal.error().message;
  };
  using S = ContractionSchedule;
  EXPECT_EQ(legality(large, [](S&) {}), "");
  EXPECT_THAT(legality(large, [](S& s) { s.cluster = 1; }), testing::HasSubstr("pairs in clusters of 1"));
  EXPECT_THAT(legality(large, [](S& s) { s.cluster = 3; }), testing::HasSubstr("pairs in clusters of 3"));
  EXPECT_THAT(legality(large, [](S& s) { s.block_columns = s.warp_columns = 144; }),
              testing::HasSubstr("144 columns of pairs"));
  InTensorMemory panels = large;
  panels.matmul.right = plain;
  panels.block_columns = panels.warp_columns = 64;
  EXPECT_THAT(legality(panels, [](S&) {}), testing::HasSubstr("panels of 32 elements"));
  EXPECT_THAT(legality(large, [](S& s) { s.instruction = kernel::ContractionInstruction::mma_m16n8k16; }),
              testing::HasSubstr("pairs that multiply by something else"));
}

/// A block has half of the right operand's columns: there is room for more stages, and less to bring.
TEST(PairedProductShape, HasHalfOfTheRightTile) {
  const ContractionProblem problem = problem_of(large.matmul);
  ContractionSchedule alone = schedule_of(problem, large);
  const std::string text = to_string(alone);
  EXPECT_THAT(text, testing::HasSubstr("tensor paired cluster 2 of 148"));
  const kernel::ContractionShape both = kernel::shape_of(problem, alone);
  const Hash128 name = schedule_hash(alone);
  alone.paired = false;
  EXPECT_NE(name, schedule_hash(alone));
  const kernel::ContractionShape shape = kernel::shape_of(problem, alone);
  EXPECT_EQ(both.left_bytes, shape.left_bytes);
  EXPECT_EQ(2 * both.right_bytes, shape.right_bytes);
  EXPECT_EQ(both.sum_columns, shape.sum_columns);
  EXPECT_FALSE(kernel::check_legality(problem, alone, b200())) << "six stages of whole tiles";
}

TEST(PairedProductSpace, IsChosenForLargeProducts) {
  const ContractionProblem problem = problem_of(large.matmul);
  const auto predict = [&](const ContractionSchedule& s) {
    return costmodel::contraction_time(problem, s, b200()).total;
  };
  const auto ranked = search::best_contractions(problem, b200(), predict);
  ASSERT_TRUE(ranked) << ranked.error().message;
  const search::RankedContraction& best = ranked->best.front();
  EXPECT_TRUE(best.schedule.paired) << to_string(best.schedule);
  double alone = 1e9;
  search::for_each_contraction(problem, b200(), {}, [&](const ContractionSchedule& s) {
    if (!s.paired) alone = std::min(alone, predict(s));
  });
  EXPECT_LT(best.predicted_us, alone);
}

}  // namespace
}  // namespace stitch::codegen::test
