#include "kernel/attention/product_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/attention_graph.h"
#include "tests/kernel/chain_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using graph::Op;
using graph::Value;
using test::chain_graph;
using test::ChainCase;
using Kind = ChainCase::Kind;
using testing::HasSubstr;

TEST(ProductChain, HasWhatItsGraphSays) {
  const auto chain = derive_chain(chain_graph({"", Kind::queries, {2, 4}, 40, 24, 8, 12, DType::bf16, true}));
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->batch(), 8);
  EXPECT_EQ(chain->rows(), 40);
  EXPECT_EQ(chain->columns(), 24);
  ASSERT_EQ(chain->scores.size(), 2U);
  EXPECT_EQ(chain->scores[0].contracted, 8);
  EXPECT_EQ(chain->scores[1].contracted, 12);
  ASSERT_EQ(chain->products.size(), 1U);
  EXPECT_EQ(chain->products[0].columns, 8);
  EXPECT_EQ(chain->shared_operand(0), 0) << "keys";
  EXPECT_TRUE(chain->mask.has_value());
  EXPECT_EQ(to_string(*chain), "bf16 8×[40,8]·[8,24] & [40,12]·[12,24], then ·[24,8] → bf16");
  EXPECT_EQ(chain->multiplications(), 8.0 * 40 * 24 * (8 + 12 + 8));
}

/// Seen from the keys, queries are walked.
TEST(ProductChain, GradientsOfKeysAndValuesHaveKeysForRows) {
  const auto chain = derive_chain(chain_graph({"", Kind::keys_and_values, {2}, 40, 24, 8, 12, DType::f32, true}));
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->rows(), 24);
  EXPECT_EQ(chain->columns(), 40);
  ASSERT_EQ(chain->products.size(), 2U);
  EXPECT_EQ(chain->products[0].columns, 8);
  EXPECT_EQ(chain->products[1].columns, 12);
  EXPECT_EQ(chain->shared_operand(0), 0) << "queries";
  EXPECT_EQ(chain->shared_operand(1), 1) << "gradients";
}

TEST(ProductChain, TwoProductsOneBehindTheOther) {
  const auto chain = derive_chain(chain_graph({"", Kind::gelu, {1}, 70, 200, 64, 48}));
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->scores.size(), 1U);
  EXPECT_EQ(chain->shared_operand(0), -1);
  EXPECT_FALSE(chain->mask.has_value());
}

TEST(ProductChain, IsNamedByWhatItsCodeDependsOn) {
  const ChainCase base{"", Kind::queries, {2}, 40, 24, 8, 12};
  const auto hash = [](const ChainCase& each) { return chain_hash(*derive_chain(chain_graph(each))); };
  ChainCase causal = base, narrow = base, inside{"", Kind::queries, {2, 2}, 40, 24, 8, 12}, plain = inside;
  causal.causal = true;
  narrow.dtype = DType::bf16;
  inside.heads_inside = true;
  EXPECT_EQ(hash(base), hash(base));
  EXPECT_NE(hash(base), hash(causal));
  EXPECT_NE(hash(base), hash(narrow));
  EXPECT_NE(hash(inside), hash(plain));
}

/// What is said of the results that `make` makes.
template <class Make>
std::string refusal(const Make& make) {
  graph::Builder b;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) { return b.parameter(DType::f16, {rows, columns}); };
  const auto product = [&](Value left, Value right) { return b.dot(left, right, {{}, {}, {1}, {0}, DType::f16}); };
  const std::vector<Value> results = make(b, matrix, product, product(matrix(8, 16), matrix(16, 24)));
  const auto graph = b.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  const auto chain = derive_chain(*graph);
  return chain ? "" : chain.error().message;
}

