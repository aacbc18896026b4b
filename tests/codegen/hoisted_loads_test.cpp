// Kernels that load what is the same for all rows before the loop over them, and the same kernels that load it in every
// turn: both are right, and the latter ask for it more often.
#include <gmock/gmock.h>

#include "search/schedule/group_change.h"
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
using ::testing::Not;

/// A softmax of rows with a bias for each column, whose sums over the rows are wanted as well.
Result<Graph> biased_softmax(std::int64_t rows, std::int64_t columns, DType dtype) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value bias = b.convert(b.parameter(dtype, {columns}), DType::f32);
  const Value x = b.binary(Op::add, b.convert(b.parameter(dtype, dims), DType::f32), b.broadcast(bias, dims, {1}));
  const Value top = b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, top));
  const Value share = b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {1}), dims, {0}));
  return b.finish({b.convert(share, dtype), b.reduce(ReduceKind::sum, share, {0})});
}

/// Gradients of rows that are weighted by a gain of each column.
Result<Graph> weighted_backward(std::int64_t rows, std::int64_t columns, DType dtype) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.convert(b.parameter(dtype, dims), DType::f32), y = b.convert(b.parameter(dtype, dims), DType::f32);
  const Value gain = b.broadcast(b.convert(b.parameter(dtype, {columns}), DType::f32), dims, {1});
  const Value scaled = b.binary(Op::multiply, y, gain);
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, scaled, x), {1});
  const Value tilted = b.binary(Op::subtract, scaled, b.binary(Op::multiply, x, b.broadcast(sum, dims, {0})));
  return b.finish({b.convert(tilted, dtype), b.reduce(ReduceKind::sum, b.binary(Op::multiply, y, x), {0})});
}

bool hoists(const kernel::KernelProgram& program) { return !program.phases[0].groups[0].hoisted.empty(); }

bool has_tail_of_columns(const kernel::KernelProgram& program) {
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  return group.mapping.axes[1].covered() > group.extents[1];
}

KernelCase unhoisted(const KernelCase& each) {
  kernel::GroupMapping mapping = each.program.schedule.phases[0][0];
  mapping.hoists = false;
  auto program = search::with_mapping(each.program, 0, 0, std::move(mapping));
  if (!program) {
    throw std::runtime_error(program.error().message);
  }
  auto kernel = generate(*each.graph, *program, {});
  if (!kernel) {
    throw std::runtime_error(kernel.error().message);
  }
  return {each.graph, std::move(*program), std::move(*kernel)};
}

struct Rows {
  std::string name;
  std::function<Result<Graph>()> graph;
  Wish wish = hoists;
  std::size_t most = 4;  ///< kernels, spread evenly
};
void PrintTo(const Rows& rows, std::ostream* out) { *out << rows.name; }

class HoistedLoadsEmulated : public testing::TestWithParam<Rows> {};

TEST_P(HoistedLoadsEmulated, AreRightWhereverTheyAreMade) {
  const std::vector<KernelCase> cases = cases_of(GetParam().graph(), GetParam().wish, GetParam().most);
  EXPECT_EQ(cases.size(), GetParam().most);
  for (const KernelCase& each : cases) {
    const std::vector<Bytes> inputs = random_inputs(*each.graph);
    const KernelCase plain = unhoisted(each);
    const std::string_view once = "// the same for every iteration of the tile";
    EXPECT_THAT(each.kernel.source, HasSubstr(once));
    EXPECT_THAT(plain.kernel.source, Not(HasSubstr(once)));
    // What only some threads write in a turn is not what they had in the turn before.
    if (has_tail_of_columns(plain.program)) {
      EXPECT_THAT(plain.kernel.source, HasSubstr("] = {};"));
    }
    expect_right(each, inputs);
    expect_right(plain, inputs);
    if (HasFailure()) return;
  }
}

bool hoists_in_clusters(const kernel::KernelProgram& program) {
  return hoists(program) && program.schedule.cluster > 1;
}
bool hoists_ahead(const kernel::KernelProgram& program) {
  return hoists(program) && program.phases[0].groups[0].mapping.stages > 1;
}

const Rows weighted[] = {
    {"gains", [] { return weighted_backward(1024, 256, DType::f32); }},
    {"gains_of_rows_ahead", [] { return weighted_backward(1024, 256, DType::bf16); }, hoists_ahead},
    {"gains_of_odd_rows", [] { return weighted_backward(515, 203, DType::bf16); }},
    {"biases", [] { return biased_softmax(1024, 512, DType::bf16); }},
    {"biases_in_clusters", [] { return biased_softmax(24, 61002, DType::f32); }, hoists_in_clusters, 1},
};
INSTANTIATE_TEST_SUITE_P(Graphs, HoistedLoadsEmulated, testing::ValuesIn(weighted),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
