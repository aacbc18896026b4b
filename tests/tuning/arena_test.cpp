// Offsets in an arena: nothing that is in use at once overlaps, and little is wasted.
#include "tuning/programs/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace stitch::tuning {
namespace {

bool meet(const ArenaBlock& a, const ArenaBlock& b) { return a.first <= b.last && b.first <= a.last; }

void expect_sound(const std::vector<ArenaBlock>& blocks, const ArenaLayout& layout,
                  const std::vector<LentMemory>& lent = {}) {
  ASSERT_EQ(layout.offsets.size(), blocks.size());
  ASSERT_EQ(layout.lies_in.size(), blocks.size());
  for (std::size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_GE(layout.offsets[a], 0);
    if (layout.lies_in[a] == ArenaLayout::arena) {
      EXPECT_LE(layout.offsets[a] + blocks[a].bytes, layout.bytes);
    } else {
      const LentMemory& memory = lent.at(layout.lies_in[a]);
      EXPECT_LE(layout.offsets[a] + blocks[a].bytes - blocks[a].slack, memory.bytes - memory.slack) << "block " << a;
      EXPECT_LT(blocks[a].last, memory.until) << "block " << a;
    }
    for (std::size_t b = a + 1; b < blocks.size(); ++b) {
      if (!meet(blocks[a], blocks[b]) || layout.lies_in[a] != layout.lies_in[b]) continue;
      const bool apart = layout.offsets[a] + blocks[a].bytes <= layout.offsets[b] ||
                         layout.offsets[b] + blocks[b].bytes <= layout.offsets[a];
      EXPECT_TRUE(apart) << "blocks " << a << " and " << b;
    }
  }
}

/// The smallest arena that placing the blocks one by one, each as low as it goes, gives in any order. For few blocks.
std::int64_t exhaustive(const std::vector<ArenaBlock>& blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  do {
    std::vector<std::int64_t> offsets(blocks.size(), -1);
    std::int64_t bytes = 0;
    for (const int b : order) {
      std::int64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t o = 0; o < blocks.size(); ++o) {
          if (offsets[o] < 0 || !meet(blocks[b], blocks[o])) continue;
          if (at < offsets[o] + blocks[o].bytes && offsets[o] < at + blocks[b].bytes) {
            at = offsets[o] + blocks[o].bytes;
            moved = true;
          }
        }
      }
      offsets[b] = at;
      bytes = std::max(bytes, at + blocks[b].bytes);
    }
    best = std::min(best, bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(ArenaTest, AChainTakesTwoOfItsValues) {
  std::vector<ArenaBlock> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back({256, i, i + 1});
  EXPECT_EQ(most_alive(blocks), 512);
  const ArenaLayout layout = lay_out(blocks);
  expect_sound(blocks, layout);
  EXPECT_EQ(layout.bytes, 512);
}

TEST(ArenaTest, NothingTakesNothing) {
  EXPECT_EQ(lay_out({}).bytes, 0);
  EXPECT_EQ(most_alive({}), 0);
}

// Largest first fails here: 4 and 3 take the bottom, and 2 and 2 find no room side by side below 8.
TEST(ArenaTest, TriesMoreThanOneOrder) {
  const std::vector<ArenaBlock> blocks = {{4, 0, 1}, {3, 3, 5}, {2, 1, 3}, {2, 1, 4}, {1, 0, 0}, {3, 0, 0}};
  const ArenaLayout layout = lay_out(blocks);
  expect_sound(blocks, layout);
  EXPECT_EQ(layout.bytes, exhaustive(blocks));
}

TEST(ArenaTest, RandomBlocksAreApartAndNearTheOptimum) {
  std::mt19937_64 random(7);
  std::int64_t ours = 0, optimum = 0;
  for (int round = 0; round < 16; ++round) {
    std::vector<ArenaBlock> blocks;
    for (int b = 0; b < 7; ++b) {
      const int first = random() % 8;
      blocks.push_back(
          {static_cast<std::int64_t>(1 + random() % 9) * 256, first, first + static_cast<int>(random() % 4)});
    }
    const ArenaLayout layout = lay_out(blocks);
    expect_sound(blocks, layout);
    EXPECT_GE(layout.bytes, most_alive(blocks));
    const std::int64_t best = exhaustive(blocks);
    EXPECT_GE(layout.bytes, best);
    ours += layout.bytes;
    optimum += best;
  }
  EXPECT_LE(1.0 * ours / optimum, 1.01);
}

TEST(ArenaTest, BlocksLieInWhatIsLentAsLongAsItIs) {
  // The first two have gone when what is lent is needed; the third has not, and the fourth is too large.
  const std::vector<ArenaBlock> blocks = {{256, 0, 1}, {512, 0, 2}, {256, 2, 3}, {1024, 0, 0}};
  const std::vector<LentMemory> lent = {{768, 3}};
  const ArenaLayout layout = lay_out(blocks, lent);
  expect_sound(blocks, layout, lent);
  EXPECT_EQ(layout.lies_in, (std::vector{0, 0, ArenaLayout::arena, ArenaLayout::arena}));
  EXPECT_EQ(layout.bytes, 1024);
  EXPECT_EQ(most_alive(blocks, lent), 1024);
}

TEST(ArenaTest, TheBoundKnowsWhatFitsWhole) {
  const std::vector<LentMemory> lent = {{1024, 5}};
  EXPECT_EQ(most_alive(std::vector<ArenaBlock>{{768, 0, 1}, {512, 0, 1}}, lent), 512) << "one of the two";
  EXPECT_EQ(most_alive(std::vector<ArenaBlock>{{1280, 0, 1}}, lent), 1280) << "it does not fit";
  EXPECT_EQ(most_alive(std::vector<ArenaBlock>{{512, 0, 5}}, lent), 512) << "it stays too long";
}

TEST(ArenaTest, TheBoundKnowsThatSmallMemoryHoldsSmallBlocksOnly) {
  // Many results of 1,024 bytes, one of 4,096; what is alive are large blocks and two small ones.
  std::vector<LentMemory> lent(10, {1024, 5});
  lent.push_back({4096, 5});
  const std::vector<ArenaBlock> blocks = {{4096, 0, 1}, {4096, 0, 1}, {4096, 0, 1}, {512, 0, 1}, {512, 0, 1}};
  EXPECT_EQ(most_alive(blocks, lent), 8192);
  EXPECT_EQ(lay_out(blocks, lent).bytes, 8192);
}

TEST(ArenaTest, WhatNobodyUsesAtABlocksEndNeedsNoRoom) {
  const std::vector<LentMemory> lent = {{512, 1, 212}};  // 300 bytes
  EXPECT_EQ(lay_out(std::vector<ArenaBlock>{{512, 0, 0, 212}}, lent).bytes, 0);
  EXPECT_EQ(lay_out(std::vector<ArenaBlock>{{512, 0, 0, 211}}, lent).bytes, 512);
  EXPECT_EQ(lay_out(std::vector<ArenaBlock>{{256, 0, 0}, {256, 0, 0, 212}}, lent).bytes, 0) << "one behind the other";
}

TEST(ArenaTest, RandomBlocksInLentMemoryAreApart) {
  std::mt19937_64 random(5);
  std::int64_t lent_blocks = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<ArenaBlock> blocks;
    for (int b = 0; b < 30; ++b) {
      const int first = random() % 20;
      const std::int64_t slack = random() % 256;
      blocks.push_back(
          {static_cast<std::int64_t>(1 + random() % 16) * 256, first, first + static_cast<int>(random() % 8), slack});
    }
    std::vector<LentMemory> lent;
    for (std::uint64_t l = random() % 5; l > 0; --l) {
      const std::int64_t slack = random() % 256;
      lent.push_back({static_cast<std::int64_t>(1 + random() % 32) * 256, static_cast<int>(random() % 28), slack});
    }
    const ArenaLayout layout = lay_out(blocks, lent);
    expect_sound(blocks, layout, lent);
    EXPECT_GE(layout.bytes, most_alive(blocks, lent));
    EXPECT_LE(layout.bytes, lay_out(blocks).bytes) << "what is lent costs nothing";
    lent_blocks += std::ssize(blocks) - std::ranges::count(layout.lies_in, ArenaLayout::arena);
  }
  EXPECT_GT(lent_blocks, 60);
}

TEST(ArenaTest, ManyBlocksStayWithinTheGoal) {
  std::mt19937_64 random(11);
  std::vector<ArenaBlock> blocks;
  for (int b = 0; b < 300; ++b) {
    const int first = random() % 150;
    const int length = random() % 10 == 0 ? random() % 80 : random() % 6;
    blocks.push_back({static_cast<std::int64_t>(1 + random() % 64) * 256, first, std::min(149, first + length)});
  }
  const ArenaLayout layout = lay_out(blocks);
  expect_sound(blocks, layout);
  EXPECT_LE(1.0 * layout.bytes / most_alive(blocks), 1.05);
  EXPECT_EQ(layout.offsets, lay_out(blocks).offsets);
}

}  // namespace
}  // namespace stitch::tuning
