// The two buffers of exchanges in shared memory, where blocks of a cluster read one another's: what they read is not
// overwritten before they have.

#include <gtest/gtest.h>

#include <map>

#include "graph/builder.h"
#include "tests/codegen/wished_kernels.h"
#include "tests/kernel/example_graphs.h"

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

/// What a norm's backward takes of rows whose index is two dimensions.
Result<graph::Graph> rows_of_two_dimensions(const graph::Dims& dims) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, dims);
  const Value product = b.binary(Op::multiply, x, y);
  const Value row = b.reduce(ReduceKind::sum, product, {2});
  return b.finish(
      {b.binary(Op::subtract, x, b.broadcast(row, dims, {0, 1})), b.reduce(ReduceKind::sum, product, {0, 1})});
}

/// Of one cluster nobody waits for another.
bool waits_in_clusters(const kernel::KernelProgram& program) {
  return program.phases.size() > 1 && program.schedule.cluster > 1 && program.clusters() > 1;
}

TEST(ClusterExchangeEmulated, ClustersOfSeveralPhasesWaitForTheGrid) {
  for (const auto& graph :
       {Result<graph::Graph>(kernel::test::layer_norm_backward(12, 36000)),
        Result<graph::Graph>(kernel::test::layer_norm_backward(5, 30001)), rows_of_two_dimensions({3, 4, 32'000})}) {
    const auto cases = cases_of(graph, waits_in_clusters, 4);
    ASSERT_FALSE(cases.empty());
    for (const KernelCase& each : cases) {
      EXPECT_TRUE(profiler::test::verify(each).correct) << each.kernel.source;
      const std::string barrier = fmt::format("grid_barrier<{}>(", each.program.schedule.cluster);
      const std::size_t at = each.kernel.source.find(barrier);
      ASSERT_NE(at, std::string::npos) << each.kernel.source;
      const std::string line = each.kernel.source.substr(at, each.kernel.source.find(';', at) + 1 - at);
      EXPECT_FALSE(profiler::test::verify(profiler::test::mutated(each, line, "")).correct) << each.kernel.source;
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
