// The two buffers of exchanges in shared memory, where blocks of a cluster read one another's: what they read is not
// overwritten before they have.

#include <gtest/gtest.h>

#include <map>

#include "graph/builder.h"
#include "tests/codegen/wished_kernels.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Rows whose maximum blocks find together, and columns of what becomes of them, twice.
Result<graph::Graph> rows_and_columns() {
  Builder b;
  const graph::Dims dims{13, 4, 48};
  const Value x = b.parameter(DType::f32, dims);
  const Value row = b.reduce(ReduceKind::max, x, {1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(row, dims, {0, 2})));
  const Value column = b.reduce(ReduceKind::max, e, {0});
  const Value d = b.binary(Op::subtract, e, b.broadcast(column, dims, {1, 2}));
  const Value sum = b.reduce(ReduceKind::sum, d, {0});
  return b.finish({b.binary(Op::divide, d, b.broadcast(sum, dims, {1, 2}))});
}

/// An exchange of a cluster's blocks, then two that stay within a block.
bool reads_of_blocks_then_two_of_its_own(const kernel::KernelProgram& program) {
  if (program.phases.size() != 1 || program.phases[0].groups.size() != 1) return false;
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  std::map<int, bool> crosses_cluster;
  for (const kernel::ReductionPlan& plan : group.reductions) {
    if (plan.exchange > 1 || plan.cluster > 1)
      crosses_cluster[group.structure.anchors[plan.anchor].sweep] |= plan.cluster > 1;
  }
  std::vector<bool> sweeps;
  for (const auto& [sweep, crosses] : crosses_cluster) sweeps.push_back(crosses);
  return sweeps == std::vector{true, false, false};
}

TEST(ClusterExchangeEmulated, ABufferIsFreeWhenTheOtherBlocksHaveReadIt) {
  const auto cases = cases_of(rows_and_columns(), reads_of_blocks_then_two_of_its_own, 3);
  ASSERT_FALSE(cases.empty());
  for (const KernelCase& each : cases) {
    EXPECT_TRUE(profiler::test::verify(each).correct) << each.kernel.source;
    const KernelCase never_arrives = profiler::test::mutated(
        each, "cluster_arrive();  // the others may leave: their shared memory has been read", "");
    const KernelCase never_waits = profiler::test::mutated(
        never_arrives, "cluster_wait();  // the other blocks have read what is overwritten", "");
    EXPECT_FALSE(profiler::test::verify(never_waits).correct) << never_waits.kernel.source;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
