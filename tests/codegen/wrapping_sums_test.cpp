// Sums and products of signed integers wrap, and what is compared with them is compared with what wrapped.
#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "tests/codegen/contraction_case.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Whether each element is greater than its row's sum or product: without wrapping x > x + y would be 0 > y.
Result<graph::Graph> compared(DType dtype, ReduceKind kind) {
  Builder b;
  const Value x = b.parameter(dtype, {256, 8});
  const Value total = b.broadcast(b.reduce(kind, x, {1}), {256, 8}, {0});
  return b.finish({b.compare(graph::Comparison::gt, x, total)});
}

TEST(WrappingSumsEmulated, AreComparedAsTheyWrap) {
  for (const DType dtype : {DType::s32, DType::s64}) {
    for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::product}) {
      const std::uint64_t most = dtype == DType::s32 ? 0x7fffffff : std::numeric_limits<std::int64_t>::max();
      std::vector<std::uint64_t> bits;
      for (std::uint64_t i = 0; i < 256 * 8; ++i) bits.push_back(i % 3 == 0 ? most - i : i % 5);
      // A row in one thread, which knows all that it adds.
      const KernelCase each = make_case(compared(dtype, kind), [](const kernel::KernelProgram& program) {
        return program.phases[0].groups[0].reductions.empty() ||
               program.phases[0].groups[0].reductions[0].shuffles.empty();
      });
      expect_right(each, {bytes_of_bits(dtype, bits)});
    }
  }
}

/// The least integer added where an index says so, and what becomes of a number above zero.
TEST(WrappingSumsEmulated, OfAScatterAreComparedAsTheyWrap) {
  Builder b;
  const Value x = b.parameter(DType::s32, {64, 16}), rows = b.parameter(DType::s32, {4, 1});
  graph::ScatterAttributes scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  scatter.combiner = ReduceKind::sum;
  const Value updates = b.filled(DType::s32, {4, 16}, -2147483648.0);
  const Value summed = b.add(Op::scatter, {x, rows, updates}, scatter);
  const auto graph = b.finish({summed, b.compare(graph::Comparison::lt, summed, x)});
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<double> values(64 * 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 500;
  const KernelCase each = make_case(graph);
  expect_right(each, {bytes_of(DType::s32, values), bytes_of(DType::s32, std::vector<double>{3, 40, 3, -1})});
}

/// A product of matrices, on CUDA cores, and what is greater than it.
TEST(WrappingSumsEmulated, OfProductsAreComparedAsTheyWrap) {
  for (const DType dtype : {DType::s32, DType::s64}) {
    Builder b;
    const Value x = b.parameter(dtype, {24, 40}), w = b.parameter(dtype, {40, 24});
    const Value product = b.dot(x, w, {{}, {}, {1}, {0}, dtype});
    const auto graph = b.finish({b.compare(graph::Comparison::gt, product, b.parameter(dtype, {24, 24}))});
    ASSERT_TRUE(graph) << graph.error().message;
    const auto problem = kernel::derive_contraction(*graph);
    ASSERT_TRUE(problem) << problem.error().message;
    const auto schedule = kernel::default_schedule(*problem, *find_device("h100"));
    ASSERT_TRUE(schedule) << schedule.error().message;
    std::vector<std::vector<std::uint64_t>> bits(3);
    for (std::uint64_t i = 0; i < 24 * 40; ++i) {
      bits[0].push_back(0x0123456789abcdef * (i + 1));
      bits[1].push_back(0xfedcba9876543210 ^ i * i);
    }
    for (std::uint64_t i = 0; i < 24 * 24; ++i) bits[2].push_back(i % 2 == 0 ? i : ~i);
    expect_right(case_of(*problem, *schedule),
                 {bytes_of_bits(dtype, bits[0]), bytes_of_bits(dtype, bits[1]), bytes_of_bits(dtype, bits[2])});
  }
}

}  // namespace
}  // namespace stitch::codegen::test
