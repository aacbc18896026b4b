// Results that lie where parameters do: which pairs kernels are made for, and that such kernels are right whichever
// schedule they have.
#include "kernel/program/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "profiler/verify/verify.h"
#include "tests/codegen/wished_kernels.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using kernel::InPlace;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Result<Graph> in_place(Result<Graph> graph) {
  if (graph) graph->constraints.in_place = true;
  return graph;
}

/// An exponential average m of a gradient g, and a step by it: p' and m' of every tensor.
Result<Graph> momentum(const std::vector<Dims>& tensors, DType dtype = DType::f32) {
  Builder b;
  std::vector<Value> results;
  for (const Dims& dims : tensors) {
    const Value p = b.parameter(dtype, dims), g = b.parameter(dtype, dims), m = b.parameter(dtype, dims);
    const auto number = [&](double value) { return b.filled(dtype, dims, value); };
    const Value next =
        b.binary(Op::add, b.binary(Op::multiply, m, number(0.9)), b.binary(Op::multiply, g, number(0.1)));
    results.push_back(b.binary(Op::subtract, p, b.binary(Op::multiply, next, number(0.01))));
    results.push_back(next);
  }
  return b.finish(std::move(results));
}

/// x − its row's mean, or − its column's.
Result<Graph> centred(std::int64_t rows, std::int64_t columns, std::int64_t axis, DType dtype = DType::f32) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(dtype, dims);
  const Value sum = b.reduce(ReduceKind::sum, x, {axis});
  const Value mean = b.binary(Op::multiply, sum, b.filled(dtype, {dims[1 - axis]}, 1.0 / dims[axis]));
  return b.finish({b.binary(Op::subtract, x, b.broadcast(mean, dims, {1 - axis}))});
}

/// What is written at one place and read at another.
Result<Graph> moved(const std::string& how) {
  Builder b;
  const Value x = b.parameter(DType::f32, {512, 512});
  const Value y = how == "transposed" ? b.transpose(x, {1, 0})
                  : how == "turned"   ? b.reverse(x, {1})
                                      : b.binary(Op::add, x, b.reverse(x, {1}));
  return b.finish({b.unary(Op::exp, y)});
}

std::vector<KernelCase> some_cases(Result<Graph> graph, std::size_t most = 6) {
  return cases_of(
      in_place(std::move(graph)), [](const kernel::KernelProgram&) { return true; }, most);
}

profiler::Verification verified(const KernelCase& each) {
  profiler::EmulatedDevice device;
  const auto found =
      profiler::verify_kernel(device, *each.graph, each.program, each.kernel, compile(each.kernel), {.seed = 11});
  EXPECT_TRUE(found.ok()) << (found ? "" : found.error().message);
  return found ? *found : profiler::Verification{};
}

void expect_right_in_place(Result<Graph> graph, const std::vector<InPlace>& pairs) {
  const std::vector<KernelCase> cases = some_cases(std::move(graph));
  ASSERT_FALSE(cases.empty());
  for (const KernelCase& each : cases) {
    EXPECT_EQ(each.kernel.in_place, pairs) << each.kernel.source;
    const profiler::Verification found = verified(each);
    EXPECT_TRUE(found.correct) << found.failure << "\n" << each.kernel.source;
  }
}

TEST(InPlaceEmulated, AnOptimizersUpdate) {
  expect_right_in_place(momentum({{1024}}), {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}});
  expect_right_in_place(momentum({{37, 5}}, DType::bf16), {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}});
}

TEST(InPlaceEmulated, TensorsThatArePackedIntoOneKernel) {
  const std::vector<KernelCase> cases = some_cases(momentum({{1024}, {300}, {64, 8}}));
  ASSERT_FALSE(cases.empty());
  for (const KernelCase& each : cases) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      const int p = 3 * tensor, result = 2 * tensor;
      EXPECT_THAT(each.kernel.in_place, testing::IsSupersetOf({InPlace{p, result}, InPlace{p + 2, result + 1}}));
    }
    const profiler::Verification found = verified(each);
    EXPECT_TRUE(found.correct) << found.failure << "\n" << each.kernel.source;
  }
}

TEST(InPlaceEmulated, ARowThatIsReadBeforeItIsWritten) {
  for (const std::int64_t columns : {64, 1000, 1023, 5000}) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      for (const KernelCase& each : some_cases(centred(24, columns, 1, dtype))) {
        const profiler::Verification found = verified(each);
        EXPECT_TRUE(found.correct) << found.failure << "\n" << each.kernel.source;
      }
    }
  }
  const auto in_registers = [](const kernel::KernelProgram& p) {
    if (p.phases.size() != 1 || p.schedule.cluster != 1) return false;
    return std::ranges::all_of(p.phases[0].groups[0].sweeps, [](const auto& sweep) { return sweep.copied.empty(); });
  };
  for (const KernelCase& each : cases_of(in_place(centred(24, 64, 1)), in_registers, 6))
    EXPECT_EQ(each.kernel.in_place, (std::vector<InPlace>{{0, 0}})) << each.kernel.source;
}

TEST(InPlaceEmulated, WhatTwoPhasesReadIsLeftAlone) {
  for (const KernelCase& each : some_cases(centred(4096, 24, 0))) {
    if (each.program.phases.size() > 1) {
      EXPECT_THAT(each.kernel.in_place, IsEmpty());
    }
    const profiler::Verification found = verified(each);
    EXPECT_TRUE(found.correct) << found.failure << "\n" << each.kernel.source;
  }
}

TEST(InPlaceEmulated, WhatIsWrittenElsewhereThanItIsReadIsNotInPlace) {
  for (const char* how : {"transposed", "turned", "folded"}) expect_right_in_place(moved(how), {});
}

TEST(InPlaceEmulated, KernelsAreMadeForItOnlyWhereItIsAsked) {
  const auto all = [](const kernel::KernelProgram&) { return true; };
  for (const KernelCase& each : cases_of(momentum({{1024}}), all, 3)) {
    EXPECT_THAT(each.kernel.in_place, IsEmpty());
    EXPECT_THAT(each.kernel.source, HasSubstr("const f32* __restrict__ in0"));
  }
  for (const KernelCase& each : some_cases(momentum({{1024}}), 3)) {
    EXPECT_THAT(each.kernel.source, Not(HasSubstr("__restrict__ in0")));
    EXPECT_THAT(each.kernel.source, Not(HasSubstr("Cached::streamed"))) << "its loads see what is written";
  }
}

// Verification runs kernels in place: pairs that are none are found.
TEST(InPlaceEmulated, AWrongPairIsCaught) {
  for (const char* how : {"transposed", "turned", "folded"}) {
    std::vector<KernelCase> cases = some_cases(moved(how), 3);
    ASSERT_FALSE(cases.empty());
    for (KernelCase& each : cases) {
      each.kernel.in_place = {{0, 0}};
      EXPECT_FALSE(verified(each).correct) << how << "\n" << each.kernel.source;
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
