// Products whose tiles come by the tensor copy engine, on the emulated device, beside the float64 reference.
#include "codegen/contraction/tensor_copy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/device_headers.h"
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
        Staying{{"three_groups", {"", {1, 200, 96, 256}, f16, plain, turned}, 192, 96, 64, 16, 96, 3}, 1, 1},
        Staying{{"odd_tiles", {"", {1, 300, 200, 256}, bf16, plain, turned, bf16}, 64, 144, 64, 16, 144, 3}, 2, 4},
        Staying{{"narrow_tiles", {"", {1, 256, 80, 256}, f16, plain, turned}, 128, 80, 64, 16, 80, 3}, 2, 2},
        Staying{{"three_panels", {"", {1, 128, 192, 128}, f16, plain, plain}, 64, 192, 64, 16, 192, 3}, 1, 2},
        Staying{{"one_row", {"", {1, 1, 64, 128}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3}},
        Staying{{"s8", {"", {1, 128, 32, 512}, DType::s8, plain, turned, DType::s32}, 64, 32, 64, 16, 32, 4}, 2, 2},
        Staying{{"bias", {"", {1, 100, 64, 256}, bf16, plain, turned, bf16, "bias"}, 64, 64, 64, 16, 64, 3}, 2, 2},
        Staying{{"residual", {"", {1, 64, 96, 256}, bf16, plain, turned, bf16, "residual"}, 64, 64, 64, 16, 64, 3}},
        Staying{
            {"result_turned", {"", {1, 64, 128, 256}, bf16, plain, turned, bf16, "turned"}, 64, 128, 64, 16, 128, 3}}),
    [](const auto& each) { return each.param.tile.name; });

/// Of a pair of blocks that stays for two tiles.
TEST(TensorCopyKernelEmulated, EveryWaitIsNeeded) {
  const Staying pair = {{"", {"", {1, 256, 64, 640}, f16, plain, turned}, 64, 64, 64, 16, 64, 3}, 2, 2};
  const ContractionProblem problem = problem_of(pair.tile.matmul);
  expect_every_wait_is_needed(case_of(problem, schedule_of(problem, pair)));
}

/// Who asks for a tile without waiting for room overwrites what is still multiplied.
TEST(TensorCopyKernelEmulated, TheWaitForRoomIsNeeded) {
  const Staying one = {{"", {"", {1, 128, 64, 640}, f16, plain, turned}, 64, 64, 64, 16, 64, 3}, 1, 1};
  const ContractionProblem problem = problem_of(one.tile.matmul);
  KernelCase each = case_of(problem, schedule_of(problem, one));
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  const std::string_view asked = "stages.expect(at, ", kernel = "extern \"C\"";
  std::string& source = each.kernel.source;
  source.replace(source.find(asked), asked.size(), "expect_at_once(stages, at, ");
  source.insert(source.find(kernel), R"(template <class Stages, class Turn>
__device__ u32 expect_at_once(const Stages& stages, const Turn& at, int bytes) {
  const u32 full = stages.full(at.stage);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(bytes) : "memory");
  return full;
}
)");
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()));
}

/// The maps that a kernel keeps are of the addresses it had: other operands get others.
TEST(TensorCopyKernelEmulated, MapsFollowTheOperands) {
  const Staying pair = {{"", {"", {1, 128, 64, 128}, f16, plain, turned}, 64, 64, 64, 16, 64, 3}, 2, 2};
  const ContractionProblem problem = problem_of(pair.tile.matmul);
  const KernelCase each = case_of(problem, schedule_of(problem, pair));
  std::vector<Bytes> first = inputs_of(*each.graph), second = first;
  for (Bytes& bytes : second) std::ranges::rotate(bytes, bytes.begin() + 64);
  const std::vector<std::vector<Bytes>> turns = {first, {first[0], second[1]}, second, second, first};
  const std::vector<KernelOutcome> outcomes = launch_in_turn(each, turns);
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    EXPECT_THAT(outcomes[turn].findings, testing::IsEmpty()) << turn;
    EXPECT_EQ(outcomes[turn].results, launch(each, turns[turn]).results) << turn;
  }
}

