// What reductions of generated kernels promise of their sums: accumulated in f32, statistics from centred values.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

const graph::TensorType& input_type(const KernelCase& each) {
  return each.graph->node(each.graph->parameters()[0]).type();
}

double element(const KernelOutcome& outcome, std::size_t result, DType dtype, std::size_t i) {
  return graph::load_element(dtype, &outcome.results[result][i * graph::byte_size(dtype)]);
}

// A sum of ones stops growing at 256 in bf16 and at 2048 in f16.
TEST(NumericsEmulated, SumsOfSixteenBitsAccumulateInF32) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Dims& dimensions : {Dims{1}, Dims{0}, Dims{0, 1}}) {
      Builder b;
      const std::int64_t extent = 8192;
      const Dims dims = dimensions == Dims{1}   ? Dims{3, extent}
                        : dimensions == Dims{0} ? Dims{extent, 3}
                                                : Dims{64, extent / 64};
      const Value x = b.parameter(dtype, dims);
      const KernelCase each = make_case(b.finish({b.reduce(ReduceKind::sum, x, dimensions)}));
      const std::vector<double> ones(input_type(each).elements(), 1);
      const KernelOutcome outcome = run(each, {bytes_of(dtype, ones)});
      EXPECT_EQ(element(outcome, 0, dtype, 0), extent) << graph::to_string(dtype) << "\n" << each.kernel.source;
    }
  }
}

// An intermediate sum may stay in f32: mean of 16-bit numbers whose sum is beyond f16.
TEST(NumericsEmulated, ARunningSumOfSixteenBitsAccumulatesInF32) {
  Builder b;
  const Value x = b.parameter(DType::bf16, {2, 1000});
  const KernelCase each =
      make_case(b.finish({b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false})}));
  const KernelOutcome outcome = run(each, {bytes_of(DType::bf16, std::vector<double>(2000, 1))});
  for (const std::size_t i : {255u, 256u, 511u, 999u}) {
    EXPECT_EQ(element(outcome, 0, DType::bf16, i), graph::round_to(DType::bf16, i + 1)) << i << "\n"
                                                                                        << each.kernel.source;
  }
}

struct Statistics {
  std::string name;
  Dims dims, reduced;
};
void PrintTo(const Statistics& each, std::ostream* out) { *out << each.name; }

class VarianceEmulated : public testing::TestWithParam<Statistics> {};

// 10,000 plus small noise: a sum of squares less the squared mean would keep no digit of the variance.
TEST_P(VarianceEmulated, KeepsItsDigitsFarFromZero) {
  const auto& [name, dims, reduced] = GetParam();
  Builder b;
  const Value x = b.parameter(DType::f32, dims);
  std::int64_t count = 1;
  Dims kept;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool gone = std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(d)) != reduced.end();
    if (gone) count *= dims[d];
    if (!gone) kept.push_back(d);
  }
  const auto mean_of = [&](Value value) {
    const Value sum = b.reduce(ReduceKind::sum, value, reduced);
    return b.binary(Op::divide, sum, b.filled(DType::f32, b.dims(sum), count));
  };
  const Value centred = b.binary(Op::subtract, x, b.broadcast(mean_of(x), dims, kept));
  const KernelCase each = make_case(b.finish({mean_of(b.binary(Op::multiply, centred, centred))}));

  Random random(5);
  std::vector<double> values(input_type(each).elements());
  for (double& value : values) value = 10000 + random.below(64) / 1024.0;
  const KernelOutcome outcome = run(each, {bytes_of(DType::f32, values)});

  const graph::Tensor input =
      graph::tensor_from_bytes(input_type(each), graph::Box::whole(dims), bytes_of(DType::f32, values));
  const auto reference = graph::evaluate(*each.graph, std::vector{input});
  ASSERT_TRUE(reference) << reference.error().message;
  for (std::size_t i = 0; i < (*reference)[0].floats.size(); ++i) {
    const double want = (*reference)[0].floats[i];
    // The mean is right to half an ulp of 10,000; its square is what is left of the error.
    EXPECT_NEAR(element(outcome, 0, DType::f32, i), want, 0.01 * want) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, VarianceEmulated,
                         testing::Values(Statistics{"rows", {16, 1000}, {1}}, Statistics{"columns", {1000, 16}, {0}},
                                         Statistics{"all", {100, 100}, {0, 1}},
                                         Statistics{"channels", {20, 6, 60}, {0, 2}}),
                         [](const auto& each) { return each.param.name; });

// Near and far, of both signs, at the quarters' ends and where no part of a turn is left in an f32.
TEST(NumericsEmulated, SineAndCosineAreRightWithoutLocalMemory) {
  Random random(3);
  std::vector<double> angles = {0.0, -0.0, 1e-30, 105615, 105616, -105616, 3.0e38, -3.4028234663852886e38, 16367173};
  for (int quarter = 1; quarter < 200; ++quarter) angles.push_back(quarter * std::numbers::pi / 2);
  while (angles.size() < 4096) angles.push_back((random.uniform() - 0.5) * std::exp2(random.below(129)));
  for (double& angle : angles) angle = static_cast<float>(angle);
  Builder b;
  const Value x = b.parameter(DType::f32, {static_cast<std::int64_t>(angles.size())});
  const KernelCase each = make_case(b.finish({b.unary(Op::sin, x), b.unary(Op::cos, x)}));
  const KernelOutcome outcome = run(each, {bytes_of(DType::f32, angles)});
  for (std::size_t i = 0; i < angles.size(); ++i) {
    for (const int result : {0, 1}) {
      const double want = result == 0 ? std::sin(angles[i]) : std::cos(angles[i]);
      const double ulp = std::exp2(std::ilogb(static_cast<float>(want)) - 23);
      EXPECT_NEAR(element(outcome, result, DType::f32, i), want, 1.51 * ulp) << result << " of " << angles[i];
    }
  }
  EXPECT_TRUE(std::signbit(element(outcome, 0, DType::f32, 1)));
  EXPECT_EQ(outcome.counters.local_load_lanes, 0U);
  for (const double infinite : {INFINITY, -INFINITY, NAN}) {
    const KernelOutcome nothing = run(each, {bytes_of(DType::f32, std::vector<double>(angles.size(), infinite))});
    EXPECT_TRUE(std::isnan(element(nothing, 0, DType::f32, 0)) && std::isnan(element(nothing, 1, DType::f32, 0)));
  }
}

// A value that the kernel reads again is also a result: it must reach memory, whole, once.
TEST(NumericsEmulated, AValueUsedInsideAndOutsideIsStored) {
  for (const Dims& dims : {Dims{40, 300}, Dims{3, 5000}, Dims{70, 3}}) {
    Builder b;
    const Value x = b.parameter(DType::f32, dims);
    const Value e = b.unary(Op::exp, x);
    const Value sum = b.reduce(ReduceKind::sum, e, {1});
    const Value share = b.binary(Op::divide, e, b.broadcast(sum, dims, {0}));
    const Value total = b.reduce(ReduceKind::sum, sum, {0});
    const KernelCase each = make_case(b.finish({e, share, sum, e, total}));
    Random random(1);
    std::vector<double> values(input_type(each).elements());
    for (double& value : values) value = 2 * random.uniform() - 1;
    expect_right(each, {bytes_of(DType::f32, values)});
    const KernelOutcome outcome = run(each, {bytes_of(DType::f32, values)});
    EXPECT_EQ(outcome.results[0], outcome.results[3]);
  }
}

}  // namespace
}  // namespace stitch::codegen::test
