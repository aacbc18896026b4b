#include "profiler/verify/block_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

constexpr std::int64_t tight = 2000;  // far less work than the cases below have

BlockSample sample(const KernelCase& each, std::int64_t budget = tight, std::uint64_t seed = 1) {
  return sample_blocks(*each.graph, each.program, each.kernel, budget, seed);
}

/// Indices of the operand's first dimension that take part.
std::int64_t covered(const graph::ReduceRestriction& restriction) {
  std::int64_t count = 0;
  for (const graph::Box& box : restriction.boxes) count += box.size[0];
  return count;
}

TEST(BlockSample, SmallWorkRunsWhole) {
  const KernelCase each = make_case(scaled_sum({100000}));
  EXPECT_TRUE(sample(each, kernel_work(each.program)).whole());
  EXPECT_FALSE(sample(each, kernel_work(each.program) / 4).whole());
}

TEST(BlockSample, FirstAndLastBlockAreAlwaysIn) {
  const KernelCase each = make_case(scaled_sum({100003}), one_phase);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const BlockSample chosen = sample(each, kernel_work(each.program) / 8, seed);
    ASSERT_FALSE(chosen.whole());
    EXPECT_EQ(chosen.blocks.front(), 0U);
    EXPECT_EQ(chosen.blocks.back(), static_cast<std::uint64_t>(each.kernel.blocks) - 1);
    EXPECT_TRUE(std::is_sorted(chosen.blocks.begin(), chosen.blocks.end()));
    EXPECT_LT(chosen.blocks.size() * 4, static_cast<std::size_t>(each.kernel.blocks));
    EXPECT_TRUE(chosen.restrictions.empty() && chosen.presets.empty());
  }
}

TEST(BlockSample, SumsOfAnyBlocksRunWhole) {
  const auto adds = [](const kernel::KernelProgram& program) {
    bool found = false;
    for (const kernel::PhaseProgram& phase : program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) {
        for (const kernel::Anchor& anchor : group.structure.anchors)
          found |= anchor.kind == kernel::Anchor::Kind::atomic;
      }
    }
    return found;
  };
  const KernelCase each = make_case(scattered(512, 16, 100), adds);
  EXPECT_TRUE(sample(each).whole());
}

TEST(BlockSample, SeedsDrawOtherBlocks) {
  const KernelCase each = make_case(scaled_sum({1 << 20}), one_phase);
  const std::int64_t budget = kernel_work(each.program) / 8;
  EXPECT_EQ(sample(each, budget, 1).blocks, sample(each, budget, 1).blocks);
  EXPECT_NE(sample(each, budget, 1).blocks, sample(each, budget, 2).blocks);
}

TEST(BlockSample, ClustersAreComplete) {
  const KernelCase each = make_case(softmax(64, 8192), clustered);
  const BlockSample chosen = sample(each);
  ASSERT_FALSE(chosen.whole());
  const std::uint64_t cluster = each.kernel.cluster;
  ASSERT_EQ(chosen.blocks.size() % cluster, 0U);
  for (std::size_t i = 0; i < chosen.blocks.size(); ++i) EXPECT_EQ(chosen.blocks[i] % cluster, i % cluster);
}

// The two column sums of a norm's backward pass are restricted to the rows of the blocks that run, and to nothing else.
TEST(BlockSample, PartialSumsAreRestrictedToTheRowsThatRun) {
  for (const kernel::Sync sync : {kernel::Sync::last_block, kernel::Sync::barrier}) {
    const KernelCase each = make_case(norm_backward(4096, 256), phases(2, sync));
    const BlockSample chosen = sample(each);
    ASSERT_FALSE(chosen.whole());
    ASSERT_EQ(chosen.restrictions.size(), 2U);
    for (const graph::ReduceRestriction& restriction : chosen.restrictions) {
      EXPECT_EQ(restriction.boxes.front().start, (Dims{0, 0}));
      EXPECT_EQ(restriction.boxes.back().end(0), 4096);
      EXPECT_LT(covered(restriction), 2048);
      EXPECT_EQ(restriction.boxes, chosen.restrictions[0].boxes);
    }
  }
}

