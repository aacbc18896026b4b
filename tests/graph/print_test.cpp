#include "graph/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph norm() {
  Builder b("norm");
  const Value x = b.parameter(DType::f32, {8, 768}, "x");
  const Value sum = b.reduce(ReduceKind::sum, x, {1});
  b.at("mean", 3);
  const Value mean = b.binary(Op::divide, sum, b.filled(DType::f32, {8}, 768));
  const Value both = b.add(Op::arg_reduce, {x}, ArgReduceAttributes{ReduceKind::max, 1, DType::s64, true});
  const Value half = b.convert(mean, DType::bf16);
  return *b.finish({half, {both.node, 1}});
}

TEST(Print, OneLinePerNode) {
  EXPECT_EQ(to_text(norm()),
            R"(graph "norm" {
  %0 = parameter f32[8,768]  // x
  %1 = reduce f32[8] %0 {kind=sum, dimensions=[1]}
  %2 = constant f32[] {768}  // mean
  %3 = broadcast f32[8] %2 {dims=[8], mapping=[]}  // mean
  %4 = divide f32[8] %1, %3  // mean
  %5 = arg-reduce (f32[8], s64[8]) %0 {kind=max, dimension=1, index_dtype=s64, last=true}  // mean
  %6 = convert bf16[8] %4  // mean
  return %6, %5.1
}
)");
}

TEST(Print, ConstantsShowWhatFits) {
  Builder b;
  const auto line = [&](ConstantAttributes constant) {
    const Value value = b.constant(std::move(constant));
    return to_text(b.graph(), value.node).substr(to_text(b.graph(), value.node).find('=') + 2);
  };
  const double few[] = {0.1, -0.0, 1e30};
  std::vector<double> many(9, 1);
  many[4] = 2;
  const std::int64_t integers[] = {-1, 0};
  EXPECT_EQ(line(dense({DType::f32, {3}}, few)), "constant f32[3] {[0.1, -0, 1e+30]}");
  EXPECT_EQ(line(dense({DType::f64, {3}}, few)), "constant f64[3] {[0.1, -0, 1e+30]}");
  EXPECT_EQ(line(splat({DType::bf16, {2, 2}}, 0.5)), "constant bf16[2,2] {splat 0.5}");
  EXPECT_EQ(line(dense_integers({DType::u64, {2}}, integers)), "constant u64[2] {[18446744073709551615, 0]}");
  EXPECT_EQ(line(dense_integers({DType::pred, {2}}, integers)), "constant pred[2] {[true, false]}");
  EXPECT_THAT(line(dense({DType::f32, {9}}, many)), HasSubstr("{data #"));
  EXPECT_EQ(line(ConstantAttributes{{DType::f32, {0}}, {}}), "constant f32[0] {[]}");
}

Graph loop() {
  Builder body("step");
  const Value x = body.parameter(DType::s32, {});
  Builder condition("go on");
  const Value y = condition.parameter(DType::s32, {});
  const auto step = std::make_shared<const Graph>(*body.finish({body.binary(Op::add, x, body.scalar(DType::s32, 1))}));
  const auto decide = std::make_shared<const Graph>(
      *condition.finish({condition.compare(Comparison::lt, y, condition.scalar(DType::s32, 4))}));
  Builder b("count");
  const Value z = b.parameter(DType::s32, {});
  return *b.finish({b.add(Op::loop, {z}, LoopAttributes{4}, {step, decide})});
}

TEST(Print, RegionsAreIndentedBelowTheirNode) {
  EXPECT_EQ(to_text(loop()),
            R"(graph "count" {
  %0 = parameter s32[]
  %1 = loop s32[] %0 {trip_count=4}
    body 0 "step" {
      %0 = parameter s32[]
      %1 = constant s32[] {1}
      %2 = add s32[] %0, %1
      return %2
    }
    condition 1 "go on" {
      %0 = parameter s32[]
      %1 = constant s32[] {4}
      %2 = compare pred[] %0, %1 {direction=lt}
      return %2
    }
  return %1
}
)");
}

TEST(Print, NamesStayOnTheirLine) {
  Builder b("two\nlines");
  b.at("a\nb\x01");
  const Value x = b.iota(DType::s32, {4}, 0);
  EXPECT_EQ(to_text(*b.finish({x})),
            "graph \"two lines\" {\n  %0 = iota s32[4] {dimension=0}  // a b \n  return %0\n}\n");
}

TEST(Graphviz, DrawsClustersEdgesAndResults) {
  const NodeCluster clusters[] = {{"kernel \"0\"", {1, 4}}, {"kernel 1", {5, 4, 99}}};
  const std::string text = to_graphviz(norm(), clusters);
  EXPECT_THAT(text, HasSubstr("digraph stitch {"));
  EXPECT_THAT(text, HasSubstr("label=\"kernel \\\"0\\\"\";"));
  EXPECT_THAT(text, HasSubstr("\"n0\" -> \"n1\";"));
  EXPECT_THAT(text, HasSubstr("\"n4\" -> \"n6\";"));
  EXPECT_THAT(text, HasSubstr("label=\"result 1\""));
  EXPECT_THAT(text, HasSubstr("%3 broadcast\\n#0 = 768"));  // the scalar is drawn inside its user
  EXPECT_THAT(text, Not(HasSubstr("\"n2\"")));
  // Node 4 is drawn once, in the first cluster that names it.
  const std::size_t first = text.find("\"n4\" [");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("\"n4\" [", first + 1), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
}

TEST(Graphviz, RegionsAreFramesWithNodesOfTheirOwn) {
  const std::string text = to_graphviz(loop());
  EXPECT_THAT(text, HasSubstr("label=\"%1 body\""));
  EXPECT_THAT(text, HasSubstr("label=\"%1 condition\""));
  EXPECT_THAT(text, HasSubstr("\"n1_0_n0\" -> \"n1_0_n2\";"));
  EXPECT_THAT(text, HasSubstr("\"n1_1_n2\" -> \"n1_1_r0\";"));
}

}  // namespace
}  // namespace stitch::graph
