#include "cli/explain/pipeline_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stitch::cli {
namespace {

using costmodel::PipelineTurn;
using testing::HasSubstr;

/// So many tiles, of which one is there `load` after it is asked for and is used for one.
PipelineTurn turn_of(int stages, double load, int blocks = 1) {
  return {.turns = 32,
          .stages = stages,
          .fragment_stages = 2,
          .blocks = blocks,
          .load_us = load,
          .use_us = 1,
          .busy_us = 1.0 * blocks + 0.25,
          .between_us = 0.25};
}

// ALCOP §4: loads are hidden where a load and its use fit into the turns of all tiles.
TEST(PipelineTimeline, LoadsAreHiddenByEnoughTiles) {
  EXPECT_EQ(timeline_of(turn_of(4, 3.75)).waits_us, 0);
  EXPECT_GT(timeline_of(turn_of(4, 4.25)).waits_us, 0);
  EXPECT_EQ(timeline_of(turn_of(2, 3.25, 2)).waits_us, 0);  // another block multiplies meanwhile
}

TEST(PipelineTimeline, OtherwiseAPlaceIsLoadedAndUsedInTurn) {
  for (const int stages : {1, 2, 3}) {
    const PipelineTurn turn = turn_of(stages, 10);
    const double period = (turn.load_us + turn.between_us + turn.use_us) / stages;
    EXPECT_NEAR(timeline_of(turn).waits_us, period - turn.busy_us, 1e-9) << stages;
  }
}

TEST(PipelineTimeline, TilesAreUsedInOrderWhenTheyAreThereAndTheirPlaceIsTheirsAlone) {
  for (const PipelineTurn& turn : {turn_of(1, 2), turn_of(3, 1), turn_of(3, 9), turn_of(4, 5, 2)}) {
    const auto tiles = timeline_of(turn, 12).tiles;
    ASSERT_EQ(tiles.size(), 12U);
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      EXPECT_DOUBLE_EQ(tiles[t].there_us - tiles[t].asked_us, turn.load_us);
      EXPECT_GE(tiles[t].begin_us, tiles[t].there_us);
      EXPECT_DOUBLE_EQ(tiles[t].end_us - tiles[t].begin_us, turn.use_us);
      const std::size_t stages = turn.stages;
      EXPECT_EQ(tiles[t].asked_us, t < stages ? 0 : tiles[t - stages].end_us);
      if (t == 0) continue;
      EXPECT_GE(tiles[t].begin_us + 1e-12, tiles[t - 1].begin_us + turn.busy_us);
    }
  }
}

TEST(PipelineTimeline, IsDrawnWithARowForEachPlace) {
  const PipelineTimeline timeline = timeline_of(turn_of(3, 2), 7);
  const std::string text = to_text(timeline);
  EXPECT_THAT(text, HasSubstr("loads are hidden"));
  EXPECT_THAT(text, HasSubstr("32 turns of a block"));
  for (const char* row : {" 0 |.", " 1 |.", " 2 |."}) EXPECT_THAT(text, HasSubstr(row));
  for (const char* tile : {"0000", "3333", "6666"}) EXPECT_THAT(text, HasSubstr(tile));
  const std::string svg = to_svg(timeline);
  EXPECT_THAT(svg, HasSubstr("place 2"));
  EXPECT_THAT(svg, HasSubstr("tile 6 is used"));
  EXPECT_EQ(to_document(timeline)["tiles"].size(), 7U);
}

TEST(PipelineTimeline, ALoopWithoutTurnsHasNoTiles) {
  PipelineTurn turn = turn_of(3, 2);
  turn.turns = 0;
  EXPECT_TRUE(timeline_of(turn).tiles.empty());
  EXPECT_EQ(to_svg(timeline_of(turn)), "");
  EXPECT_THAT(to_text(timeline_of(turn)), HasSubstr("0 turns"));
}

}  // namespace
}  // namespace stitch::cli
