// What the reference says of values beyond the range of 8-bit floats: f8e4m3 has no infinities.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  std::string name;
  DType dtype;
  double x;
  std::function<Value(Builder&, Value)> make;
  double value;  ///< wanted
  double bound;  ///< wanted; negative: finite and not 0
};

Value times(Builder& b, Value x, double factor) { return b.binary(Op::multiply, x, b.scalar(b.dtype(x), factor)); }
Value inverse(Builder& b, Value x) { return b.binary(Op::divide, b.scalar(b.dtype(x), 1), x); }
Value log(Builder& b, Value x) { return b.unary(Op::log, x); }
Value exp(Builder& b, Value x) { return b.unary(Op::exp, x); }
/// Of 1 / x - 0.33333331, which may be negative for all that is known of it at x = 3.
Value log_of_little(Builder& b, Value x) {
  return log(b, b.binary(Op::subtract, inverse(b, x), b.scalar(b.dtype(x), 0.33333331)));
}

const Row rows[] = {
    {"log of 0", DType::f8e4m3, 0, log, nan, 0},
    {"log of 0", DType::f8e5m2, 0, log, -infinity, 0},
    {"exp beyond f32", DType::f8e4m3, 448, exp, nan, 0},
    {"exp beyond f32", DType::f8e5m2, 448, exp, infinity, 0},
    {"exp beyond f8", DType::f8e4m3, 7, exp, nan, 0},
    {"exp within it", DType::f8e4m3, 2, exp, std::exp(2.0), -1},
    // Which infinity it is says the sign of a zero, which no operator promises; both are NaN in f8e4m3.
    {"1 / 0", DType::f8e4m3, 0, inverse, nan, infinity},
    {"1 / 0", DType::f8e5m2, 0, inverse, infinity, infinity},
    {"a product beyond it", DType::f8e4m3, 448, [](Builder& b, Value x) { return times(b, x, -16); }, nan, 0},
    {"a product within it", DType::f8e4m3, 448, [](Builder& b, Value x) { return times(b, x, -0.5); }, -224, 0},
    {"a conversion beyond it", DType::f32, 1000, [](Builder& b, Value x) { return b.convert(x, DType::f8e4m3); }, nan,
     0},
    {"a conversion that may go either way", DType::f32, 464,
     [](Builder& b, Value x) { return b.convert(x, DType::f8e4m3); }, 464, infinity},
    {"a conversion of infinity", DType::f8e5m2, infinity,
     [](Builder& b, Value x) { return b.convert(x, DType::f8e4m3); }, nan, 0},
    // Whether a kernel has rounded it before it is read is left open.
    {"1 / log of 0", DType::f8e4m3, 0, [](Builder& b, Value x) { return inverse(b, log(b, x)); }, -0.0, infinity},
    {"1 / log of 0", DType::f8e5m2, 0, [](Builder& b, Value x) { return inverse(b, log(b, x)); }, -0.0, 0},
    {"the largest of log of 0 and 1", DType::f8e4m3, 0,
     [](Builder& b, Value x) { return b.binary(Op::maximum, log(b, x), b.scalar(b.dtype(x), 1)); }, 1, infinity},
    {"the sign of log of 0", DType::f8e4m3, 0, [](Builder& b, Value x) { return b.unary(Op::sign, log(b, x)); }, -1,
     infinity},
    {"whether log of 0 is finite", DType::f8e4m3, 0, [](Builder& b, Value x) { return b.unary(Op::is_inf, log(b, x)); },
     1, 1},
    {"the largest of several", DType::f8e4m3, 0,
     [](Builder& b, Value x) {
       const Value lines = b.concatenate({b.reshape(log(b, x), {1}), b.reshape(b.scalar(b.dtype(x), 1), {1})}, 0);
       return b.reduce(ReduceKind::max, lines, {0});
     },
     1, infinity},
    // Operators with bounded results make NaN of NaN all the same.
    {"the logistic function of log of 0", DType::f8e4m3, 0,
     [](Builder& b, Value x) { return b.unary(Op::logistic, log(b, x)); }, 0, infinity},
    {"tanh in f32 of log of 0", DType::f8e4m3, 0,
     [](Builder& b, Value x) { return b.unary(Op::tanh, b.convert(log(b, x), DType::f32)); }, -1, infinity},
    {"the sign of what may be NaN", DType::f32, 3,
     [](Builder& b, Value x) { return b.unary(Op::sign, log_of_little(b, x)); }, -1, infinity},
    {"what may be NaN, times 0 in a contraction", DType::f32, 3,
     [](Builder& b, Value x) {
       return b.dot(b.reshape(log_of_little(b, x), {1}), b.filled(b.dtype(x), {1}, 0), {{}, {}, {0}, {0}, b.dtype(x)});
     },
     0, infinity},
    // Products within a contraction stay in the accumulator.
    {"30 · 30 - 22 · 20", DType::f8e4m3, 30,
     [](Builder& b, Value x) {
       const Value one = b.reshape(x, {1});
       const Value left = b.concatenate({one, b.filled(b.dtype(x), {1}, -22)}, 0);
       return b.dot(left, b.concatenate({one, b.filled(b.dtype(x), {1}, 20)}, 0), {{}, {}, {0}, {0}, b.dtype(x)});
     },
     460, infinity},
};

