#include "cli/explain/page.h"

#include <gmock/gmock.h>

#include <boost/property_tree/xml_parser.hpp>
#include <sstream>

#include "cli/explain/fragment_drawing.h"
#include "cli/explain/layout.h"
#include "graph/builder.h"

namespace stitch::cli {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

/// y = exp(x · 2) in kernel 0, r = sum of y over its columns and z = −exp(x · 2) in kernel 1, which computes x · 2
/// again.
FragmentExplanation two_kernels() {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {64, 8}, "x");
  const Value two = builder.filled(DType::f32, {64, 8}, 2);
  const Value doubled = builder.binary(Op::multiply, x, two);
  const Value y = builder.unary(Op::exp, doubled);
  const Value r = builder.reduce(graph::ReduceKind::sum, y, {1});
  const Value z = builder.unary(Op::negate, doubled);
  FragmentExplanation fragment;
  fragment.name = "level 0 <of & all>";
  fragment.graph = *builder.finish({y, r, z});
  fragment.kernels.resize(2);
  fragment.kernels[0].nodes = {two.node, doubled.node, y.node};
  fragment.kernels[1].nodes = {two.node, doubled.node, r.node, z.node};
  for (KernelExplanation& kernel : fragment.kernels) {
    kernel.description = "exp x1, \"multiply\" x1";
    kernel.bytes = 4096;
    kernel.score = {2.5, {{"launch", 1.2}, {"dram", 1.3}}, "dram"};
  }
  return fragment;
}

/// An optimizer's update of `parameters` tensors, all in one kernel: w − 0.1 · (g · g + g).
FragmentExplanation updates(int parameters) {
  Builder builder;
  std::vector<Value> results;
  FragmentExplanation fragment;
  fragment.kernels.resize(1);
  for (int p = 0; p < parameters; ++p) {
    const Value w = builder.parameter(DType::f32, {64}, "w");
    const Value g = builder.parameter(DType::f32, {64}, "g");
    const Value rate = builder.filled(DType::f32, {64}, 0.1);
    const Value square = builder.binary(Op::multiply, g, g);
    const Value sum = builder.binary(Op::add, square, g);
    const Value step = builder.binary(Op::multiply, rate, sum);
    results.push_back(builder.binary(Op::subtract, w, step));
    for (const Value value : {rate, square, sum, step, results.back()}) {
      fragment.kernels[0].nodes.push_back(value.node);
    }
  }
  fragment.graph = *builder.finish(results);
  return fragment;
}

int boxes_in(const Drawing& drawing, int frame) {
  return static_cast<int>(std::count_if(drawing.boxes.begin(), drawing.boxes.end(),
                                        [&](const Drawing::Box& box) { return box.frame == frame; }));
}

TEST(FragmentDrawing, EveryKernelIsAFrameWithItsOperators) {
  const Drawing drawing = draw_fragment(two_kernels());
  ASSERT_EQ(drawing.frames.size(), 2U);
  EXPECT_EQ(drawing.frames[0].lines[0], "kernel 0 · 2.50 us · 4.1 kB");
  EXPECT_THAT(drawing.frames[0].tooltip, HasSubstr("1.300 us dram (binds)"));
  EXPECT_EQ(boxes_in(drawing, 0), 2);   // multiply, exp
  EXPECT_EQ(boxes_in(drawing, 1), 3);   // multiply again, reduce, negate
  EXPECT_EQ(boxes_in(drawing, -1), 5);  // x for each of the kernels, three results
  EXPECT_EQ(drawing.boxes[0].lines, (std::vector<std::string>{"multiply", "2"}));
  EXPECT_THAT(drawing.boxes[0].tooltip, HasSubstr("= multiply f32[64,8] %0"));
  EXPECT_THAT(drawing.arrows, Each(Field(&Drawing::Arrow::label, HasSubstr("f32[64"))));
  // The sum reads what the other kernel's exp wrote.
  EXPECT_THAT(drawing.arrows,
              testing::Contains(testing::AllOf(Field(&Drawing::Arrow::from, 1), Field(&Drawing::Arrow::to, 3))));
}

