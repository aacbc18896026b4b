#include "kernel/structure/contraction.h"

#include <gtest/gtest.h>

#include "graph/reference/evaluate.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

struct Contraction {
  const char* name;
  Dims left, right;
  graph::DotAttributes attributes;
  DType dtype = DType::f32;
};

void PrintTo(const Contraction& contraction, std::ostream* out) { *out << contraction.name; }

class Contractions : public testing::TestWithParam<Contraction> {};

TEST_P(Contractions, AreSumsOfProducts) {
  const auto& [name, left, right, attributes, dtype] = GetParam();
  Builder b;
  const Value x = b.parameter(dtype, left), y = b.parameter(dtype, right);
  const Value sums = products_summed(b, {x, y}, attributes);
  const Graph graph = finished(b, {b.dot(x, y, attributes), b.convert(sums, attributes.result)});
  const auto results = graph::evaluate(graph, graph::test::random_arguments(graph, 5));
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_EQ((*results)[0].type, (*results)[1].type);
  ASSERT_GT((*results)[0].elements(), 1);
  for (std::int64_t i = 0; i < (*results)[0].elements(); ++i)
    EXPECT_NEAR((*results)[0].at(i), (*results)[1].at(i), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Contractions,
    testing::Values(Contraction{"matrices", {3, 4}, {4, 5}, {{}, {}, {1}, {0}, DType::f32}},
                    Contraction{"both_transposed", {4, 3}, {5, 4}, {{}, {}, {0}, {1}, DType::f32}},
                    Contraction{"batches_inside", {3, 2, 4}, {4, 5, 2}, {{1}, {2}, {2}, {0}, DType::f32}},
                    Contraction{"two_dimensions", {4, 3, 2}, {2, 5, 4}, {{}, {}, {0, 2}, {2, 0}, DType::f32}},
                    Contraction{"halves", {3, 4}, {4, 5}, {{}, {}, {1}, {0}, DType::f16}, DType::f16},
                    Contraction{"bytes", {3, 4}, {4, 5}, {{}, {}, {1}, {0}, DType::s32}, DType::s8}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::kernel::test
