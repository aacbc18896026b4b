#include "kernel/rewrite/online_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/reference/evaluate.h"
#include "tests/graph/pass_case.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// How a sum of exponentials may be written; the defaults are what can be joined.
struct Written {
  Dims dims = {3, 4096}, along = {1}, kept = {0};
  DType dtype = DType::f32;
  Op function = Op::exp;
  ReduceKind first = ReduceKind::max, second = ReduceKind::sum;
  Dims other_along = {1};                ///< of the maximum
  bool swapped = false;                  ///< m − x
  bool of_another = false;               ///< the maximum is of another tensor
  bool softmax = false;                  ///< the exponentials are needed, too
  std::optional<double> otherwise = {};  ///< what the maximum is replaced by where it is not finite
};

Graph written(const Written& w) {
  Builder b;
  const Value x = b.parameter(w.dtype, w.dims), y = b.parameter(w.dtype, w.dims);
  Value greatest = b.reduce(w.first, w.of_another ? y : x, w.other_along);
  if (w.otherwise) {
    const Value other = b.filled(w.dtype, b.dims(greatest), *w.otherwise);
    greatest = b.select(b.unary(Op::is_finite, greatest), greatest, other);
  }
  const Value repeated = b.broadcast(greatest, w.dims, w.kept);
  const Value below = w.swapped ? b.binary(Op::subtract, repeated, x) : b.binary(Op::subtract, x, repeated);
  const Value e = b.unary(w.function, below), sum = b.reduce(w.second, e, w.along);
  const Value lse = b.binary(Op::add, greatest, b.unary(Op::log, sum));
  std::vector<Value> results = {lse, b.reduce(ReduceKind::max, y, w.along)};
  if (w.softmax) results.push_back(b.binary(Op::divide, e, b.broadcast(sum, w.dims, w.kept)));
  return finished(b, results);
}

int count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes(), [&](const graph::Node& node) { return node.op == op; });
}

TEST(OnlineSoftmax, JoinsAMaximumWithItsSum) {
  const std::pair<const char*, Written> cases[] = {
      {"rows", {}},
      {"f64", {.dtype = DType::f64}},
      {"columns", {.dims = {4096, 3}, .along = {0}, .kept = {1}, .other_along = {0}}},
      {"several dimensions", {.dims = {64, 3, 50}, .along = {0, 2}, .kept = {1}, .other_along = {0, 2}}},
      {"everything", {.dims = {4096}, .along = {0}, .kept = {}, .other_along = {0}}},
      {"exponentials are a result", {.softmax = true}},
      {"0 for what is not finite", {.otherwise = 0}},
  };
  for (const auto& [name, how] : cases) {
    const Graph before = written(how);
    const auto after = join_max_and_exp_sums(before);
    ASSERT_TRUE(after) << name;
    ASSERT_TRUE(graph::verify(*after).ok()) << name << ": " << graph::verify(*after).error().message;
    EXPECT_EQ(count(*after, Op::max_exp_sum), 1) << name;
    EXPECT_EQ(count(*after, Op::reduce), 1) << name << ": that of the other tensor is left";
    EXPECT_EQ(count(*after, Op::exp), how.softmax || how.otherwise ? 1 : 0) << name;
    EXPECT_LE(count(*after, Op::is_finite), 1) << name;
    ASSERT_EQ(after->parameters().size(), 2U) << name;
    ASSERT_EQ(after->results().size(), before.results().size()) << name;
    graph::test::expect_same_values(before, *after, 7, 1e-6, name);
    EXPECT_FALSE(join_max_and_exp_sums(*after)) << name << ": nothing is left to join";
  }
}

TEST(OnlineSoftmax, LeavesAloneWhatItIsNot) {
  const std::pair<const char*, Written> cases[] = {
      {"a short row", {.dims = {3, 1024}}},
      {"bf16, of which the maximum would be rounded", {.dtype = DType::bf16}},
      {"another function", {.function = Op::expm1}},
      {"the least", {.first = ReduceKind::min}},
      {"a product", {.second = ReduceKind::product}},
      {"the maximum less x", {.swapped = true}},
      {"1 for what is not finite", {.otherwise = 1}},
      {"another tensor's maximum", {.of_another = true}},
      {"along other dimensions", {.dims = {4096, 4096}, .kept = {1}, .other_along = {0}}},
      // A square: the maximum of row i is taken from column i.
      {"repeated along what it was not taken of", {.dims = {4096, 4096}, .kept = {1}}},
  };
  for (const auto& [name, how] : cases) EXPECT_FALSE(join_max_and_exp_sums(written(how))) << name;
  EXPECT_FALSE(join_max_and_exp_sums(layer_norm(4, 9000)));
}

// Of rows of which the maximum is no number, too.
TEST(OnlineSoftmax, KeepsWhatSpecialRowsGive) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const std::optional<double> otherwise : {std::optional<double>(), std::optional(0.0)}) {
    const Graph before = written({.dims = {6, 2500}, .otherwise = otherwise});
    const auto after = join_max_and_exp_sums(before);
    ASSERT_TRUE(after);
    std::vector<graph::Tensor> arguments = graph::test::random_arguments(before, 5);
    std::vector<double>& x = arguments[0].floats;
    std::fill_n(&x[0], 2500, -infinity);
    std::fill_n(&x[2500], 2499, -infinity);
    x[2 * 2500 + 7] = infinity;
    x[3 * 2500 + 9] = std::nan("");
    std::fill_n(&x[4 * 2500], 2500, -std::numeric_limits<float>::max());
    const auto expected = graph::evaluate(before, arguments, {}), actual = graph::evaluate(*after, arguments, {});
    ASSERT_TRUE(expected && actual);
    for (std::size_t i = 0; i < 6; ++i) {
      const double want = (*expected)[0].floats[i], got = (*actual)[0].floats[i];
      EXPECT_TRUE(want == got || std::fabs(want - got) < 1e-12 * std::fabs(want) ||
                  (std::isnan(want) && std::isnan(got)))
          << "row " << i << ": " << got << " instead of " << want;
    }
    EXPECT_EQ(std::isnan((*expected)[0].floats[0]), !otherwise) << "the row of −∞ alone";
  }
}

TEST(OnlineSoftmax, TakesSeveralSumsOfAKernel) {
  Builder b;
  const Dims dims = {2, 3000};
  std::vector<Value> results;
  for (int i = 0; i < 2; ++i) {
    const Value x = b.parameter(DType::f32, dims), greatest = b.reduce(ReduceKind::max, x, {1});
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(greatest, dims, {0})));
    results.push_back(b.reduce(ReduceKind::sum, e, {1}));
    results.push_back(greatest);
  }
  const Graph before = finished(b, results);
  const auto after = join_max_and_exp_sums(before);
  ASSERT_TRUE(after);
  EXPECT_EQ(count(*after, Op::max_exp_sum), 2);
  EXPECT_EQ(count(*after, Op::reduce), 0);
  graph::test::expect_same_values(before, *after, 3, 1e-6, "two");
}

}  // namespace
}  // namespace stitch::kernel::test
