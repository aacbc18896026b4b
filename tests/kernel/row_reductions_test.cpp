// Which rows a product's kernel combines, and what stands in the way.
#include "kernel/contraction/row_reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Dims;
using graph::ReduceKind;
using testing::HasSubstr;

/// x: f16[2, 24, 64] · w: f16[64, 96], and what follows it.
struct Rows {
  Builder b;
  Value sum =
      b.dot(b.parameter(DType::f16, {2, 24, 64}), b.parameter(DType::f16, {64, 96}), {{}, {}, {2}, {0}, DType::f32});
  Dims dims = {2, 24, 96};

  Value centred(Value x) {
    return b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::sum, x, {2}), dims, {0, 1}));
  }
  Result<ContractionProblem> derive(std::vector<Value> results) { return derive_contraction(finished(b, results)); }
};

TEST(RowReductions, AreFoundWithTheirLevels) {
  Rows r;
  const Value once = r.centred(r.sum), twice = r.centred(r.b.binary(Op::multiply, once, once));
  const auto problem = r.derive({once, twice});
  ASSERT_TRUE(problem) << problem.error().message;
  ASSERT_EQ(problem->row_reductions.size(), 2U);
  EXPECT_EQ(problem->row_reductions[0].level, 0);
  EXPECT_EQ(problem->row_reductions[1].level, 1);
  EXPECT_EQ(row_levels(problem->row_reductions), 2);
  EXPECT_EQ(problem->rows, 48);
  ASSERT_EQ(problem->results.size(), 2U);
  EXPECT_EQ(problem->results[1], problem->result);
  EXPECT_THAT(to_string(*problem), HasSubstr("→ f32, f32 with rows"));
}

TEST(RowReductions, ThatNobodyNeedsAreNone) {
  Rows r;
  r.b.reduce(ReduceKind::sum, r.sum, {2});
  const auto problem = r.derive({r.b.unary(Op::tanh, r.sum)});
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_TRUE(problem->row_reductions.empty());
}

/// Rows may be split, turned and seen from the other side, but are whole.
TEST(RowReductions, AreOfWholeRows) {
  Rows split;
  const Value heads = split.b.reshape(split.sum, {48, 8, 12});
  const Value most = split.b.broadcast(split.b.reduce(ReduceKind::max, heads, {1, 2}), {48, 8, 12}, {0});
  const auto whole = split.derive({split.b.binary(Op::subtract, heads, most)});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->row_reductions.size(), 1U);

  for (const auto& [dimensions, kept] :
       {std::pair{Dims{1}, Dims{0, 2}}, {Dims{2}, Dims{0, 1}}, {Dims{0, 1, 2}, Dims{}}}) {
    Rows r;
    const Value parts = r.b.reshape(r.sum, {48, 8, 12});
    const Value part = r.b.broadcast(r.b.reduce(ReduceKind::max, parts, dimensions), {48, 8, 12}, kept);
    const auto refused = r.derive({r.b.binary(Op::subtract, parts, part)});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("combines anything but whole rows"));
  }

  Builder b;
  const Value sum =
      b.dot(b.parameter(DType::f16, {96, 64}), b.parameter(DType::f16, {64, 40}), {{}, {}, {1}, {0}, DType::f32});
  const Value most_of = b.broadcast(b.reduce(ReduceKind::max, sum, {0}), {96, 40}, {1});
  const auto turned = derive_contraction(finished(b, {b.binary(Op::subtract, sum, most_of)}));
  ASSERT_TRUE(turned) << turned.error().message;
  EXPECT_EQ(turned->rows, 40);
  EXPECT_EQ(turned->columns, 96);
}

