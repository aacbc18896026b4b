#include "kernel/attention/visible_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/attention_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using test::attention_graph;
using test::AttentionCase;
using test::Mask;
using testing::ElementsAre;

AttentionProblem problem_of(Mask mask, std::int64_t rows, std::int64_t keys) {
  return *derive_attention(attention_graph({"", {2, 2}, rows, keys, 16, 16, DType::f16, mask}));
}

TEST(VisibleKeys, OfACausalMaskEndAtTheDiagonal) {
  EXPECT_THAT(visible_keys(problem_of(Mask::causal, 64, 64), 16, 32),
              ElementsAre(KeyTiles{0, 1}, KeyTiles{0, 1}, KeyTiles{0, 2}, KeyTiles{0, 2}));
}

TEST(VisibleKeys, OfAWindowBeginLater) {
  // A row sees its own key and the eight before.
  EXPECT_THAT(visible_keys(problem_of(Mask::window, 64, 64), 16, 16),
              ElementsAre(KeyTiles{0, 1}, KeyTiles{0, 2}, KeyTiles{1, 3}, KeyTiles{2, 4}));
}

TEST(VisibleKeys, OfAMaskFromMemoryOrNoneAreAll) {
  for (const Mask mask : {Mask::none, Mask::keys, Mask::bias, Mask::empty_rows})
    EXPECT_THAT(visible_keys(problem_of(mask, 32, 48), 32, 16), ElementsAre(KeyTiles{0, 3}));
}

/// Rows beyond the window of all keys see none, whose weights the mask's constant decides: they walk all.
TEST(VisibleKeys, RowsThatSeeNothingWalkAll) {
  const auto tiles = visible_keys(problem_of(Mask::window, 64, 16), 16, 16);
  EXPECT_EQ(tiles.back(), (KeyTiles{0, 1}));
}

/// Tiles in which no mask of positions hides a key: whole ones, as many as one formula has for all tiles of rows.
TEST(VisibleKeys, SeenTilesHaveNothingHidden) {
  const auto seen = [](Mask mask, int rows, int keys) {
    AttentionSchedule s;
    s.block_rows = rows;
    s.block_keys = keys;
    std::vector<KeyTiles> tiles;
    const auto walk = seen_keys(problem_of(mask, 96, 96), s);
    for (int t = 0; walk && t < 96 / rows; ++t) tiles.push_back(walk->of(t, s, 96 / keys));
    return tiles;
  };
  EXPECT_THAT(seen(Mask::causal, 32, 32), ElementsAre(KeyTiles{0, 0}, KeyTiles{0, 1}, KeyTiles{0, 2}));
  EXPECT_THAT(seen(Mask::causal, 32, 16), ElementsAre(KeyTiles{0, 0}, KeyTiles{0, 2}, KeyTiles{0, 4}));
  EXPECT_THAT(seen(Mask::causal, 16, 32), ElementsAre(KeyTiles{0, 0}, KeyTiles{0, 0}, KeyTiles{0, 1}, KeyTiles{0, 1},
                                                      KeyTiles{0, 2}, KeyTiles{0, 2}));
  EXPECT_THAT(seen(Mask::none, 48, 32), ElementsAre(KeyTiles{0, 3}, KeyTiles{0, 3}));
  EXPECT_THAT(seen(Mask::bias, 48, 32), ElementsAre(KeyTiles{0, 3}, KeyTiles{0, 3})) << "nothing is hidden";
  EXPECT_THAT(seen(Mask::window, 32, 32), ElementsAre()) << "narrower than a tile";
  EXPECT_THAT(seen(Mask::keys, 32, 32), ElementsAre()) << "what a mask from memory hides is not known";
}

/// In rows of a window of nine keys tiles of one key of one row are seen or not.
TEST(VisibleKeys, SeenTilesOfAWindowBeginLater) {
  const AttentionProblem problem = problem_of(Mask::window, 32, 32);
  AttentionSchedule s;
  s.block_rows = s.block_keys = 1;
  s.skips = false;
  const auto walk = seen_keys(problem, s);
  ASSERT_TRUE(walk);
  EXPECT_EQ(walk->of(20, s, 32), (KeyTiles{12, 21}));
}