TEST(EvaluateNarrow, BeyondTheRange) {
  for (const Row& row : rows) {
    Builder b;
    const Value x = b.parameter(row.dtype, {});
    const auto graph = b.finish({row.make(b, x)});
    ASSERT_TRUE(graph) << row.name << ": " << graph.error().message;
    Tensor argument = Tensor::zeros({row.dtype, {}});
    argument.floats[0] = row.x;
    EvaluateOptions options;
    options.bounds = true;
    const auto results = evaluate(*graph, std::vector{argument}, options);
    ASSERT_TRUE(results) << row.name << ": " << results.error().message;
    const double value = (*results)[0].at(0), bound = (*results)[0].bound(0);
    const std::string what = fmt::format("{} in {}: {} ± {}", row.name, to_string(row.dtype), value, bound);
    EXPECT_TRUE(value == row.value || (std::isnan(value) && std::isnan(row.value))) << what;
    EXPECT_TRUE(row.bound < 0 ? bound > 0 && std::isfinite(bound) : bound == row.bound) << what;
  }
}

// A value that is a result and read as well: NaN in memory, and either to its reader.
TEST(EvaluateNarrow, AResultThatIsReadAsWell) {
  Builder b;
  const Value x = b.parameter(DType::f8e4m3, {3});
  const Value l = log(b, x);
  const auto graph = b.finish({l, b.unary(Op::negate, l), b.convert(l, DType::f32), b.reverse(l, {0})});
  ASSERT_TRUE(graph);
  Tensor argument = Tensor::zeros({DType::f8e4m3, {3}});
  argument.floats = {0, 1, 0};
  EvaluateOptions options;
  options.bounds = true;
  const auto results = evaluate(*graph, std::vector{argument}, options);
  ASSERT_TRUE(results);
  EXPECT_TRUE(std::isnan((*results)[0].at(0)));
  EXPECT_EQ((*results)[0].bound(0), 0);
  EXPECT_EQ((*results)[0].at(1), 0);
  for (const std::size_t reader : {1, 2, 3}) {
    EXPECT_EQ((*results)[reader].bound(0), infinity) << reader;
    EXPECT_LT((*results)[reader].bound(1), 1) << reader;
  }
}

Tensor evaluated(Builder& b, Value result, std::vector<Tensor> arguments) {
  const Result<Graph> graph = b.finish({result});
  EXPECT_TRUE(graph) << graph.error().message;
  EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  const auto results = evaluate(*graph, arguments, options);
  EXPECT_TRUE(results) << results.error().message;
  return (*results)[0];
}

Tensor filled(DType dtype, std::int64_t count, double value) {
  Tensor tensor = Tensor::zeros({dtype, {count}});
  tensor.floats.assign(static_cast<std::size_t>(count), value);
  return tensor;
}

// A kernel that keeps the sum in its accumulator has a number, one that stores it an infinity.
TEST(NarrowReference, ASumOfIntegersBeyondTheTypeIsNotChecked) {
  for (const double element : {65504.0, 16376.0}) {
    Builder b;
    const Value x = b.parameter(DType::f16, {4});
    const Tensor sum = evaluated(b, b.reduce(ReduceKind::sum, x, {0}), {filled(DType::f16, 4, element)});
    EXPECT_EQ(sum.bound(0), 4 * element > 65504 ? infinity : 0) << element;
  }
}

TEST(NarrowReference, AnIndexBeyondWhatTheTypeHoldsMayBeRoundedOrNot) {
  Builder b;
  const Tensor index = evaluated(b, b.iota(DType::f8e4m3, {500}, 0), {});
  EXPECT_EQ(index.bound(16), 0);
  EXPECT_TRUE(accepts(index.at(17), index.bound(17), 16));
  EXPECT_TRUE(accepts(index.at(17), index.bound(17), 17));
  EXPECT_FALSE(accepts(index.at(17), index.bound(17), 18.5));
  EXPECT_EQ(index.bound(499), infinity);  // NaN where it is rounded
  Builder wide;
  const Tensor exact = evaluated(wide, wide.iota(DType::f32, {500}, 0), {});
  EXPECT_EQ(exact.bound(499), 0);
}

TEST(NarrowReference, ARemainderByWhatMayBeZeroIsNotChecked) {
  for (const Op op : {Op::remainder, Op::divide}) {
    Builder b;
    const Value x = b.parameter(DType::bf16, {1});
    const Value square = b.binary(Op::multiply, x, x);  // beyond f32's smallest number, and so zero in a kernel
    const Tensor rest = evaluated(b, b.binary(op, op == Op::divide ? b.filled(DType::bf16, {1}, 0) : square, square),
                                  {filled(DType::bf16, 1, 0x1p-126)});
    EXPECT_EQ(rest.bound(0), infinity) << to_string(op);
  }
}

}  // namespace
}  // namespace stitch::graph
