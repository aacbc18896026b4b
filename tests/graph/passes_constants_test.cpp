// Constant folding, common subexpressions, dead code, and the rewriter they are made with.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/fold_constants.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::made;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32;

Value table(Builder& b, DType dtype, const std::vector<double>& values) {
  return b.constant(dense({dtype, {static_cast<std::int64_t>(values.size())}}, values));
}

TEST(PassesConstants, Folding) {
  expect_rewrites(
      fold_constants,
      {
          {"scalars, rounded to their dtype",
           [](Builder& b) { return Values{b.binary(Op::divide, b.scalar(f32, 1), b.scalar(f32, 3))}; },
           [](Builder& b) { return Values{b.scalar(f32, 1.0 / 3)}; }},
          {"integers wrap",
           [](Builder& b) { return Values{b.binary(Op::multiply, b.scalar(s32, 65536), b.scalar(s32, 65537))}; },
           [](Builder& b) { return Values{b.scalar(s32, 65536)}; }},
          {"a table and a splat",
           [](Builder& b) {
             return Values{b.binary(Op::add, table(b, f32, {1, 2, 3}), b.filled(f32, {3}, 10))};
           },
           [](Builder& b) {
             return Values{table(b, f32, {11, 12, 13})};
           }},
          {"layout and reduction",
           [](Builder& b) {
             const Value x = table(b, s32, {5, 1, 4});
             return Values{b.reverse(x, {0}), b.reduce(ReduceKind::max, x, {0})};
           },
           [](Builder& b) {
             return Values{table(b, s32, {4, 1, 5}), b.scalar(s32, 5)};
           }},
          {"two results",
           [](Builder& b) {
             const Value k = b.scalar(DType::u32, 0);
             const Value bits = b.add(Op::threefry2x32, {k, k, k, k});
             return Values{bits, {bits.node, 1}};
           },
           [](Builder& b) {  // known answer of Threefry-2x32-20 for zeros (Random123)
             return Values{b.scalar(DType::u32, 0x6b200159), b.scalar(DType::u32, 0x99ba4efe)};
           }},
          {"a constant of equal elements is a splat",
           [](Builder& b) {
             return Values{table(b, f32, {2, 2, 2})};
           },
           [](Builder& b) { return Values{b.filled(f32, {3}, 2)}; }},
          {"splats are not made large",
           [](Builder& b) {
             return Values{b.filled(f32, {64, 64}, 2)};
           }},
          {"too large",
           [](Builder& b) {
             const Value x = table(b, f32, std::vector<double>(4097, 1.0));
             return Values{b.binary(Op::add, b.concatenate({x, table(b, f32, {2})}, 0), b.iota(f32, {4098}, 0))};
           },
           [](Builder& b) {
             const Value x = b.filled(f32, {4097}, 1);
             return Values{b.binary(Op::add, b.concatenate({x, table(b, f32, {2})}, 0), b.iota(f32, {4098}, 0))};
           }},
          {"what depends on a parameter",
           [](Builder& b) {
             return Values{b.binary(Op::add, b.parameter(f32, {3}), table(b, f32, {1, 2, 3}))};
           }},
      });
}

TEST(PassesConstants, TablesMadeFromIotas) {
  const auto scaled = [](Builder& b, std::int64_t n) {
    return b.binary(Op::multiply, b.iota(f32, {n}, 0), b.filled(f32, {n}, -0.5));
  };
  const auto frequencies = [=](Builder& b, std::int64_t n) {
    return b.binary(Op::power, b.filled(f32, {n}, 4), scaled(b, n));
  };
  expect_rewrites(
      fold_constants,
      {
          {"the frequencies of a rotary embedding", [=](Builder& b) { return Values{frequencies(b, 4)}; },
           [](Builder& b) {
             return Values{table(b, f32, {1, 0.5, 0.25, 0.125})};
           }},
          {"cheap index arithmetic is computed", [=](Builder& b) { return Values{scaled(b, 4)}; }},
          {"long tables are computed", [=](Builder& b) { return Values{frequencies(b, 1025)}; }},
          {"integer division is index arithmetic",
           [](Builder& b) { return Values{b.binary(Op::divide, b.iota(s32, {8}, 0), b.filled(s32, {8}, 3))}; }},
      });
}

TEST(PassesConstants, EqualThingsAreOne) {
  const Graph graph = test::tidy(made([](Builder& b) {
    const Value x = b.parameter(f32, {4}), y = b.parameter(f32, {4});
    const Value one = b.filled(f32, {4}, 1), another = b.filled(f32, {4}, 1);
    return Values{b.binary(Op::add, x, y),
                  b.binary(Op::add, y, x),
                  b.binary(Op::add, x, one),
                  b.binary(Op::add, x, another),
                  b.binary(Op::subtract, x, y),
                  b.binary(Op::subtract, y, x),
                  b.iota(f32, {4}, 0),
                  b.iota(f32, {4}, 0),
                  b.compare(Comparison::eq, x, y),
                  b.compare(Comparison::eq, y, x),
                  b.compare(Comparison::lt, x, y),
                  b.compare(Comparison::lt, y, x)};
  }));
  const auto results = graph.results();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[2], results[3]);
  EXPECT_NE(results[4], results[5]);
  EXPECT_EQ(results[6], results[7]);
  EXPECT_EQ(results[8], results[9]);
  EXPECT_NE(results[10], results[11]);
}

