// Rows of a length that vectors do not divide, read by vectors that are aligned in memory: every candidate is right at
// both ends of every row, and asks for fewer sectors than one that takes the elements one by one.
#include <gmock/gmock.h>

#include "tests/codegen/wished_kernels.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using ::testing::HasSubstr;

/// x·gain ÷ √mean(x²): an operand of columns, which begins elsewhere in a vector than its rows do.
Result<Graph> rms_norm(std::int64_t rows, std::int64_t columns, DType dtype) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value stored = b.parameter(dtype, dims), gain = b.parameter(dtype, {columns});
  const Value x = b.convert(stored, DType::f32);
  const Value squares = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, squares, b.filled(DType::f32, {rows}, 1e-3)));
  const Value scaled = b.convert(b.binary(Op::multiply, x, b.broadcast(scale, dims, {0})), dtype);
  return b.finish({b.binary(Op::multiply, scaled, b.broadcast(gain, dims, {1}))});
}

/// log Σ exp, and the gradient: the position in a row is a value.
Result<Graph> cross_entropy(std::int64_t rows, std::int64_t columns, DType dtype) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value stored = b.parameter(dtype, dims), labels = b.parameter(DType::s32, {rows});
  const Value x = b.convert(stored, DType::f32);
  const Value most = b.reduce(ReduceKind::max, x, {1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(most, dims, {0})));
  const Value sum = b.reduce(ReduceKind::sum, e, {1});
  const Value hit = b.compare(graph::Comparison::eq, b.iota(DType::s32, dims, 1), b.broadcast(labels, dims, {0}));
  const Value gradient =
      b.binary(Op::subtract, b.binary(Op::divide, e, b.broadcast(sum, dims, {0})), b.convert(hit, DType::f32));
  return b.finish({b.binary(Op::add, b.unary(Op::log, sum), most), b.convert(gradient, dtype)});
}

/// Two element types: one row's shift is a multiple of what the other's accesses need.
Result<Graph> mixed_softmax(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {batch, rows, columns};
  const Value x = b.parameter(DType::f16, dims), mask = b.parameter(DType::f32, {batch, columns});
  const Value y = b.binary(Op::add, b.convert(x, DType::f32), b.broadcast(mask, dims, {0, 2}));
  const Value most = b.reduce(ReduceKind::max, y, {2});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, y, b.broadcast(most, dims, {0, 1})));
  const Value sum = b.reduce(ReduceKind::sum, e, {2});
  const Value p = b.binary(Op::divide, e, b.broadcast(sum, dims, {0, 1}));
  return b.finish({p, b.convert(p, DType::f16)});
}

/// Rows within longer ones, from their third element on.
Result<Graph> inner_rows(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::bf16, {rows, columns + 7});
  const Value part = b.convert(b.slice(x, {0, 3}, {rows, columns + 3}), DType::f32);
  const Value sum = b.reduce(ReduceKind::sum, part, {1});
  return b.finish({sum, b.binary(Op::multiply, part, b.broadcast(sum, {rows, columns}, {0}))});
}

Result<Graph> with_bias(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), bias = b.parameter(DType::f32, {columns});
  const Value row = b.parameter(DType::f32, {rows});
  return b.finish(
      {b.binary(Op::multiply, b.binary(Op::add, x, b.broadcast(bias, dims, {1})), b.broadcast(row, dims, {0}))});
}

Result<Graph> half_softmax(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value most = b.reduce(ReduceKind::max, x, {1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(most, dims, {0})));
  const Value sum = b.reduce(ReduceKind::sum, e, {1});
  return b.finish({b.convert(b.binary(Op::divide, e, b.broadcast(sum, dims, {0})), DType::bf16)});
}

