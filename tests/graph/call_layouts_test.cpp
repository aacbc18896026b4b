#include "graph/calls/call_layouts.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/calls/call_leaves.h"
#include "graph/calls/find_calls.h"
#include "graph/calls/strided_matmul.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t heads = 12, depth = 64;

/// A projection to heads and the scores of these, of so many sequences.
class HeadsGraph {
 public:
  explicit HeadsGraph(std::int64_t batch, std::int64_t rows = 128) : batch_(batch), rows_(rows) {}

  Graph make() {
    const Value x = b_.parameter(DType::f16, {batch_, rows_, heads * depth});
    const Value queries = projected(x), keys = projected(x);
    const Value scores = b_.dot(queries, keys, {{0, 1}, {0, 1}, {3}, {3}, DType::f16});
    return *b_.finish({scores});
  }

 private:
  Value projected(Value x) {
    const Value w = b_.parameter(DType::f16, {heads * depth, heads * depth});
    const Value plain = b_.dot(x, w, {{}, {}, {2}, {0}, DType::f16});
    return b_.transpose(b_.reshape(plain, {batch_, rows_, heads, depth}), {0, 2, 1, 3});
  }

  const std::int64_t batch_, rows_;
  Builder b_;
};

/// Of all calls: of a BLAS, and of the graph's.
std::pair<std::int64_t, std::size_t> calls_in(const Graph& graph, bool quick) {
  LibraryOptions options;
  options.quick_layouts = quick;
  const std::vector<LibraryCall> calls = find_library_calls(graph, options);
  std::int64_t all = 0;
  for (const LibraryCall& call : calls) {
    const Result<Graph> own = own_graph(graph, call);
    if (!own) throw std::runtime_error(own.error().message);
    const auto matmul = describe_matmul(*own);
    all += matmul ? matmul->calls() : 1;
  }
  return {all, calls.size()};
}

TEST(CallLayouts, HeadsAreWrittenOutWhereTheyMakeManyCalls) {
  const Graph graph = HeadsGraph(8).make();
  EXPECT_GT(calls_in(graph, false).first, 20);
  EXPECT_EQ(calls_in(graph, true), std::pair(std::int64_t{3}, std::size_t{3}));
}

TEST(CallLayouts, OneSequenceIsReadAsItLies) {
  const Graph graph = HeadsGraph(1).make();
  const auto plain = calls_in(graph, false), quick = calls_in(graph, true);
  EXPECT_EQ(plain.first, 3);
  EXPECT_EQ(quick, plain);
  LibraryOptions options;
  options.quick_layouts = true;
  for (const LibraryCall& call : find_library_calls(graph, options)) {
    if (graph.node(call.root).type().dims.size() < 4) continue;
    for (const Value operand : call.operands) EXPECT_NE(graph.node(operand.node).op, Op::transpose) << "read through";
  }
}

/// Two calls are quicker than moving hundreds of megabytes.
TEST(CallLayouts, LargeTensorsStay) {
  const Graph graph = HeadsGraph(2, 65536).make();
  EXPECT_GT(calls_in(graph, true).first, 3);
}

}  // namespace
}  // namespace stitch::graph
