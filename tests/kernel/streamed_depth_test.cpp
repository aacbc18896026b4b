// How blocks share the turns of tiles (stream-K).
#include "kernel/contraction/streamed_depth.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace stitch::kernel::test {
namespace {

/// Blocks by turn, as they follow from where each begins.
std::vector<std::int64_t> owners(const StreamedDepth& depth) {
  std::vector<std::int64_t> of_turn;
  for (std::int64_t block = 0; block < depth.blocks; ++block)
    of_turn.insert(of_turn.end(), depth.begin(block + 1) - depth.begin(block), block);
  return of_turn;
}

TEST(StreamedDepth, IsSharedEvenlyAndWhole) {
  for (std::int64_t all = 1; all < 40; ++all) {
    for (const std::int64_t turns : {1, 2, 7, 8}) {
      for (std::int64_t blocks = 1; blocks <= 12 && blocks <= all * turns; ++blocks) {
        const StreamedDepth depth = StreamedDepth::of(all, turns, blocks);
        SCOPED_TRACE(fmt::format("{} tiles of {} turns, {} blocks", all, turns, blocks));
        EXPECT_EQ(depth.tiles + depth.whole, all);
        EXPECT_EQ(depth.whole % blocks, 0) << "whole rounds";
        EXPECT_LT(depth.tiles, 2 * blocks);
        EXPECT_TRUE(depth.whole == 0 || depth.tiles >= blocks) << "at least a tile's turns each";
        const std::vector<std::int64_t> of_turn = owners(depth);
        ASSERT_EQ(std::ssize(of_turn), depth.tiles * turns);
        std::map<std::int64_t, std::int64_t> parts, places;
        std::int64_t split = 0, of_split = 0, most = 1;
        for (std::int64_t turn = 0; turn < std::ssize(of_turn); ++turn) {
          EXPECT_EQ(depth.block_of(turn), of_turn[turn]) << turn;
          const std::int64_t place = turn / turns + of_turn[turn];
          ASSERT_LT(place, depth.places());
          const auto known = places.emplace(place, turn / turns);
          EXPECT_EQ(known.first->second, turn / turns) << "two tiles' parts in one place";
          EXPECT_EQ(place,
                    turn / turns + depth.first_block(turn / turns) + (of_turn[turn] - depth.first_block(turn / turns)));
        }
        for (std::int64_t tile = 0; tile < depth.tiles; ++tile) {
          const std::int64_t count = depth.last_block(tile) - depth.first_block(tile) + 1;
          most = std::max(most, count);
          split += count > 1 ? 1 : 0;
          of_split += count > 1 ? count : 0;
        }
        const StreamedParts found = streamed_parts(depth);
        EXPECT_EQ(found.tiles, split);
        EXPECT_EQ(found.parts, of_split);
        EXPECT_EQ(found.most, most);
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t count = depth.begin(block + 1) - depth.begin(block);
          EXPECT_LE(count, depth.most_turns());
          EXPECT_GE(count, depth.most_turns() - 1);
          EXPECT_GE(count, 1);
        }
      }
    }
  }
}

TEST(StreamedDepth, OfManyTilesAllButOneWholeRoundHaveBlocksOfTheirOwn) {
  EXPECT_EQ(StreamedDepth::of(119, 128, 108), (StreamedDepth{108, 119, 128, 0}));
  EXPECT_EQ(StreamedDepth::of(350, 128, 108), (StreamedDepth{108, 134, 128, 216}));
  EXPECT_EQ(StreamedDepth::of(5, 64, 108), (StreamedDepth{108, 5, 64, 0}));
  EXPECT_EQ(streamed_parts(StreamedDepth::of(5, 64, 20)), (StreamedParts{5, 20, 4}));
  EXPECT_EQ(streamed_parts(StreamedDepth::of(20, 64, 20)).tiles, 0) << "a round that is whole";
}

}  // namespace
}  // namespace stitch::kernel::test