/// Mean and deviation of weighted rows: the weights, which lack the rows' axis, are kept in shared memory.
Result<Graph> weighted() {
  Builder b;
  const Dims dims = {4, 64, 8, 37};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value w = b.broadcast(b.parameter(DType::f32, {64}), dims, {1});
  const Value mean = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, w), {1, 3});
  const Value apart = b.binary(Op::subtract, x, b.broadcast(mean, dims, {0, 2}));
  return b.finish({b.reduce(ReduceKind::sum, b.binary(Op::multiply, w, b.binary(Op::multiply, apart, apart)), {1, 3})});
}

/// Rows that vectors divide, within rows that they do not.
Result<Graph> cut_rows(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x =
      b.convert(b.slice(b.parameter(DType::bf16, {rows, columns + 1}), {0, 0}, {rows, columns}), DType::f32);
  return b.finish({b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1})});
}

struct Shifted {
  std::string name;
  std::function<Result<Graph>()> graph;
  std::size_t least;     ///< candidates with shifted rows
  std::size_t most = 8;  ///< of them, spread evenly
};
void PrintTo(const Shifted& each, std::ostream* out) { *out << each.name; }

bool is_shifted(const kernel::KernelProgram& program) {
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      if (group.shift) return true;
    }
  }
  return false;
}

class ShiftedRowsEmulated : public testing::TestWithParam<Shifted> {};

TEST_P(ShiftedRowsEmulated, AreRightAtBothEnds) {
  const std::vector<KernelCase> cases = cases_of(GetParam().graph(), is_shifted, GetParam().most);
  EXPECT_GE(cases.size(), GetParam().least);
  for (const KernelCase& each : cases) {
    expect_right(each, random_inputs(*each.graph));
    if (HasFailure()) return;
  }
}

const Shifted shifted[] = {
    {"softmax_short", [] { return half_softmax(41, 37); }, 4},
    {"softmax_197", [] { return mixed_softmax(3, 5, 197); }, 4},
    {"softmax_by_4", [] { return half_softmax(9, 1500); }, 4},
    {"softmax_in_clusters", [] { return half_softmax(6, 9001); }, 8},
    {"softmax_f32", [] { return profiler::test::softmax(7, 1023); }, 4},
    {"rms_norm", [] { return rms_norm(13, 513, DType::bf16); }, 4},
    {"rms_norm_f16", [] { return rms_norm(5, 2050, DType::f16); }, 4},
    {"cross_entropy", [] { return cross_entropy(5, 5003, DType::bf16); }, 8},
    {"slices", [] { return inner_rows(11, 333); }, 4},
    {"weighted", weighted, 8, 40},
    {"cut_rows", [] { return cut_rows(13, 2048); }, 4},
    {"bias", [] { return with_bias(17, 1001); }, 2},
};
INSTANTIATE_TEST_SUITE_P(Graphs, ShiftedRowsEmulated, testing::ValuesIn(shifted),
                         [](const auto& each) { return each.param.name; });

// A warp's elements of 2 bytes fill two sectors and lie in three; its vectors fill sixteen and lie in seventeen at
// most.
TEST(ShiftedRowsEmulated, AskForFewerSectors) {
  const auto loaded = [](const Wish& wish) {
    const KernelCase each = cases_of(half_softmax(64, 4001), wish, 1).at(0);
    return run(each, random_inputs(*each.graph)).counters.global_loads;
  };
  const auto one_row = [](const kernel::KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases[0].groups[0];
    return p.phases.size() == 1 && p.schedule.cluster == 1 && !group.held.empty() &&
           group.extent(1, kernel::Level::lane) == 32;
  };
  const auto straight = loaded([&](const kernel::KernelProgram& p) { return one_row(p) && !is_shifted(p); });
  const auto aligned = loaded([&](const kernel::KernelProgram& p) { return one_row(p) && is_shifted(p); });
  const double bytes = 64 * 4001 * 2;
  EXPECT_GT(straight.sectors * 32, 1.4 * bytes);
  EXPECT_LT(aligned.sectors * 32, 1.1 * bytes);
  EXPECT_LT(aligned.requests * 4, straight.requests);
}

}  // namespace
}  // namespace stitch::codegen::test
