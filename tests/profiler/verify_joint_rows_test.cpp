// Rows whose index is several dimensions, and that blocks or clusters take by turns: a sample of them is verified
// against the reference of the rows that ran, which are slices of no dimension.
#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "profiler/verify/block_sample.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

using kernel::Level;

/// Sums over the rows, whose index is the first two dimensions, and along each of them; what a norm's backward takes.
Result<Graph> norm_backward_of(const Dims& dims) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, dims);
  const Value product = b.binary(Op::multiply, x, y);
  const Value row = b.reduce(ReduceKind::sum, product, {2});
  const Value gradient = b.binary(Op::subtract, x, b.broadcast(row, dims, {0, 1}));
  return b.finish({gradient, b.reduce(ReduceKind::sum, product, {0, 1})});
}

/// Exponentials over their row's sum, and the greatest of these sums.
Result<Graph> shares_and_greatest(const Dims& dims) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims);
  const Value e = b.unary(Op::exp, x);
  const Value sum = b.reduce(ReduceKind::sum, e, {2});
  return b.finish({b.binary(Op::divide, e, b.broadcast(sum, dims, {0, 1})), b.reduce(ReduceKind::max, sum, {0, 1})});
}

/// The sum of what the labels' logits have as their softmax's logarithm, the gradient, its sums over the rows, and
/// their squares' sum: of [32,128,30522] bert_train's loss, whose second phase has two groups.
Result<Graph> loss_of_labels(const Dims& dims) {
  Builder b;
  const Value logits = b.parameter(DType::f32, dims), labels = b.parameter(DType::s32, {dims[0], dims[1]});
  const Value x = b.binary(Op::add, logits, b.broadcast(b.parameter(DType::f32, {dims[2]}), dims, {2}));
  const Value shifted = b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::max, x, {2}), dims, {0, 1}));
  const Value sum = b.reduce(ReduceKind::sum, b.unary(Op::exp, shifted), {2});
  const Value logs = b.binary(Op::subtract, shifted, b.broadcast(b.unary(Op::log, sum), dims, {0, 1}));
  const Value is_label =
      b.compare(graph::Comparison::eq, b.iota(DType::s32, dims, 2), b.broadcast(labels, dims, {0, 1}));
  const Value zero = b.filled(DType::f32, dims, 0);
  const Value loss = b.reduce(ReduceKind::sum, b.select(is_label, logs, zero), {0, 1, 2});
  const Value gradient = b.binary(Op::subtract, b.unary(Op::exp, logs), b.convert(is_label, DType::f32));
  const Value of_bias = b.reduce(ReduceKind::sum, gradient, {0, 1});
  return b.finish({gradient, of_bias, loss, b.reduce(ReduceKind::sum, b.binary(Op::multiply, of_bias, of_bias), {0})});
}

/// Two phases, the first's rows taken by turns, by clusters or by blocks.
Wish by_turns(bool clusters) {
  return [=](const kernel::KernelProgram& p) {
    if (p.phases.size() != 2 || clusters != (p.schedule.cluster > 1)) return false;
    const kernel::AxisMapping& rows = p.phases[0].groups[0].mapping.axes[0];
    return rows.interleaved && rows.at(Level::grid) >= 8 && rows.at(Level::loop) > 1;
  };
}

struct Example {
  std::string name;
  std::function<Result<Graph>()> graph;
  bool clusters = false;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

class VerifyJointRowsEmulated : public testing::TestWithParam<Example> {};

TEST_P(VerifyJointRowsEmulated, ASampleOfThemIsVerified) {
  const KernelCase each = make_case(GetParam().graph(), by_turns(GetParam().clusters), {.keep = 10'000});
  VerifyOptions options;
  options.work_budget = kernel_work(each.program) / 8;
  const BlockSample sample = sample_blocks(*each.graph, each.program, each.kernel, options.work_budget, 1);
  ASSERT_FALSE(sample.whole()) << each.kernel.source;
  ASSERT_FALSE(sample.restrictions.empty());
  for (const graph::ReduceRestriction& restriction : sample.restrictions)
    EXPECT_EQ(restriction.boxes.front().size[0], 1) << "no slices of the first dimension";
  const Verification right = verify(each, options);
  EXPECT_TRUE(right.correct) << right.failure << "\n" << each.kernel.source;
  EXPECT_LT(right.blocks_run, each.kernel.blocks) << "the sample failed, and all blocks were run";

  // Without the last turn all that is stored is right, and the sums lack rows.
  std::smatch turns;
  ASSERT_TRUE(std::regex_search(each.kernel.source, turns, std::regex("i_loop < (\\d+)"))) << each.kernel.source;
  const std::string fewer = fmt::format("i_loop < {}", std::stoll(turns[1]) - 1);
  EXPECT_FALSE(verify(mutated(each, turns[0], fewer), options).correct);
}

std::vector<Example> examples() {
  const Dims of_blocks = {16, 40, 256}, of_clusters = {8, 8, 30'000}, one_tensor = {8, 8, 30'522};
  return {{"sums", [=] { return norm_backward_of(of_blocks); }},
          {"maxima", [=] { return shares_and_greatest(of_blocks); }},
          {"sums_of_clusters", [=] { return norm_backward_of(of_clusters); }, true},
          {"loss_of_clusters", [=] { return loss_of_labels(one_tensor); }, true}};
}

INSTANTIATE_TEST_SUITE_P(Graphs, VerifyJointRowsEmulated, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::profiler::test
