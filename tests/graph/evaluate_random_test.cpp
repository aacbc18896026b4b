// The evaluator against a naive second implementation, on random graphs: values, parts, bounds.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "graph/reference/evaluate.h"
#include "graph/verify.h"
#include "tests/graph/naive_evaluate.h"
#include "tests/graph/random_graph.h"

namespace stitch::graph {
namespace {

using test::naive_evaluate;
using test::NaiveOptions;
using test::random_arguments;
using test::random_graph;
using test::RandomGraphOptions;
using test::SumOrder;

/// Every operator that the generator knows, several dtypes.
RandomGraphOptions everything(std::uint64_t seed) {
  RandomGraphOptions options;
  options.seed = seed;
  options.operators = 24;
  options.arg_reduce = options.max_exp_sum = options.scan = options.sort = options.reduce_window = options.scatter =
      options.dot = 2;
  options.function = 3;
  switch (seed % 4) {
    case 0: break;
    case 1: options.dtypes = {DType::f32, DType::bf16, DType::s32}; break;
    case 2: options.dtypes = {DType::f32, DType::f16, DType::u32, DType::pred, DType::s64}; break;
    default: options.dtypes = {DType::f64, DType::f32, DType::u8, DType::s8, DType::u64, DType::s16, DType::u16};
  }
  return options;
}

void expect_same_values(const Tensor& expected, const Tensor& actual, double relative, const std::string& what) {
  ASSERT_EQ(expected.type, actual.type) << what;
  EXPECT_EQ(expected.integers, actual.integers) << what;
  ASSERT_EQ(expected.floats.size(), actual.floats.size()) << what;
  for (std::size_t i = 0; i < expected.floats.size(); ++i) {
    const double x = expected.floats[i], y = actual.floats[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_LE(std::fabs(x - y), relative * std::max(1.0, std::fabs(x))) << what << " element " << i;
  }
}

void expect_same_bounds(const Tensor& expected, const Tensor& actual, const std::string& what) {
  ASSERT_EQ(expected.bounds.size(), actual.bounds.size()) << what;
  for (std::size_t i = 0; i < expected.bounds.size(); ++i) {
    const double e = expected.bounds[i], f = actual.bounds[i];
    ASSERT_TRUE(e == f || std::fabs(e - f) <= 1e-6 * e) << what << " bounds " << e << " " << f;
  }
}

class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, ValuesAreThoseOfTheNaiveInterpreter) {
  for (int k = 0; k < 20; ++k) {
    const std::uint64_t seed = GetParam() * 1000 + k;
    const Graph graph = random_graph(everything(seed));
    const std::vector<Tensor> arguments = random_arguments(graph, seed);
    const Result<std::vector<Tensor>> actual = evaluate(graph, arguments);
    ASSERT_TRUE(actual.ok()) << actual.error().message;
    const std::vector<Tensor> expected = naive_evaluate(graph, arguments);
    for (std::size_t r = 0; r < expected.size(); ++r) {
      expect_same_values(expected[r], (*actual)[r], 1e-9, fmt::format("seed {} result {}", seed, r));
    }
  }
}

/// A random box inside `dims`.
Box random_box(Random& random, const Dims& dims) {
  Box box;
  for (const std::int64_t extent : dims) {
    box.start.push_back(random.below(extent));
    box.size.push_back(1 + static_cast<std::int64_t>(random.below(extent - box.start.back())));
  }
  return box;
}

TEST_P(RandomGraphs, PartsAreThePartsOfTheWhole) {
  for (int k = 0; k < 20; ++k) {
    const std::uint64_t seed = GetParam() * 1000 + k;
    const Graph graph = random_graph(everything(seed));
    const std::vector<Tensor> arguments = random_arguments(graph, seed);
    EvaluateOptions options;
    options.bounds = true;
    const Result<std::vector<Tensor>> whole = evaluate(graph, arguments, options);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    Random random(seed);
    std::vector<std::vector<Box>> wanted;
    for (const Value& value : graph.results()) {
      std::vector<Box>& boxes = wanted.emplace_back();
      for (std::uint64_t n = random.below(4); n > 0; --n) boxes.push_back(random_box(random, graph.type(value).dims));
    }
    std::vector<Input> inputs;
    for (const Tensor& argument : arguments) inputs.push_back(input_of(argument));
    const auto parts = evaluate_parts(graph, inputs, wanted, options);
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      for (std::size_t b = 0; b < wanted[r].size(); ++b) {
        Tensor expected = Tensor::zeros((*whole)[r].type, wanted[r][b]);
        ASSERT_TRUE(input_of((*whole)[r])(expected).ok());
        const Tensor& actual = (*parts)[r][b];
        const std::string what = fmt::format("seed {} result {} box {}", seed, r, to_string(wanted[r][b]));
        expect_same_values(expected, actual, 1e-12, what);
        expect_same_bounds(expected, actual, what);
      }
    }
  }
}

TEST_P(RandomGraphs, ReductionsInPartsGiveWhatWholeOnesGive) {
  for (int k = 0; k < 20; ++k) {
    const std::uint64_t seed = GetParam() * 1000 + k;
    const Graph graph = random_graph(everything(seed));
    const std::vector<Tensor> arguments = random_arguments(graph, seed);
    EvaluateOptions options;
    options.bounds = true;
    const auto whole = evaluate(graph, arguments, options);
    options.most_reduced = 16;
    const auto parts = evaluate(graph, arguments, options);
    ASSERT_TRUE(whole.ok() && parts.ok()) << whole.error().message << parts.error().message;
    for (std::size_t r = 0; r < whole->size(); ++r) {
      const std::string what = fmt::format("seed {} result {}", seed, r);
      expect_same_values((*whole)[r], (*parts)[r], 1e-12, what);
      expect_same_bounds((*whole)[r], (*parts)[r], what);
    }
  }
}

TEST_P(RandomGraphs, KernelsOfAllSortsStayWithinTheBounds) {
  for (int k = 0; k < 20; ++k) {
    const std::uint64_t seed = GetParam() * 1000 + k;
    const Graph graph = random_graph(everything(seed));
    const std::vector<Tensor> arguments = random_arguments(graph, seed);
    EvaluateOptions options;
    options.bounds = true;
    const Result<std::vector<Tensor>> reference = evaluate(graph, arguments, options);
    ASSERT_TRUE(reference.ok()) << reference.error().message;
    std::int64_t checked = 0, all = 0;
    for (const SumOrder order : {SumOrder::forward, SumOrder::backward, SumOrder::pairwise, SumOrder::lanes}) {
      for (const bool round_narrow : {false, true}) {
        const std::vector<Tensor> kernel = naive_evaluate(graph, arguments, {true, round_narrow, order});
        for (std::size_t r = 0; r < kernel.size(); ++r) {
          const Tensor& expected = (*reference)[r];
          for (std::int64_t i = 0; i < expected.elements(); ++i) {
            const double bound = expected.bound(i);
            ++all;
            checked += std::isfinite(bound);
            ASSERT_TRUE(accepts(expected.at(i), bound, kernel[r].at(i)))
                << "seed " << seed << " result " << r << " element " << i << ": reference " << expected.at(i) << " ± "
                << bound << ", kernel " << kernel[r].at(i);
          }
        }
      }
    }
    EXPECT_GT(checked, all / 2) << "seed " << seed;
  }
}

TEST_P(RandomGraphs, TheGeneratorMakesVerifiedGraphsAndRepeatsItself) {
  for (int k = 0; k < 20; ++k) {
    const std::uint64_t seed = GetParam() * 1000 + k;
    const Graph graph = random_graph(everything(seed)), again = random_graph(everything(seed));
    const Status status = verify(graph);
    ASSERT_TRUE(status.ok()) << status.error().message;
    ASSERT_EQ(graph.size(), again.size());
    EXPECT_EQ(graph.results().size(), again.results().size());
    EXPECT_GE(graph.size(), 24);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, 12));

}  // namespace
}  // namespace stitch::graph
