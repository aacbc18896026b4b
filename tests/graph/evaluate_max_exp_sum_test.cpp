// max-exp-sum against the maximum, the exponentials and their sum by themselves, which it stands for.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double most = std::numeric_limits<float>::max();

std::vector<Tensor> evaluated(Builder& builder, const std::vector<Value>& results, const Tensor& x) {
  const Result<Graph> graph = builder.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  auto values = evaluate(*graph, std::vector{x}, options);
  if (!values) throw std::runtime_error(values.error().message);
  return std::move(*values);
}

std::vector<Tensor> joined(const Tensor& x, const Dims& along) {
  Builder b;
  const Value both = b.add(Op::max_exp_sum, {b.parameter(x.type.dtype, x.type.dims)}, MaxExpSumAttributes{along});
  return evaluated(b, {both, {both.node, 1}}, x);
}

std::vector<Tensor> one_by_one(const Tensor& x, const Dims& along, const Dims& kept) {
  Builder b;
  const Value in = b.parameter(x.type.dtype, x.type.dims), greatest = b.reduce(ReduceKind::max, in, along);
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, in, b.broadcast(greatest, x.type.dims, kept)));
  return evaluated(b, {greatest, b.reduce(ReduceKind::sum, e, along)}, x);
}

Tensor rows_of(DType dtype, const std::vector<std::vector<double>>& rows) {
  Tensor tensor = Tensor::zeros({dtype, {std::ssize(rows), std::ssize(rows[0])}});
  tensor.floats.clear();
  for (const auto& row : rows) tensor.floats.insert(tensor.floats.end(), row.begin(), row.end());
  return tensor;
}

TEST(EvaluateMaxExpSum, OfSpecialNumbersIsWhatTheThreeStepsGive) {
  const std::vector<std::vector<double>> rows = {
      {1, 2, 3, 4},
      {-infinity, -infinity, -infinity, -infinity},
      {-infinity, 2, -infinity, 1},
      {-infinity, -infinity, -infinity, 5},
      {infinity, 1, 2, 3},
      {1, infinity, infinity, -infinity},
      {nan, 1, 2, 3},
      {3, 2, 1, nan},
      {infinity, nan, 0, -infinity},
      {-most, -most, -most, -most},
      {-most, most, 0, 1},
      {-infinity, -most, -infinity, -most},
      {0, -0.0, 0, -0.0},
      {-200, 0, -90, -88},
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = rows_of(dtype, rows);
    const std::vector<Tensor> expected = one_by_one(x, {1}, {0}), actual = joined(x, {1});
    ASSERT_EQ(actual.size(), 2U);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t r = 0; r < 2; ++r) {
        const std::string where = fmt::format("{} row {} result {}", to_string(dtype), i, r);
        const double want = expected[r].floats[i], got = actual[r].floats[i];
        EXPECT_TRUE(want == got || (std::isnan(want) && std::isnan(got)) || std::fabs(want - got) < 1e-15 * want)
            << where << ": " << got << " instead of " << want;
        // What is checked of the three steps is checked of the one.
        EXPECT_TRUE(std::isfinite(actual[r].bound(i)) || std::isinf(expected[r].bound(i))) << where;
      }
      EXPECT_EQ(actual[0].bound(i), 0) << "the maximum is exact";
    }
  }
}

TEST(EvaluateMaxExpSum, ReducesAnyDimensions) {
  Tensor x = Tensor::zeros({DType::f32, {3, 4, 5}});
  Random random(3);
  for (double& value : x.floats) value = static_cast<float>(random.uniform() * 8 - 4);
  for (const auto& [along, kept] : {std::pair{Dims{0}, Dims{1, 2}},
                                    {Dims{1}, Dims{0, 2}},
                                    {Dims{0, 2}, Dims{1}},
                                    {Dims{0, 1, 2}, Dims{}},
                                    {Dims{}, Dims{0, 1, 2}}}) {
    const std::vector<Tensor> expected = one_by_one(x, along, kept), actual = joined(x, along);
    for (std::size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(actual[r].type, expected[r].type);
      for (std::int64_t i = 0; i < expected[r].elements(); ++i)
        EXPECT_NEAR(actual[r].at(i), expected[r].at(i), 1e-12 * expected[r].at(i) * (r == 0 ? 0 : 1));
    }
  }
}

/// What a kernel computes in f32 of a row cut into `threads` parts, each by vectors of `width`, the parts combined one
/// after the other. `rescales`: whether the sums so far are brought to a new maximum.
double in_single(const Tensor& x, std::size_t threads, std::size_t width, bool rescales) {
  struct Pair {
    float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
  };
  const auto combined = [&](const Pair& a, const Pair& b) {
    const float greatest = std::max(a.maximum, b.maximum);
    const float of_a = rescales ? a.sum * std::exp(a.maximum - greatest) : a.sum;
    return Pair{greatest, of_a + b.sum * std::exp(b.maximum - greatest)};
  };
  Pair total;
  const std::size_t part = x.floats.size() / threads;
  for (std::size_t t = 0; t < threads; ++t) {
    Pair own;
    for (std::size_t i = t * part; i < (t + 1) * part; i += width) {
      Pair run;
      for (std::size_t k = i; k < i + width; ++k) run.maximum = std::max(run.maximum, static_cast<float>(x.floats[k]));
      for (std::size_t k = i; k < i + width; ++k) run.sum += std::exp(static_cast<float>(x.floats[k]) - run.maximum);
      own = combined(own, run);
    }
    total = combined(total, own);
  }
  return total.sum;
}

TEST(EvaluateMaxExpSum, BoundsHoldForPairsInAnyOrderAndTellAMissingRescaling) {
  // As the numbers grow each element brings a new maximum; as they fall none does; and at random.
  for (const auto& [name, slope, spread] :
       {std::tuple{"rising", 1.0, 0.0}, {"falling", -1.0, 0.0}, {"random", 0.0, 1.0}}) {
    for (const double scale : {0.1, 3.0, 60.0}) {
      Tensor x = Tensor::zeros({DType::f32, {4096}});
      Random random(11);
      for (std::int64_t i = 0; i < 4096; ++i)
        x.floats[i] = static_cast<float>(scale * (slope * i / 4096 + spread * random.uniform()));
      const std::vector<Tensor> both = joined(x, {0}), apart = one_by_one(x, {0}, {});
      const double want = both[1].at(0), bound = both[1].bound(0);
      const std::string where = fmt::format("{} times {}", name, scale);
      for (const auto& [threads, width] : {std::pair{128, 1}, {32, 4}, {64, 8}, {128, 32}}) {
        EXPECT_LE(std::fabs(in_single(x, threads, width, true) - want), bound) << where;
        if (slope <= 0) continue;  // the first maximum stays
        EXPECT_GT(std::fabs(in_single(x, threads, width, false) - want), bound) << where;
      }
      // As tight as that of the three steps but for the rescalings.
      EXPECT_LT(bound, 12 * apart[1].bound(0)) << where;
      EXPECT_LT(bound, 1e-4 * want) << where;
    }
  }
}

}  // namespace
}  // namespace stitch::graph
