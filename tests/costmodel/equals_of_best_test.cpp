// What the explorer takes of kernels that the analytical model calls equal.
#include <gtest/gtest.h>

#include "costmodel/analytical.h"
#include "graph/builder.h"
#include "kernel/program/traffic.h"
#include "search/schedule/stitch_explorer.h"

namespace stitch::costmodel {
namespace {

// 8 MB are in L2 when they are read again: by time that is as good as keeping the row, which is what is wanted.
TEST(EqualsByTheModel, ARowIsKeptWhereReadingItAgainWouldBeAsFast) {
  graph::Builder b;
  const graph::Dims dims = {4096, 1024};
  const graph::Value x = b.convert(b.parameter(graph::DType::bf16, dims), graph::DType::f32);
  const graph::Value gain = b.parameter(graph::DType::bf16, {1024});
  const graph::Value squares = b.reduce(graph::ReduceKind::sum, b.binary(graph::Op::multiply, x, x), {1});
  const graph::Value mean = b.binary(graph::Op::multiply, squares, b.filled(graph::DType::f32, {4096}, 1.0 / 1024));
  const graph::Value scale = b.unary(graph::Op::rsqrt, mean);
  const graph::Value normal =
      b.convert(b.binary(graph::Op::multiply, x, b.broadcast(scale, dims, {0})), graph::DType::bf16);
  const graph::Graph graph = *b.finish({b.binary(graph::Op::multiply, b.broadcast(gain, dims, {1}), normal)});
  const auto found = search::explore_stitches(graph, AnalyticalScorer(*find_device("h100")), {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(kernel::scheduled_bytes(graph, found->front().program), kernel::kernel_bytes(graph));
}

}  // namespace
}  // namespace stitch::costmodel