TEST(FragmentDrawing, EqualPartsAreOneBoxWithTheirCount) {
  const Drawing drawing = draw_fragment(updates(2500));  // 10,000 operators
  ASSERT_EQ(drawing.frames.size(), 1U);
  ASSERT_EQ(boxes_in(drawing, 0), 1);
  EXPECT_THAT(drawing.boxes[0].lines[0], "2500 alike, together");
  EXPECT_THAT(drawing.boxes[0].lines, testing::Contains("multiply ×5000"));
  EXPECT_EQ(drawing.boxes.size(), 3U);  // with its parameters and its results
  EXPECT_THAT(drawing.arrows, Each(Field(&Drawing::Arrow::label, HasSubstr(" values, "))));
  EXPECT_EQ(boxes_in(draw_fragment(updates(3)), 0), 12);
}

TEST(FragmentDrawing, TheLargestKernelsAreFoldedFirst) {
  FragmentExplanation fragment = two_kernels();
  const Drawing folded = draw_fragment(fragment, 3);
  EXPECT_EQ(boxes_in(folded, 0), 2);
  EXPECT_EQ(boxes_in(folded, 1), 1);
  const Drawing all = draw_fragment(fragment, 0);
  EXPECT_EQ(boxes_in(all, 0), 1);
  EXPECT_EQ(boxes_in(all, 1), 1);
  fragment.kernels.clear();  // a fragment without a plan
  EXPECT_EQ(draw_fragment(fragment).frames.size(), 0U);
  EXPECT_EQ(draw_fragment(fragment, 1).boxes[0].lines[0], "4 operators");
}

TEST(FragmentDrawing, SizesAreForPeople) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(6.71e6), "6.7 MB");
  EXPECT_EQ(bytes_text(4.3e10), "43 GB");
}

TEST(ExplanationPage, IsWellFormedAndComplete) {
  std::vector<FragmentExplanation> fragments = {two_kernels(), updates(40)};
  tuning::ModelOutline outline;
  outline.regions = {"", "/body of while.3"};
  using Kind = tuning::ModelOutline::Part::Kind;
  outline.parts = {
      {Kind::fragment, 0, 0, "", 12}, {Kind::call, 0, 0, "dot f32 [8,8]·[8,8]", 24}, {Kind::fragment, 1, 1, "", 1}};
  outline.flows = {{0, 1, {DType::f32, {8, 8}}, 24}, {1, 0, {DType::f32, {8, 8}}, 12}};
  RealProcessLauncher launcher;
  const Page page = to_page("a <model>", &outline, fragments, {}, launcher);
  EXPECT_FALSE(page.undrawn) << page.undrawn->message;
  std::istringstream stream(page.html);
  boost::property_tree::ptree tree;
  ASSERT_NO_THROW(read_xml(stream, tree));
  for (const char* text : {"level 0 &lt;of &amp; all&gt; ×12", "dot f32 [8,8]·[8,8] ×24", "body of",
                           "kernel 1 · 2.50 us", "40 alike, together", "prefers-color-scheme:dark"}) {
    EXPECT_THAT(page.html, HasSubstr(text));
  }
  EXPECT_THAT(page.html, Not(HasSubstr("<script")));
}

/// A machine on which no program is found.
class MachineWithoutPrograms final : public ProcessLauncher {
 public:
  Result<std::unique_ptr<Process>> start(const ProcessOptions& options) override {
    return make_error(ErrorKind::not_found, "no program '{}'", options.arguments.front());
  }
};

TEST(ExplanationPage, WithoutGraphvizItSaysSoAndHasTheRest) {
  MachineWithoutPrograms machine;
  const Page page = to_page("model", nullptr, {two_kernels()}, {}, machine);
  ASSERT_TRUE(page.undrawn);
  EXPECT_EQ(page.undrawn->kind, ErrorKind::unavailable);
  EXPECT_THAT(page.html, HasSubstr("not drawn: drawings need Graphviz"));
  EXPECT_THAT(page.html, HasSubstr("2.50"));
  EXPECT_THAT(page.html, Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace stitch::cli
