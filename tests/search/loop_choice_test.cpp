#include "search/loop_choice.h"

#include <gtest/gtest.h>

#include "tests/search/recurrent_graphs.h"

namespace stitch::search::test {
namespace {

/// The rough time, with what every row a block takes adds to a turn of a recurrent kernel.
class TurnScorer final : public Scorer {
 public:
  explicit TurnScorer(double turn_us) : turn_us_(turn_us) {}
  [[nodiscard]] double predict_us(const Graph& graph, const KernelProgram& program) const override {
    const double turns = program.recurrent == nullptr ? 0 : static_cast<double>(program.recurrent->turns);
    return rough_.predict_us(graph, program) + turns * turn_us_;
  }
  [[nodiscard]] Score explain(const Graph& graph, const KernelProgram& program) const override {
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

}  // namespace
}  // namespace stitch::search::test
