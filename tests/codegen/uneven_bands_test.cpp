// A sweep that makes a value of each row beside values of each element, looping along the row: the row's part runs
// once.
#include <gtest/gtest.h>

#include "base/random.h"
#include "graph/builder.h"
#include "tests/codegen/wished_kernels.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Every element beside its row's maximum, and the sum of those maxima.
Result<graph::Graph> beside_maxima(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  const Value greatest = b.reduce(ReduceKind::max, x, {1});
  const Value beside = b.add(Op::subtract, {x, b.broadcast(greatest, {rows, columns}, {0})});
  return b.finish({beside, b.reduce(ReduceKind::sum, greatest, {0}), b.add(Op::exp, {greatest})});
}

/// A loop along the row within the sweep that has both.
bool loops_beside(const kernel::KernelProgram& program) {
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      for (const kernel::Sweep& sweep : group.sweeps) {
        if (sweep.anchors.size() > 1 && !group.inner_loops.empty()) return true;
      }
    }
  }
  return false;
}

/// The sum of a matrix's rows beside that of a tensor's that it weighs: one of two loops is not the matrix's.
Result<graph::Graph> beside_slices(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns, depth});
  const Value weight = b.parameter(DType::f32, {rows, columns});
  const Value weighed = b.add(Op::multiply, {x, b.broadcast(weight, {rows, columns, depth}, {0, 1})});
  return b.finish({b.reduce(ReduceKind::sum, weighed, {1, 2}), b.reduce(ReduceKind::sum, weight, {1})});
}

bool loops_over_two(const kernel::KernelProgram& program) {
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      for (const kernel::Sweep& sweep : group.sweeps) {
        if (sweep.anchors.size() > 1 && group.inner_loops.size() > 1) return true;
      }
    }
  }
  return false;
}

TEST(UnevenBandsEmulated, AMatrixBesideATensorIsCountedOnce) {
  const std::vector<KernelCase> cases = cases_of(beside_slices(4, 720, 120), loops_over_two, 4);
  ASSERT_FALSE(cases.empty());
  for (const KernelCase& each : cases) {
    expect_right(each, random_inputs(*each.graph));
  }
}

TEST(UnevenBandsEmulated, ARowsSumCountsItOnce) {
  const KernelCase each = make_case(beside_maxima(24, 20000), loops_beside);
  Random random(5);
  std::vector<double> values(24 * 20000);
  for (double& value : values) value = static_cast<double>(random.below(1000)) / 8;
  expect_right(each, {bytes_of(DType::f32, values)});
}

}  // namespace
}  // namespace stitch::codegen::test