TEST(PassesConstants, ZerosOfBothSignsAreNotEqual) {
  const Graph graph = test::tidy(made([](Builder& b) { return Values{b.scalar(f32, 0.0), b.scalar(f32, -0.0)}; }));
  EXPECT_NE(graph.results()[0], graph.results()[1]);
}

TEST(PassesConstants, OpaqueOperatorsAreNotMerged) {
  const Graph graph = test::tidy(made([](Builder& b) {
    const OpaqueAttributes draw{"random", "", {{f32, {4}}}};
    return Values{b.add(Op::opaque, {}, draw), b.add(Op::opaque, {}, draw)};
  }));
  EXPECT_NE(graph.results()[0], graph.results()[1]);
}

TEST(PassesConstants, RegionsAreComparedByContent) {
  const auto loop = [](Builder& b, Value x, Op op) {
    const auto body =
        std::make_shared<Graph>(made([&](Builder& r) { return Values{r.unary(op, r.parameter(f32, {4}))}; }));
    const auto test = std::make_shared<Graph>(made([](Builder& r) {
      r.parameter(f32, {4});
      return Values{r.scalar(DType::pred, 0)};
    }));
    return b.add(Op::loop, {x}, LoopAttributes{-1}, {body, test});
  };
  const Graph graph = test::tidy(made([&](Builder& b) {
    const Value x = b.parameter(f32, {4});
    return Values{loop(b, x, Op::exp), loop(b, x, Op::exp), loop(b, x, Op::sin)};
  }));
  EXPECT_EQ(graph.results()[0], graph.results()[1]);
  EXPECT_NE(graph.results()[0], graph.results()[2]);
}

TEST(PassesConstants, DeadCodeGoesParametersStay) {
  Graph graph = made([](Builder& b) {
    const Value x = b.parameter(f32, {4}), unused = b.parameter(f32, {4});
    b.unary(Op::exp, b.unary(Op::sin, unused));
    return Values{b.unary(Op::cos, x)};
  });
  const Result<int> removed = remove_dead_code(graph, {});
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 2);
  EXPECT_EQ(graph.size(), 3);
  EXPECT_EQ(graph.parameters().size(), 2U);
}

TEST(PassesConstants, RewriterKeepsNamesAndCountsUses) {
  Builder b;
  const Value x = b.parameter(f32, {4}, "x");
  b.at("twice", 17);
  const Value twice = b.binary(Op::add, x, x);
  b.at("root", 18);
  const Value root = b.unary(Op::sqrt, twice);
  Graph graph = *b.finish({root, twice, x});
  const Result<int> changes = rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    if (node.op == Op::sqrt) {
      EXPECT_EQ(rewriter.uses(node.operands[0]), 2);
    }
    if (node.op != Op::add) return {};
    EXPECT_EQ(rewriter.uses(node.operands[0]), 3);
    return rewriter.binary(Op::multiply, node.operands[0], rewriter.filled(node.type(), 2));
  });
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 1);
  ASSERT_TRUE(verify(graph).ok());
  EXPECT_EQ(to_text(graph, graph.results()[1].node).find("multiply") != std::string::npos, true);
  EXPECT_EQ(graph.node(graph.results()[1].node).name, "twice");
  EXPECT_EQ(graph.node(graph.results()[1].node).line, 17);
  EXPECT_EQ(graph.node(graph.results()[0].node).name, "root");
}

TEST(PassesConstants, ARuleThatChangesATypeIsAnError) {
  Graph graph = made([](Builder& b) { return Values{b.unary(Op::exp, b.parameter(f32, {4}))}; });
  const Result<int> changes = rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    if (node.op != Op::exp) return {};
    return rewriter.convert(node.operands[0], DType::f64);
  });
  ASSERT_FALSE(changes.ok());
  EXPECT_EQ(changes.error().kind, ErrorKind::internal);
  EXPECT_EQ(changes.error().message, "exp '' of type f32[4] was replaced by convert of type f64[4]");
}

TEST(PassesConstants, ARuleThatBuildsNonsenseIsAnError) {
  Graph graph = made([](Builder& b) { return Values{b.unary(Op::exp, b.parameter(f32, {4}))}; });
  const Result<int> changes = rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    if (node.op != Op::exp) return {};
    return rewriter.transpose(node.operands[0], {1, 0});
  });
  ASSERT_FALSE(changes.ok());
  EXPECT_NE(changes.error().message.find("transpose made for ''"), std::string::npos) << changes.error().message;
}

}  // namespace
}  // namespace stitch::graph
