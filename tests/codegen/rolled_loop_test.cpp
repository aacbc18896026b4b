// A recurrence that was written out turn by turn, rolled up and run by one kernel, beside what is written.

#include <gtest/gtest.h>

#include "base/random.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/unrolled/roll_loops.h"
#include "graph/print.h"
#include "graph/simplify.h"
#include "graph/verify.h"
#include "kernel/loop/row_split.h"
#include "tests/codegen/kernel_run.h"
#include "tests/graph/written_out.h"

namespace stitch::codegen::test {
namespace {

using graph::test::WrittenOut;

Bytes numbers(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = (static_cast<double>(random.below(2000)) - 1000) / 501;
  return bytes_of(graph::DType::f32, values);
}

void expect_rolled_right(const WrittenOut& how) {
  graph::Builder b;
  auto written = b.finish(graph::test::write_out(b, how));
  ASSERT_TRUE(written) << written.error().message;
  graph::Graph rolled = *written;
  ASSERT_TRUE(graph::remove_dead_code(rolled, {}));
  const auto loops = graph::roll_loops(rolled, {});
  ASSERT_TRUE(loops) << loops.error().message;
  ASSERT_GT(*loops, 0);
  ASSERT_TRUE(graph::remove_dead_code(rolled, {}));
  ASSERT_TRUE(kernel::recurrent_loop(rolled)) << "something stands beside the loop:\n" << graph::to_text(rolled);
  const KernelCase each = make_case(rolled);
  ASSERT_NE(each.program.recurrent, nullptr);
  EXPECT_EQ(each.program.recurrent->turns, how.turns);
  EXPECT_GE(each.program.blocks, 16) << "rows are along the dimension that has many";
  const std::int64_t weights = how.rows * how.columns, count = how.turns * weights;
  expect_right(each, {numbers(count, 1), numbers(count, 2), numbers(weights, 3), numbers(weights, 4)}, *written);
}

TEST(RolledLoopEmulated, IsWhatWasWritten) {
  expect_rolled_right({.turns = 96, .rows = 2, .columns = 160, .weight_of_rows = true});
}
TEST(RolledLoopEmulated, IsWhatWasWrittenBackwards) {
  expect_rolled_right({.turns = 96, .rows = 2, .columns = 160, .backward = true, .weight_of_rows = true});
}
TEST(RolledLoopEmulated, HandsOnItsLastState) {
  expect_rolled_right({.turns = 96, .rows = 160, .columns = 3, .final_state = true, .weight_of_rows = true});
}

TEST(RolledLoopEmulated, HandsOnStatesThroughProducts) {
  const graph::test::WrittenCell how{.turns = 12, .rows = 24, .units = 32, .input_product = false};
  graph::Builder b;
  auto written = b.finish(graph::test::write_out(b, how));
  ASSERT_TRUE(written) << written.error().message;
  graph::Graph rolled = *written;
  ASSERT_TRUE(graph::simplify(rolled)) << "nothing is left but a loop";
  ASSERT_TRUE(kernel::recurrent_loop(rolled)) << "something stands beside the loop:\n" << graph::to_text(rolled);
  const KernelCase each = make_case(rolled);
  ASSERT_NE(each.program.recurrent, nullptr);
  EXPECT_EQ(each.program.recurrent->turns, how.turns);
  expect_right(each,
               {numbers(how.turns * how.rows * how.units, 1), numbers(how.units * how.units, 2),
                numbers(how.units * how.units, 3)},
               *written);
}

}  // namespace
}  // namespace stitch::codegen::test