// Of blocks that walk together each has rows all over the matrix.
TEST(BlockSample, PartsOfBlocksThatWalkTogetherAreSpread) {
  const auto together = [](const kernel::KernelProgram& p) {
    const kernel::AxisMapping& rows = p.phases[0].groups[0].mapping.axes[0];
    return p.phases.size() == 2 && rows.interleaved && rows.at(kernel::Level::grid) >= 32;
  };
  const KernelCase each = make_case(channel_reduction(graph::ReduceKind::sum, {30'000, 64, 1}), together);
  const BlockSample chosen = sample(each, kernel_work(each.program) / 8);
  ASSERT_FALSE(chosen.whole());
  ASSERT_EQ(chosen.restrictions.size(), 1U);
  const graph::ReduceRestriction& restriction = chosen.restrictions[0];
  const kernel::AxisMapping& rows = each.program.phases[0].groups[0].mapping.axes[0];
  const std::int64_t turn = rows.step(kernel::Level::loop), turns = rows.at(kernel::Level::loop);
  ASSERT_GT(turns, 2);
  std::vector<std::int64_t> in_turn(static_cast<std::size_t>(turns));
  for (const graph::Box& box : restriction.boxes) {
    EXPECT_LE(box.end(0), 30'000);
    for (std::int64_t row = box.start[0]; row < box.end(0); ++row) ++in_turn[row / turn];
  }
  EXPECT_GT(in_turn[0], 0);
  EXPECT_LT(in_turn[0], turn);
  for (std::size_t i = 1; i + 1 < in_turn.size(); ++i) EXPECT_EQ(in_turn[i], in_turn[0]) << i;
  EXPECT_LT(in_turn.back(), in_turn[0]) << "the matrix ends in the last turn";
}

TEST(BlockSample, CountersStartAtTheBlocksThatNeverArrive) {
  const KernelCase each = make_case(norm_backward(4096, 256), phases(2, kernel::Sync::last_block));
  const BlockSample chosen = sample(each);
  ASSERT_FALSE(chosen.whole());
  const auto absent = static_cast<std::uint64_t>(each.kernel.blocks) - chosen.blocks.size();
  const int counters = static_cast<int>(each.kernel.scratch.size()) - 1;
  ASSERT_TRUE(each.kernel.scratch.back().zeroed);
  EXPECT_EQ(chosen.presets.back(), (BlockSample::Preset{counters, 0, 4, 1, absent}));
}

// What is preset and what the chosen blocks write are together all sets of partials, without overlap.
TEST(BlockSample, PresetsAreThePartialsThatNobodyComputes) {
  const KernelCase each =
      make_case(channel_reduction(graph::ReduceKind::max, {512, 8, 64}), phases(2, kernel::Sync::last_block));
  const BlockSample chosen = sample(each);
  ASSERT_FALSE(chosen.whole());
  ASSERT_EQ(chosen.restrictions.size(), 1U);
  std::int64_t preset = 0;
  for (const BlockSample::Preset& one : chosen.presets) {
    if (one.scratch != 0) continue;
    preset += one.count;
    EXPECT_EQ(one.bits, 0xFF800000U);  // -inf
  }
  const std::int64_t all = each.program.scratch[0].elements * each.program.partial_count[0];
  EXPECT_GT(preset, 0);
  EXPECT_LT(preset, all);
  EXPECT_EQ(preset % each.program.scratch[0].elements, 0);
}

// Whoever reads what another block stored needs that block.
TEST(BlockSample, ValuesHandedOverRunWhole) {
  const KernelCase each = make_case(scanned(300, 100));
  ASSERT_EQ(each.program.phases.size(), 2U);
  EXPECT_TRUE(sample(each).whole());
}

// Groups that share code stand together in the kernel's table, wherever the program has them: the table tells.
TEST(FirstTiles, FollowTheKernelsTable) {
  KernelCase each = make_case(packed(5));
  const auto& groups = each.program.phases[0].groups;
  ASSERT_GT(groups.size(), 3U);
  const auto order = [&] {
    const std::vector<std::int64_t> first = first_tiles(each.program, each.kernel, 0);
    EXPECT_EQ(first.size(), groups.size());
    std::vector<std::size_t> by_first(first.size());
    std::iota(by_first.begin(), by_first.end(), 0);
    std::sort(by_first.begin(), by_first.end(), [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
    std::int64_t next = 0;
    for (const std::size_t g : by_first) {
      EXPECT_EQ(first[g], next) << "group " << g;
      next += groups[g].tiles;
    }
    EXPECT_EQ(next, each.program.phases[0].tiles);
    return by_first;
  };
  std::vector<std::size_t> forward = order();
  std::reverse(each.kernel.arguments.begin(), each.kernel.arguments.end());
  std::reverse(forward.begin(), forward.end());
  EXPECT_EQ(order(), forward);
}

TEST(FirstTiles, AreUnknownWhereTheTableDoesNotTell) {
  KernelCase each = make_case(packed(5));
  each.kernel.arguments.pop_back();
  std::erase_if(each.kernel.arguments,
                [](const codegen::Argument& argument) { return argument.buffer.kind == kernel::Buffer::Kind::output; });
  EXPECT_TRUE(first_tiles(each.program, each.kernel, 0).empty());
}

}  // namespace
}  // namespace stitch::profiler::test
