#include "profiler/verify/element_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace stitch::profiler {
namespace {

using graph::Box;
using graph::Dims;
using graph::DType;
using testing::ElementsAre;

std::vector<std::string> texts(const std::vector<Box>& boxes) {
  std::vector<std::string> out;
  for (const Box& box : boxes) out.push_back(graph::to_string(box));
  return out;
}

TEST(ElementRanges, ARangeIsAtMostTwoBoxesPerDimension) {
  EXPECT_THAT(texts(boxes_of_range({4, 8}, 0, 32)), ElementsAre("[0:4,0:8]"));
  EXPECT_THAT(texts(boxes_of_range({4, 8}, 3, 5)), ElementsAre("[0:1,3:5]"));
  EXPECT_THAT(texts(boxes_of_range({4, 8}, 3, 29)), ElementsAre("[0:1,3:8]", "[1:3,0:8]", "[3:4,0:5]"));
  EXPECT_THAT(texts(boxes_of_range({2, 3, 4}, 5, 19)),
              ElementsAre("[0:1,1:2,1:4]", "[0:1,2:3,0:4]", "[1:2,0:1,0:4]", "[1:2,1:2,0:3]"));
  EXPECT_THAT(texts(boxes_of_range({}, 0, 1)), ElementsAre("[]"));
  EXPECT_TRUE(boxes_of_range({4, 8}, 7, 7).empty());
}

TEST(ElementRanges, ColumnsBecomeOneBox) {
  std::vector<WrittenRange> ranges;
  for (std::int64_t row = 0; row < 100; ++row) ranges.push_back({(row * 64 + 16) * 4, 8 * 4});
  EXPECT_THAT(texts(boxes_of({DType::f32, {100, 64}}, ranges)), ElementsAre("[0:100,16:24]"));
}

TEST(ElementRanges, SeveralColumnsPerRowBecomeOneBoxEach) {
  std::vector<WrittenRange> ranges;
  for (std::int64_t row = 0; row < 50; ++row) {
    for (const std::int64_t column : {0, 20, 90}) ranges.push_back({(row * 100 + column) * 2, 10 * 2});
  }
  // The last column touches the next row's first: runs are merged as the device saw them.
  EXPECT_LE(boxes_of({DType::bf16, {50, 100}}, ranges).size(), 3U);
}

TEST(ElementRanges, APartlyWrittenElementCountsAsWritten) {
  EXPECT_THAT(texts(boxes_of({DType::f32, {8}}, {{6, 4}})), ElementsAre("[1:3]"));
}

// Whatever is written is covered exactly once and nothing else is.
TEST(ElementRanges, BoxesAreExactlyWhatWasWritten) {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    Dims dims;
    for (std::uint64_t d = 0, rank = 1 + random.below(4); d < rank; ++d)
      dims.push_back(static_cast<std::int64_t>(1 + random.below(7)));
    const std::int64_t count = graph::element_count(dims);
    std::vector<WrittenRange> ranges;
    std::vector<int> written(static_cast<std::size_t>(count), 0);
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t length = random.below(9);
      const std::int64_t end = std::min(count, at + length);
      if (random.below(2) == 0 && end > at) {
        ranges.push_back({at * 4, (end - at) * 4});
        for (std::int64_t i = at; i < end; ++i) written[i] = 1;
      }
      at = end + 1;
    }
    std::vector<int> covered(written.size(), 0);
    const Dims strides = graph::row_major_strides(dims);
    for (const Box& box : boxes_of({DType::f32, dims}, ranges)) {
      Dims index = box.start;
      do {
        std::int64_t flat = 0;
        for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
        ++covered[flat];
      } while (graph::next_index(box, index));
    }
    ASSERT_EQ(covered, written) << "round " << round << " dims " << graph::to_string(dims);
  }
}

TEST(DenseRuns, CoverABoxInMemoryOrder) {
  const auto runs = [](const Box& box, const Dims& dims) {
    const DenseRuns dense = dense_runs(box, dims);
    return graph::to_string(dense.starts) + " x " + std::to_string(dense.length);
  };
  EXPECT_EQ(runs({{0, 0}, {4, 8}}, {4, 8}), "[0:1,0:1] x 32");
  EXPECT_EQ(runs({{1, 2}, {3, 5}}, {4, 8}), "[1:4,2:3] x 5");
  EXPECT_EQ(runs({{1, 2, 0}, {3, 2, 8}}, {4, 8, 8}), "[1:4,2:3,0:1] x 16");
  EXPECT_EQ(runs({{}, {}}, {}), "[] x 1");
}

}  // namespace
}  // namespace stitch::profiler