TEST(VisibleKeys, FactorsAreThoseOfVisibleLogits) {
  for (const Mask mask : {Mask::none, Mask::causal, Mask::window, Mask::empty_rows})
    EXPECT_EQ(logit_factor(problem_of(mask, 32, 32)), 0.125) << static_cast<int>(mask);
  EXPECT_FALSE(logit_factor(problem_of(Mask::bias, 32, 32))) << "a sum";
  EXPECT_FALSE(logit_factor(problem_of(Mask::keys, 32, 32))) << "a constant of −10⁴ hides nothing by itself";
  for (const double hidden : {-1e9, -1e30}) {
    AttentionCase finite{"", {2, 2}, 32, 32, 16, 16, DType::f16, Mask::causal};
    finite.hidden = hidden;
    EXPECT_FALSE(logit_factor(*derive_attention(attention_graph(finite)))) << "rounded as a product: " << hidden;
  }
  AttentionCase narrow{"", {2, 2}, 32, 32, 16, 16, DType::bf16};
  narrow.narrow_logits = true;
  EXPECT_FALSE(logit_factor(*derive_attention(attention_graph(narrow)))) << "it is rounded on the way";
}

/// The walk that a kernel computes is that of the analysis, for every tile.
TEST(VisibleKeys, AWalkIsWhatWasFound) {
  for (const Mask mask : {Mask::causal, Mask::window}) {
    for (const int rows : {16, 32, 64}) {
      for (const int keys : {16, 32, 64}) {
        const AttentionProblem problem = problem_of(mask, 200, 200);
        AttentionSchedule s;
        s.block_rows = rows;
        s.block_keys = keys;
        const KeyWalk walk = key_walk(problem, s);
        ASSERT_TRUE(walk.above);
        EXPECT_EQ(walk.below.has_value(), mask == Mask::window);
        const auto needed = visible_keys(problem, rows, keys);
        for (std::size_t t = 0; t < needed.size(); ++t) {
          const KeyTiles walked = walk.of(t, s, (200 + keys - 1) / keys);
          EXPECT_LE(walked.first, needed[t].first) << rows << " " << keys << " tile " << t;
          EXPECT_GE(walked.last, needed[t].last) << rows << " " << keys << " tile " << t;
          const bool whole = (static_cast<int>(t) + 1) * rows <= 200;
          if (whole) {
            EXPECT_EQ(walked, needed[t]) << rows << " " << keys << " tile " << t;
          }
        }
        s.skips = false;
        EXPECT_FALSE(key_walk(problem, s).above);
      }
    }
  }
}

/// Rows of several heads that share keys are joined: the mask begins anew with each.
TEST(VisibleKeys, AMaskRepeatsWithJoinedRows) {
  graph::Builder b;
  const graph::Dims dims = {2, 4, 32, 32};  // batch, heads, rows, keys; heads and rows are joined
  const graph::Value queries = b.parameter(DType::f16, {2, 4, 32, 16}), keys = b.parameter(DType::f16, {2, 32, 16});
  graph::Value logits = b.dot(queries, keys, {{0}, {0}, {3}, {2}, DType::f32});
  const graph::Value seen = b.compare(graph::Comparison::ge, b.iota(DType::s32, dims, 2), b.iota(DType::s32, dims, 3));
  logits = b.select(seen, logits, b.filled(DType::f32, dims, -1e9));
  const graph::Value greatest = b.broadcast(b.reduce(graph::ReduceKind::max, logits, {3}), dims, {0, 1, 2});
  const graph::Value e = b.unary(graph::Op::exp, b.binary(graph::Op::subtract, logits, greatest));
  const graph::Value sum = b.broadcast(b.reduce(graph::ReduceKind::sum, e, {3}), dims, {0, 1, 2});
  const graph::Value weights = b.convert(b.binary(graph::Op::divide, e, sum), DType::f16);
  const graph::Value result = b.dot(weights, b.parameter(DType::f16, {2, 32, 16}), {{0}, {0}, {3}, {1}, DType::f16});
  const auto problem = derive_attention(*b.finish({result}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->rows(), 128);
  AttentionSchedule s;
  s.block_rows = s.block_keys = 16;
  const KeyWalk walk = key_walk(*problem, s);
  EXPECT_EQ(walk.period, 2);
  ASSERT_TRUE(walk.above);
  EXPECT_EQ(walk.of(4, s, 2), (KeyTiles{0, 1}));
  EXPECT_EQ(walk.of(5, s, 2), (KeyTiles{0, 2}));
}

}  // namespace
}  // namespace stitch::kernel