TEST(TensorCopyKernelEmulated, RandomProblemsAreRight) {
  const char* const more = std::getenv("STITCH_TENSOR_COPIES");
  const int count = more == nullptr ? 12 : std::stoi(more);
  Random random(11);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  constexpr int rows[] = {64, 128}, columns[] = {48, 64, 128, 192}, depths[] = {32, 64}, stages[] = {3, 4, 5},
                halves[] = {1, 2};
  constexpr Layout layouts[] = {plain, turned};
  int legal = 0;
  for (int i = 0; i < count; ++i) {
    const auto extent = [&](int most) { return 8 * static_cast<std::int64_t>(1 + random.below(most)); };
    Staying each;
    each.tile.matmul = {"",
                        {1 + static_cast<std::int64_t>(random.below(3)), extent(40), extent(30), extent(40)},
                        among(std::array{f16, bf16}),
                        among(layouts),
                        among(layouts),
                        DType::f32,
                        among(std::array<std::string, 4>{"", "bias", "gelu", "turned"})};
    each.tile.block_rows = among(rows);
    each.tile.block_columns = among(columns);
    each.tile.block_depth = among(depths);
    each.tile.warp_rows = each.tile.block_rows == 128 ? 16 * among(halves) : 16;
    each.tile.warp_columns = each.tile.block_columns == 128 ? 64 * among(halves) : each.tile.block_columns;
    each.tile.stages = among(stages);
    each.cluster = among(halves);
    each.resident = 2 * (1 + static_cast<int>(random.below(4)));
    const ContractionProblem problem = problem_of(each.tile.matmul);
    const ContractionSchedule schedule = schedule_of(problem, each);
    SCOPED_TRACE(fmt::format("number {}: {}\n{}", i, to_string(problem), to_string(schedule)));
    if (!kernel::check_legality(problem, schedule, *find_device("h100"))) continue;
    ++legal;
    const KernelCase made = case_of(problem, schedule);
    expect_right(made, inputs_of(*made.graph));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(3 * legal, count);
}

/// Nothing of the loop stays behind: no spills, products that ptxas lets overlap, no wait for device memory.
TEST(TensorCopyKernel, ProductsOverlap) {
  for (const Layout right : {plain, turned}) {
    for (const int cluster : {1, 2}) {
      const Staying large = {
          {"", {"", {1, 4096, 4096, 4096}, bf16, plain, right, bf16}, 128, 256, 64, 16, 256, 4}, cluster, 132};
      const ContractionProblem problem = problem_of(large.tile.matmul);
      const auto compiled = compiled_for_hopper(problem, schedule_of(problem, large));
      EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
      EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
      // On an H100 a fence of device memory in each turn took three times as long as the turn itself.
      EXPECT_THAT(compiled.ptx, testing::Not(testing::HasSubstr("arrive.release.cluster.shared")));
    }
  }
}

/// In a cluster the hardware's addresses of shared memory say whose it is, in bits that a descriptor uses otherwise: on
/// an H100 the second block read other panels. The emulated device has no such bits.
TEST(TensorCopyKernel, DescriptorsHaveNoRank) {
  for (const DeviceHeader& header : device_headers()) {
    if (std::string_view(header.name) != "stitch/warpgroup.cuh") continue;
    EXPECT_THAT(std::string(header.contents), testing::HasSubstr("shared_address(tile) & 0x3ffff"));
    return;
  }
  FAIL() << "no warpgroup.cuh";
}

TEST(TensorCopyRules, SayWhatIsInTheWay) {
  const auto legality = [](const Staying& staying) {
    const ContractionProblem problem = problem_of(staying.tile.matmul);
    const Status legal = kernel::check_legality(problem, schedule_of(problem, staying), *find_device("h100"));
    return legal ? std::string() : legal.error().message;
  };
  Staying each = {{"", {"", {1, 256, 256, 1024}, f16, plain, turned}, 64, 64, 64, 16, 64}, 2, 4};
  EXPECT_EQ(legality(each), "");
  each.resident = 3;
  EXPECT_THAT(legality(each), testing::HasSubstr("tensor-copies: 3 blocks in clusters of 2"));
  each.resident = 16;
  each.cluster = 8;
  EXPECT_THAT(legality(each), testing::HasSubstr("clusters of 8 of 4 tiles"));
  each.cluster = 1;
  each.tile.split = 2;
  EXPECT_THAT(legality(each), testing::HasSubstr("split 2 times"));
  each.tile.split = 1;
  each.tile.matmul.shape.depth = 1020;
  EXPECT_THAT(legality(each), testing::HasSubstr("left: a stride of 2040 bytes"));
  each.tile.matmul.shape = {1, 256, 252, 1024};
  each.tile.matmul.right = plain;
  EXPECT_THAT(legality(each), testing::HasSubstr("right: a stride of 504 bytes"));
}

}  // namespace
}  // namespace stitch::codegen::test
