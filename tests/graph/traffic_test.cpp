#include "graph/traffic.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

TEST(InterfaceBytes, CountParametersAndResultsOnce) {
  Builder b;
  const Value x = b.parameter(DType::bf16, {8, 16}), y = b.parameter(DType::f32, {16});
  b.parameter(DType::s64, {});  // unused: it is handed over all the same
  const Value wide = b.convert(x, DType::f32);
  const Value sum = b.binary(Op::add, wide, b.broadcast(y, {8, 16}, {1}));
  const auto graph = b.finish({sum, b.reduce(ReduceKind::sum, sum, {0, 1})});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(interface_bytes(*graph), 8 * 16 * 2 + 16 * 4 + 8 + 8 * 16 * 4 + 4);
}

}  // namespace
}  // namespace stitch::graph
