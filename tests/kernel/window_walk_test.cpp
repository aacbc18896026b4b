// Boxes of rows that tensor copies bring under windows, and what the engine is told of them.
#include "kernel/contraction/window_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/tensor_box.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::ConvolutionAttributes;
using graph::Dims;
using graph::Op;
using testing::ElementsAre;
using testing::HasSubstr;

ContractionProblem problem_of(const Dims& input, const Dims& kernel, const ConvolutionAttributes& a) {
  Builder b;
  const Value x = b.parameter(DType::f16, input), w = b.parameter(DType::f16, kernel);
  auto problem = derive_contraction(finished(b, {b.add(Op::convolution, {x, w}, a)}));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

ConvolutionAttributes padded(std::int64_t step = 1) {
  ConvolutionAttributes a = features_last();
  a.low = a.high = {1, 1};
  a.strides = {step, step};
  return a;
}

std::vector<int> tile_of(const WindowWalk& walk) {
  std::vector<int> tile;
  for (const WindowWalk::Rows& rows : walk.rows) tile.push_back(rows.tile);
  return tile;
}

std::vector<int> tile_of(std::int64_t images, std::int64_t extent, int block_rows) {
  return tile_of(*window_walk(problem_of({images, extent, extent, 64}, {3, 3, 64, 64}, padded()), block_rows));
}

ContractionSchedule by_tensor_copies(int block_rows) {
  ContractionSchedule s;
  s.instruction = ContractionInstruction::wgmma_m64k16;
  s.block_rows = block_rows;
  s.block_columns = s.warp_columns = 64;
  s.block_depth = 64;
  s.warp_rows = 16;
  s.tensor_copies = true;
  s.resident = 1;
  return s;
}

TEST(WindowWalks, AreTheExampleOfTheHeader) {
  const auto walk = window_walk(problem_of({64, 56, 56, 64}, {3, 3, 64, 64}, padded()), 128);
  ASSERT_TRUE(walk) << walk.error().message;
  EXPECT_THAT(tile_of(*walk), ElementsAre(8, 8, 2));
  EXPECT_EQ(walk->row_tiles(), 32 * 7 * 7);
  EXPECT_EQ(walk->tile_rows(), 128);
  EXPECT_EQ(walk->turns(64), 9);
  ASSERT_EQ(walk->depth.size(), 3u);
  EXPECT_EQ(walk->depth[0].extent, 64);
  EXPECT_EQ(walk->depth[0].right, 64);
  EXPECT_EQ(walk->depth[1].window, walk->rows[0].window);
  EXPECT_EQ(walk->depth[2].window, walk->rows[1].window);
}

TEST(WindowWalks, HaveTheFewestTiles) {
  EXPECT_THAT(tile_of(64, 28, 128), ElementsAre(4, 4, 8)) << "none is idle";
  EXPECT_THAT(tile_of(32, 14, 128), ElementsAre(2, 2, 32));
  EXPECT_THAT(tile_of(1, 14, 128), ElementsAre(14, 9)) << "two tiles, as rows one after the other take";
  EXPECT_THAT(tile_of(32, 7, 256), ElementsAre(7, 7, 5)) << "seven tiles of 245 rows, as many as of 256";
  EXPECT_THAT(tile_of(1, 1, 64), ElementsAre()) << "one row";
}

TEST(WindowWalks, CountTheRowsThatThereAre) {
  const auto walk = window_walk(problem_of({3, 7, 11, 64}, {3, 3, 64, 64}, padded()), 64);
  std::int64_t rows = 0;
  for (std::int64_t tile = 0; tile < walk->row_tiles(); ++tile) {
    const std::int64_t here = walk->rows_of(tile);
    EXPECT_GT(here, 0);
    EXPECT_LE(here, walk->tile_rows());
    rows += here;
  }
  EXPECT_EQ(rows, 3 * 7 * 11);
  EXPECT_EQ(walk->rows_of(walk->row_tiles()), 0) << "the second one of a cluster";
}

TEST(WindowWalks, ReplaceRowsThatFollowOneAnother) {
  const ContractionProblem problem = problem_of({64, 56, 56, 72}, {3, 3, 72, 64}, padded());
  ContractionSchedule s = by_tensor_copies(128);
  EXPECT_TRUE(walks_windows(problem, s));
  EXPECT_EQ(shape_of(problem, s).row_tiles, 32 * 7 * 7);
  EXPECT_EQ(shape_of(problem, s).depth_tiles, 18) << "eight features are a turn of their own";
  s.tensor_copies = false;
  EXPECT_FALSE(walks_windows(problem, s));
  EXPECT_EQ(shape_of(problem, s).depth_tiles, 11);
  s.tensor_copies = true;
  EXPECT_FALSE(walks_windows(problem_of({64, 56, 56, 64}, {1, 1, 64, 64}, features_last()), s)) << "a product";
}

TEST(WindowBoxes, AreOfTheTensorsDimensions) {
  const auto boxes = left_boxes(problem_of({64, 56, 56, 64}, {3, 3, 64, 64}, padded()), by_tensor_copies(128));
  ASSERT_TRUE(boxes) << boxes.error().message;
  const TensorBox& box = boxes->front();
  EXPECT_EQ(box.offset, 0) << "what is padded lies before the tensor, not in it";
  EXPECT_EQ(box.dimensions, (ContractionDigits{{64, 1}, {56, 64}, {56, 3584}, {64, 200704}}));
  EXPECT_THAT(box.extents, ElementsAre(64, 8, 8, 2));
  EXPECT_THAT(box.steps, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(box.places[1].base, -1);
  EXPECT_EQ(box.places[3].base, 0);
}

TEST(WindowBoxes, StepOverWhatIsStrided) {
  const auto boxes = left_boxes(problem_of({64, 56, 56, 64}, {3, 3, 64, 64}, padded(2)), by_tensor_copies(128));
  ASSERT_TRUE(boxes) << boxes.error().message;
  const TensorBox& box = boxes->front();
  EXPECT_EQ(box.dimensions, (ContractionDigits{{64, 1}, {56, 64}, {56, 3584}, {64, 200704}}));
  EXPECT_THAT(box.extents, ElementsAre(64, 8, 8, 8)) << "positions 4 × 4, in steps of two";
  EXPECT_THAT(box.steps, ElementsAre(1, 2, 2, 1));
}

TEST(WindowBoxes, OfFiltersTakePositionsTogether) {
  const auto of = [](bool reversed) {
    ConvolutionAttributes a = padded();
    a.window_reversal = {reversed, reversed};
    return right_boxes(problem_of({64, 56, 56, 64}, {3, 3, 64, 128}, a), by_tensor_copies(128))->front();
  };
  const TensorBox straight = of(false), reversed = of(true);
  EXPECT_EQ(straight.dimensions, (ContractionDigits{{128, 1}, {64, 128}, {9, 8192}}));
  EXPECT_EQ(reversed.dimensions, straight.dimensions);
  EXPECT_EQ(reversed.offset, 0);
  EXPECT_EQ(reversed.places[2].base, 8);
  EXPECT_EQ(reversed.places[2].turns[0].second, -1);
  EXPECT_EQ(straight.places[2].turns[1].second, 3);
}

TEST(WindowWalks, AreRefusedWithWhatIsInTheWay) {
  const auto why_not = [](const ContractionProblem& problem) {
    const auto walk = window_walk(problem, 128);
    return walk ? "" : walk.error().message;
  };
  ConvolutionAttributes a = padded();
  a.input_dilation = {2, 2};
  EXPECT_THAT(why_not(problem_of({2, 8, 8, 64}, {3, 3, 64, 64}, a)), HasSubstr("holes"));
  EXPECT_THAT(why_not(problem_of({2, 8, 8, 0}, {3, 3, 0, 64}, padded())), HasSubstr("nothing"));
}

}  // namespace
}  // namespace stitch::kernel::test
