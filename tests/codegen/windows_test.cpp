// Select-and-scatter on the emulated device, as the operator and as what simplification makes of it: equals, NaN and
// infinities in every order.

#include <gtest/gtest.h>

#include <limits>
#include <ostream>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/simplify.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

struct PoolingRow {
  std::string name;
  DType dtype;
  ReduceKind select;
  std::int64_t size, stride, low, high;
};

void PrintTo(const PoolingRow& row, std::ostream* out) { *out << row.name; }

class PoolingGradientEmulated : public testing::TestWithParam<PoolingRow> {};
/// Windows that no kernel compares element by element.
class LargePoolingGradientEmulated : public testing::TestWithParam<PoolingRow> {};

Result<graph::Graph> gradient(const PoolingRow& row) {
  constexpr std::int64_t extent = 13, channels = 8;
  const std::int64_t count = (extent + row.low + row.high - row.size) / row.stride + 1;
  Builder b;
  const Value x = b.parameter(row.dtype, {2, extent, extent, channels});
  const Value source = b.parameter(row.dtype, {2, count, count, channels});
  const graph::SelectAndScatterAttributes a{row.select,
                                            {1, row.size, row.size, 1},
                                            {1, row.stride, row.stride, 1},
                                            {0, row.low, row.low, 0},
                                            {0, row.high, row.high, 0}};
  return b.finish({b.add(Op::select_and_scatter, {x, source}, a)});
}

/// Few distinct values, so that most windows have equals, and some that are no numbers; sources are small integers.
std::vector<Bytes> inputs_of(const KernelCase& each) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
  Random random(11);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : each.graph->parameters()) {
    const graph::TensorType& type = each.graph->node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) {
      value = static_cast<double>(random.below(5)) - 2;
      if (inputs.empty() && graph::is_floating(type.dtype) && random.below(6) == 0) value = special[random.below(3)];
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

TEST_P(PoolingGradientEmulated, EveryWindowSelectsOneElement) {
  const KernelCase each = make_case(gradient(GetParam()));
  expect_right(each, inputs_of(each));
}

void expect_right_simplified(const PoolingRow& row) {
  Result<graph::Graph> graph = gradient(row);
  ASSERT_TRUE(graph && graph::simplify(*graph));
  const KernelCase each = make_case(std::move(graph));
  expect_right(each, inputs_of(each));
}

TEST_P(PoolingGradientEmulated, Simplified) { expect_right_simplified(GetParam()); }
TEST_P(LargePoolingGradientEmulated, Simplified) { expect_right_simplified(GetParam()); }

const PoolingRow pooling_rows[] = {
    {"side_by_side", DType::f32, ReduceKind::max, 2, 2, 0, 0},
    {"side_by_side_smallest", DType::f16, ReduceKind::min, 3, 3, 0, 0},
    {"overlapping", DType::f32, ReduceKind::max, 3, 2, 0, 0},
    {"overlapping_smallest", DType::bf16, ReduceKind::min, 3, 2, 0, 0},
    {"overlapping_integers", DType::s32, ReduceKind::max, 3, 1, 0, 0},
    {"padded", DType::f32, ReduceKind::max, 3, 2, 1, 1},
    {"padded_integers", DType::s16, ReduceKind::min, 2, 2, 1, 0},
    {"gaps", DType::f64, ReduceKind::max, 2, 3, 0, 0},
};
INSTANTIATE_TEST_SUITE_P(Windows, PoolingGradientEmulated, testing::ValuesIn(pooling_rows),
                         [](const auto& each) { return each.param.name; });

const PoolingRow large_pooling_rows[] = {
    {"side_by_side", DType::f32, ReduceKind::max, 5, 5, 0, 0},
    {"side_by_side_smallest", DType::bf16, ReduceKind::min, 6, 6, 0, 0},
    {"padded", DType::f32, ReduceKind::max, 5, 5, 2, 0},
    {"integers", DType::s16, ReduceKind::max, 5, 5, 1, 1},
    {"everything", DType::f32, ReduceKind::max, 13, 1, 0, 0},
    {"overlapping", DType::f32, ReduceKind::max, 5, 4, 1, 0},
    {"scattered", DType::s32, ReduceKind::max, 5, 1, 0, 0},
};
INSTANTIATE_TEST_SUITE_P(Windows, LargePoolingGradientEmulated, testing::ValuesIn(large_pooling_rows),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
