#include "search/partition/loop_choice.h"

#include <gtest/gtest.h>

#include "kernel/loop/row_split.h"
#include "kernel/structure/kernel_graph.h"
#include "tests/kernel/recurrent_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

/// The rough time, with what every row a block takes adds to a turn of a recurrent kernel.
class TurnScorer final : public Scorer {
 public:
  explicit TurnScorer(double turn_us) : turn_us_(turn_us) {}
  [[nodiscard]] double predict_us(const Graph& graph, const kernel::KernelProgram& program) const override {
    const double turns = program.recurrent == nullptr ? 0 : static_cast<double>(program.recurrent->turns);
    return rough_.predict_us(graph, program) + turns * turn_us_;
  }
  [[nodiscard]] Score explain(const Graph& graph, const kernel::KernelProgram& program) const override {
    return rough_.explain(graph, program);
  }
  [[nodiscard]] const DeviceSpec& device() const override { return rough_.device(); }

 private:
  RoughScorer rough_;
  double turn_us_;
};

bool chooses(const Graph& loop, double turn_us) {
  const TurnScorer scorer(turn_us);
  KernelCache cache(scorer, {});
  return runs_in_one_kernel(loop, cache, {});
}

TEST(LoopChoice, WeighsATurnAgainstItsLaunches) {
  // A turn apart is a kernel of 2 rough us and a call of as much.
  EXPECT_TRUE(chooses(gru({.turns = 50}), 1));
  EXPECT_FALSE(chooses(gru({.turns = 50}), 10));
}

TEST(LoopChoice, TakesOnlyWhatCanBeAKernel) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  EXPECT_FALSE(chooses(finished(b, {b.unary(Op::exp, x)}), 0));
  LoopBuilder l({});
  const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
  l.hand_on(h, l.inside.reverse(h, {0, 1}));
  l.want(h);
  EXPECT_FALSE(chooses(l.finish(), 0));
  EXPECT_FALSE(chooses(gru({.turns = 100000}), 0));
}

TEST(UnfusedFragment, OfALoopRunsItsBodyInEveryTurn) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const Graph loop = gru({.turns = 50});
  const auto unfused = unfused_fragment(loop, cache);
  ASSERT_TRUE(unfused) << unfused.error().message;
  EXPECT_EQ(unfused->turns, 50);
  // One kernel for each operator of the body that is one by itself; the contraction is a call.
  std::int64_t operators = 0;
  const Graph& body = *loop.node(*kernel::recurrent_loop(loop)).regions[0];
  const std::vector<bool> attached = kernel::attached_operators(body), results = graph::is_result(body);
  for (graph::NodeId id = 0; id < body.size(); ++id) {
    const graph::Op op = body.node(id).op;
    if (op == graph::Op::parameter || op == graph::Op::dot) continue;
    const std::size_t at = id;
    operators += !attached[at] || results[at] ? 1 : 0;
  }
  EXPECT_EQ(std::ssize(unfused->once.kernels), operators);
  EXPECT_EQ(unfused->launches(), 50 * operators);
  EXPECT_EQ(unfused->bytes(), 50 * plan_bytes(unfused->once));
  EXPECT_DOUBLE_EQ(unfused->predicted_us(), 50 * unfused->once.predicted_us);
}

TEST(UnfusedFragment, OfOthersRunsOnce) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  Builder b;
  const Value x = b.parameter(DType::f32, {64});
  const auto unfused = unfused_fragment(finished(b, {b.unary(Op::exp, b.unary(Op::negate, x))}), cache);
  ASSERT_TRUE(unfused) << unfused.error().message;
  EXPECT_EQ(unfused->turns, 1);
  EXPECT_EQ(unfused->launches(), 2);
}

TEST(UnfusedFragment, IsNoneOnceStopped) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  Builder b;
  const Value x = b.parameter(DType::f32, {64});
  std::stop_source stop;
  stop.request_stop();
  const auto unfused = unfused_fragment(finished(b, {b.unary(Op::exp, x)}), cache, stop.get_token());
  ASSERT_FALSE(unfused);
  EXPECT_EQ(unfused.error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace stitch::search::test
