#include "graph/calls/find_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "graph/builder.h"
#include "graph/simplify.h"

namespace stitch::graph {
namespace {

/// What follows a product of [128,64] and [64,256], and which of it the call takes along.
struct EpilogueRow {
  std::string name;
  DType dtype;
  std::function<Value(Builder&, Value product)> tail;
  std::string taken;
};

void PrintTo(const EpilogueRow& row, std::ostream* out) { *out << row.name; }

class Epilogue : public testing::TestWithParam<EpilogueRow> {};

Value bias_of(Builder& b, DType dtype) { return b.broadcast(b.parameter(dtype, {256}), {128, 256}, {1}); }

TEST_P(Epilogue, IsTaken) {
  Builder b;
  const Value x = b.parameter(GetParam().dtype, {128, 64}), w = b.parameter(GetParam().dtype, {64, 256});
  DotAttributes a;
  a.lhs_contracting = {1};
  a.rhs_contracting = {0};
  a.result = GetParam().dtype;
  const Value tail = GetParam().tail(b, b.dot(x, w, a));
  const Result<Graph> graph = b.finish({tail});
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<LibraryCall> calls = find_library_calls(*graph);
  ASSERT_EQ(calls.size(), 1U);
  std::string taken;
  for (const NodeId id : calls[0].epilogue)
    taken += fmt::format("{}{}", taken.empty() ? "" : " ", to_string(graph->node(id).op));
  EXPECT_EQ(taken, GetParam().taken);
  EXPECT_EQ(calls[0].result.node, calls[0].epilogue.empty() ? calls[0].root : calls[0].epilogue.back());
}

INSTANTIATE_TEST_SUITE_P(
    LibraryCall, Epilogue,
    testing::Values(
        EpilogueRow{"Scale", DType::f32,
                    [](Builder& b, Value p) {
                      return b.binary(Op::multiply, p, b.filled(DType::f32, {128, 256}, 2));
                    },
                    "multiply"},
        EpilogueRow{"BiasRelu", DType::f32,
                    [](Builder& b, Value p) {
                      const Value biased = b.binary(Op::add, p, bias_of(b, DType::f32));
                      return b.binary(Op::maximum, biased, b.filled(DType::f32, {128, 256}, 0));
                    },
                    "add maximum"},
        EpilogueRow{"BiasAlongRowsIsNone", DType::f32,
                    [](Builder& b, Value p) {
                      return b.binary(Op::add, p, b.broadcast(b.parameter(DType::f32, {128}), {128, 256}, {0}));
                    },
                    ""},
        EpilogueRow{"Addend", DType::f32,
                    [](Builder& b, Value p) {
                      return b.binary(Op::add, p, b.parameter(DType::f32, {128, 256}));
                    },
                    "add"},
        EpilogueRow{"Transposed", DType::f32,
                    [](Builder& b, Value p) {
                      return b.transpose(p, {1, 0});
                    },
                    "transpose"},
        EpilogueRow{"Narrowed", DType::f32, [](Builder& b, Value p) { return b.convert(p, DType::bf16); }, "convert"},
        EpilogueRow{"NotWidened", DType::bf16, [](Builder& b, Value p) { return b.convert(p, DType::f32); }, ""},
        EpilogueRow{"NothingBehindAnExponential", DType::f32,
                    [](Builder& b, Value p) {
                      return b.transpose(b.unary(Op::exp, p), {1, 0});
                    },
                    ""}),
    [](const auto& row) { return row.param.name; });

// A weight's gradient: the product in bf16, transposed, kept in f32. The passes leave the transpose to the library.
TEST(LibraryCall, ATransposeStaysAboveAWideningConversion) {
  Builder b;
  const Value x = b.parameter(DType::bf16, {128, 64}), w = b.parameter(DType::bf16, {64, 256});
  DotAttributes a;
  a.lhs_contracting = {1};
  a.rhs_contracting = {0};
  a.result = DType::bf16;
  const Value transposed = b.convert(b.transpose(b.dot(x, w, a), {1, 0}), DType::f32);
  Result<Graph> graph = b.finish({b.binary(Op::multiply, transposed, transposed)});
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_TRUE(simplify(*graph));
  const std::vector<LibraryCall> calls = find_library_calls(*graph);
  ASSERT_EQ(calls.size(), 1U);
  for (NodeId id = 0; id < graph->size(); ++id) {
    const auto& taken = calls[0].epilogue;
    const bool is_taken = std::find(taken.begin(), taken.end(), id) != taken.end();
    EXPECT_TRUE(graph->node(id).op != Op::transpose || is_taken) << "a transpose is left to a kernel";
  }
  EXPECT_EQ(graph->type(calls[0].result).dtype, DType::bf16);
}

}  // namespace
}  // namespace stitch::graph