/// What a norm keeps for its backward pass.
TEST(RowReductions, MayBeResults) {
  Rows r;
  const Value mean = r.b.reduce(ReduceKind::sum, r.sum, {2});
  const Value kept = r.b.reshape(r.b.unary(Op::exp, mean), {48});
  const auto problem = r.derive({kept, r.b.binary(Op::subtract, r.sum, r.b.broadcast(mean, r.dims, {0, 1}))});
  ASSERT_TRUE(problem) << problem.error().message;
  ASSERT_EQ(problem->results.size(), 2U);
  EXPECT_TRUE(problem->results[0].of_rows);
  EXPECT_EQ(problem->results[0].rows, (ContractionDigits{{48, 1}}));
  EXPECT_FALSE(problem->result.of_rows);
  EXPECT_EQ(results_of_element(*problem), 1);
  EXPECT_EQ(results_of_row(*problem), 1);

  Rows alone;
  const auto rows = alone.derive({alone.b.reduce(ReduceKind::sum, alone.sum, {2})});
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_TRUE(rows->result.of_rows);
  EXPECT_EQ(results_of_element(*rows), 0) << "the product is nowhere in memory";
  EXPECT_EQ(results_of_row(*rows), 1);
  Rows columns;
  const auto turned = columns.derive({columns.sum, columns.b.reduce(ReduceKind::sum, columns.sum, {0, 1})});
  ASSERT_TRUE(turned) << turned.error().message;
  EXPECT_EQ(turned->rows, 96) << "seen from the other side";
  EXPECT_EQ(turned->columns, 48);
  Rows parts;
  const auto refused = parts.derive({parts.sum, parts.b.reduce(ReduceKind::sum, parts.sum, {1})});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no whole row"));
}

TEST(RowReductions, AreOfF32) {
  Builder b;
  const Value sum =
      b.dot(b.parameter(DType::f64, {16, 64}), b.parameter(DType::f64, {64, 40}), {{}, {}, {1}, {0}, DType::f64});
  const Value most = b.broadcast(b.reduce(ReduceKind::max, sum, {1}), {16, 40}, {0});
  const auto refused = derive_contraction(finished(b, {b.binary(Op::subtract, sum, most)}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("combines rows of f64"));
}

/// A row's bits may not depend on how many rows there are, and tiles do.
TEST(RowReductions, AreNoneUnderBatchInvariance) {
  Rows r;
  Graph graph = finished(r.b, {r.centred(r.sum)});
  graph.constraints.batch_invariant = true;
  const auto refused = derive_contraction(std::move(graph));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("in tiles' order"));
}

TEST(RowReductions, StandBehindTheProductAlone) {
  Rows r;
  const Value stream = r.b.binary(Op::add, r.sum, r.b.parameter(DType::f32, r.dims));
  const auto problem = r.derive({stream, r.centred(stream)});
  ASSERT_TRUE(problem) << problem.error().message;
  const auto product = without_rows(*problem);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->parameters().size(), 3U);
  const auto alone = derive_contraction(*product);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_TRUE(alone->row_reductions.empty());
  EXPECT_TRUE(alone->has_epilogue());
}

TEST(RowReductions, AreSharedByAClusterOfBlocks) {
  Rows r;
  const auto problem = r.derive({r.centred(r.sum)});
  ASSERT_TRUE(problem) << problem.error().message;
  const DeviceSpec h100 = *find_device("h100"), a100 = *find_device("a100");
  ContractionSchedule s = *default_schedule(*problem, h100);
  EXPECT_TRUE(check_legality(*problem, s, h100));
  s.block_columns = 32;
  s.block_depth = 16;
  s.fragment_stages = 1;
  s.warp_columns = 16;
  fit_accesses(*problem, s);
  EXPECT_EQ(s.row_blocks, 3);
  EXPECT_EQ(s.group, 1);
  ASSERT_TRUE(check_legality(*problem, s, h100)) << check_legality(*problem, s, h100).error().message;
  EXPECT_THAT(check_legality(*problem, s, a100).error().message, HasSubstr("rows: rows of 3 tiles"));
  EXPECT_GT(shape_of(*problem, s).rows_at, 0);
  EXPECT_EQ(row_bytes(*problem, s), s.block_rows * (2 + 3 + 1) * 4);
  ContractionSchedule stays = s;
  stays.tensor_copies = true;
  EXPECT_EQ(row_bytes(*problem, stays), s.block_rows * (2 + 2 * 3 + 1) * 4 + 2 * 8) << "one may be a tile ahead";
  for (const auto& [field, value] : {std::pair{&ContractionSchedule::row_blocks, 2},
                                     {&ContractionSchedule::group, 2},
                                     {&ContractionSchedule::split, 2},
                                     {&ContractionSchedule::streamed, 2}}) {
    ContractionSchedule other = s;
    other.*field = value;
    EXPECT_THAT(check_legality(*problem, other, h100).error().message, HasSubstr("rows: "));
    EXPECT_NE(schedule_hash(other), schedule_hash(s));
  }
  EXPECT_THAT(to_string(s), HasSubstr(" rows 3"));
  EXPECT_TRUE(default_schedule(*problem, a100)) << "a block has the whole row";
}

}  // namespace
}  // namespace stitch::kernel::test
