// Kernels of thousands of operators: no step of printing them may go as deep as they are long.

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/base/small_stack.h"
#include "tests/profiler/kernel_case.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;
using profiler::test::KernelCase;
using profiler::test::make_case;
using stitch::test::on_stack_of;

constexpr int length = 2000;
constexpr std::size_t small_stack = 256 << 10;  // a call for each operator takes more
constexpr std::size_t large_stack = 64 << 20;

Value chain(Builder& b, Value x) {
  for (int i = 0; i < length; ++i) x = b.unary(i % 2 == 0 ? Op::sin : Op::negate, x);
  return x;
}

/// How often the source says it.
int count_of(const std::string& source, const std::string& text) {
  int count = 0;
  for (std::size_t at = source.find(text); at != std::string::npos; at = source.find(text, at + 1)) ++count;
  return count;
}

void expect_printed(const KernelCase& each) {
  on_stack_of(small_stack, [&] {
    const auto kernel = generate(*each.graph, each.program, {});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_EQ(kernel->source, each.kernel.source);
  });
  EXPECT_EQ(count_of(each.kernel.source, "const f32 sin_"), length / 2);
}

TEST(LongChain, OfElementsIsPrinted) {
  on_stack_of(large_stack, [] {
    Builder b;
    const Value x = b.parameter(DType::f32, {64, 256});
    expect_printed(make_case(b.finish({chain(b, x)})));
  });
}

// Which items an update needs was asked by recursion.
TEST(LongChain, OfUpdatesOfAScatterIsPrinted) {
  on_stack_of(large_stack, [] {
    Builder b;
    const Value index = b.parameter(DType::s32, {20, 1}), x = b.parameter(DType::f32, {20, 24});
    graph::ScatterAttributes a;
    a.update_window_dims = {1};
    a.inserted_window_dims = {0};
    a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1;
    a.combiner = graph::ReduceKind::replace;
    expect_printed(
        make_case(b.finish({b.add(Op::scatter, {b.filled(DType::f32, {16, 24}, 1), index, chain(b, x)}, a)})));
  });
}

}  // namespace
}  // namespace stitch::codegen::test
