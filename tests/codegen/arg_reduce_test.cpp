// Where the extreme of a row is, when every element is as extreme as what a thread without elements begins with.
#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;

struct Extreme {
  bool maximum, last;
};

class ArgReduceEmulated : public testing::TestWithParam<Extreme> {};

TEST_P(ArgReduceEmulated, OfRowsOfInfinitiesIsAPlaceInTheRow) {
  const auto [maximum, last] = GetParam();
  for (const std::int64_t extent : {1, 5, 33, 100, 1000, 5000}) {
    Builder b;
    graph::ArgReduceAttributes a;
    a.dimension = 1;
    a.kind = maximum ? graph::ReduceKind::max : graph::ReduceKind::min;
    a.last = last;
    const graph::Value x = b.parameter(DType::f32, {3, extent});
    const graph::NodeId found = b.add(graph::Op::arg_reduce, {x}, a).node;
    const KernelCase each = make_case(b.finish({{found, 0}, {found, 1}}));
    const double worst = maximum ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    SCOPED_TRACE(extent);
    expect_right(each, {bytes_of(DType::f32, std::vector<double>(static_cast<std::size_t>(3 * extent), worst))});
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ArgReduceEmulated,
                         testing::Values(Extreme{true, false}, Extreme{true, true}, Extreme{false, false},
                                         Extreme{false, true}),
                         [](const auto& each) {
                           return fmt::format("{}_{}", each.param.maximum ? "greatest" : "least",
                                              each.param.last ? "last" : "first");
                         });

}  // namespace
}  // namespace stitch::codegen::test