TEST(ProductChain, SaysWhyAGraphIsNone) {
  using Values = std::vector<Value>;
  EXPECT_THAT(refusal([](auto&, auto&, auto&, Value first) { return Values{first}; }),
              HasSubstr("1 dots, of which 0 are taken by others"));
  EXPECT_THAT(refusal([](auto& b, auto&, auto& product, Value first) {
                return Values{product(first, b.transpose(b.unary(Op::negate, first), {1, 0}))};
              }),
              HasSubstr("both operands are computed"));
  EXPECT_THAT(refusal([](auto& b, auto& matrix, auto& product, Value first) {
                const Value sum = b.reduce(graph::ReduceKind::sum, first, {1});
                return Values{product(b.binary(Op::subtract, first, b.broadcast(sum, {8, 24}, {0})), matrix(24, 8))};
              }),
              HasSubstr("a reduction"));
  EXPECT_THAT(refusal([](auto&, auto& matrix, auto& product, Value first) {
                return Values{product(first, matrix(24, 8)), first};
              }),
              HasSubstr("no last dot"));
  EXPECT_THAT(refusal([](auto& b, auto& matrix, auto& product, Value first) {
                const Value second = product(first, matrix(24, 8));
                return Values{second, b.unary(Op::exp, second)};
              }),
              HasSubstr("several results of one"));
  EXPECT_THAT(refusal([](auto& b, auto& matrix, auto& product, Value first) {
                return Values{product(b.slice(first, {0, 4}, {8, 16}, {1, 1}), matrix(12, 8))};
              }),
              HasSubstr("a part of its weights"));
  // Weights take the places of scores, of which there must be as many.
  EXPECT_THAT(refusal([](auto&, auto& matrix, auto& product, Value first) {
                return Values{product(first, matrix(24, 8)), product(first, matrix(24, 16))};
              }),
              HasSubstr("2 products and 1 scores"));
  EXPECT_THAT(
      refusal([](auto& b, auto& matrix, auto& product, Value first) {
        const Value other = product(matrix(8, 32), matrix(32, 40));
        return Values{product(b.unary(Op::exp, first), matrix(24, 8)), product(b.unary(Op::exp, other), matrix(40, 8))};
      }),
      HasSubstr("different batch, rows or columns"));
  EXPECT_THAT(refusal([](auto& b, auto& matrix, auto& product, Value first) {
                const Value other = product(first, matrix(24, 24));
                return Values{product(b.binary(Op::multiply, first, other), matrix(24, 8))};
              }),
              HasSubstr("score of another score"));
  EXPECT_THAT(refusal([](auto& b, auto& matrix, auto& product, Value first) {
                return Values{b.binary(Op::add, product(first, matrix(24, 24)), first)};
              }),
              HasSubstr("more than its dot reads"));
  EXPECT_NE(derive_chain(test::attention_graph({"", {2}, 16, 16, 16, 16})).ok(), true);
}

/// What is not 0 where the exponential is must be walked.
TEST(ProductChain, AMaskHidesWhatIsAProductWithItsExponential) {
  const auto has_mask = [](const auto& weigh) {
    graph::Builder b;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      return b.parameter(DType::f32, {rows, columns});
    };
    const Value queries = matrix(64, 16), keys = matrix(64, 16), values = matrix(64, 16);
    const Value scores = b.dot(queries, keys, {{}, {}, {1}, {1}, DType::f32});
    const Value row = b.iota(DType::s32, {64, 64}, 0), key = b.iota(DType::s32, {64, 64}, 1);
    const Value logits =
        b.select(b.compare(graph::Comparison::ge, row, key), scores, b.filled(DType::f32, {64, 64}, -1e9));
    const Value greatest = b.broadcast(b.parameter(DType::f32, {64}), {64, 64}, {0});
    const Value weights = weigh(b, b.unary(Op::exp, b.binary(Op::subtract, logits, greatest)), scores);
    const auto graph = b.finish({b.dot(weights, values, {{}, {}, {1}, {0}, DType::f32})});
    if (!graph) throw std::runtime_error(graph.error().message);
    const auto chain = derive_chain(*graph);
    if (!chain) throw std::runtime_error(chain.error().message);
    return chain->mask.has_value();
  };
  EXPECT_TRUE(has_mask([](auto&, Value exponential, Value) { return exponential; }));
  EXPECT_TRUE(has_mask([](auto& b, Value exponential, Value scores) {
    return b.binary(Op::multiply, b.binary(Op::add, scores, scores), b.unary(Op::negate, exponential));
  }));
  EXPECT_FALSE(
      has_mask([](auto& b, Value exponential, Value scores) { return b.binary(Op::add, exponential, scores); }));
  EXPECT_FALSE(
      has_mask([](auto& b, Value exponential, Value scores) { return b.binary(Op::divide, scores, exponential); }));
}

/// Of rows that see nothing all keys count alike, from either side; of a tensor with itself no side is known.
TEST(ProductChain, AMaskThatHidesWholeRowsHidesNothing) {
  const auto has_mask = [](bool some_see_nothing, bool same) {
    graph::Builder b;
    const Value queries = b.parameter(DType::f32, {64, 16});
    const Value keys = same ? queries : b.parameter(DType::f32, {64, 16});
    const Value scores = b.dot(queries, keys, {{}, {}, {1}, {1}, DType::f32});
    const Value row = b.iota(DType::s32, {64, 64}, 0), key = b.iota(DType::s32, {64, 64}, 1);
    Value seen = b.compare(graph::Comparison::ge, row, key);
    if (some_see_nothing)
      seen = b.binary(Op::bit_and, seen, b.compare(graph::Comparison::lt, row, b.filled(DType::s32, {64, 64}, 60)));
    const Value logits = b.select(seen, scores, b.filled(DType::f32, {64, 64}, -1e9));
    const Value greatest = b.broadcast(b.parameter(DType::f32, {64}), {64, 64}, {0});
    const Value weights = b.unary(Op::exp, b.binary(Op::subtract, logits, greatest));
    const auto graph = b.finish({b.dot(weights, queries, {{}, {}, {0}, {0}, DType::f32})});
    if (!graph) throw std::runtime_error(graph.error().message);
    const auto chain = derive_chain(*graph);
    if (!chain) throw std::runtime_error(chain.error().message);
    return chain->mask.has_value();
  };
  EXPECT_TRUE(has_mask(false, false));
  EXPECT_FALSE(has_mask(true, false));
  EXPECT_FALSE(has_mask(false, true));
}

}  // namespace
}  // namespace stitch::kernel
