// Kernels that stand side by side in one launch: equal groups share their code, each with its own extent and pointers.
#include <gmock/gmock.h>

#include <regex>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using ::testing::HasSubstr;

std::ptrdiff_t functions(const std::string& source) {
  static const std::regex pattern(R"(__forceinline__ void group_)");
  return std::distance(std::sregex_iterator(source.begin(), source.end(), pattern), std::sregex_iterator());
}

/// Three tensors updated by each other, for every extent.
KernelCase updates(const std::vector<std::int64_t>& extents, DType dtype = DType::f32) {
  Builder b;
  std::vector<Value> results;
  for (const std::int64_t extent : extents) {
    const Value w = b.parameter(dtype, {extent}), g = b.parameter(dtype, {extent}), m = b.parameter(dtype, {extent});
    const Value next = b.binary(Op::add, b.binary(Op::multiply, m, b.filled(dtype, {extent}, 0.75)), g);
    results.push_back(next);
    results.push_back(b.binary(Op::subtract, w, next));
  }
  return make_case(b.finish(results));
}

std::vector<Bytes> random_inputs(const graph::Graph& graph) {
  Random random(3);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    std::vector<double> values(graph.node(id).type().elements());
    for (double& value : values) value = 4 * random.uniform() - 2;
    inputs.push_back(bytes_of(graph.node(id).type().dtype, values));
  }
  return inputs;
}

TEST(PackingEmulated, UpdatesOfDifferentLengthsShareTheirCode) {
  const KernelCase each = updates({100000, 100001, 100002, 100004, 150007, 131072, 262145, 99999});
  EXPECT_EQ(functions(each.kernel.source), 1) << each.kernel.source;
  EXPECT_THAT(each.kernel.source, HasSubstr("const s64 extent"));
  EXPECT_THAT(each.kernel.source, HasSubstr("8 tensors"));
  expect_right(each, random_inputs(*each.graph));
}

/// Two fills; the first has an index that places a slice of what is the same everywhere.
TEST(PackingEmulated, AParameterThatTheCodeDoesNotUseIsPassedToItsGroupAlone) {
  Builder b;
  const Value zeros = b.filled(DType::f16, {255}, 0), index = b.parameter(DType::s8, {});
  const Value slice = b.add(Op::dynamic_slice, {zeros, index}, graph::DynamicSliceAttributes{{161}});
  const KernelCase each = make_case(b.finish({slice, b.reshape(zeros, {1, 255})}));
  expect_right(each, {bytes_of(DType::s8, std::vector<double>{3})});
}

TEST(PackingEmulated, DifferentElementTypesDoNot) {
  Builder b;
  std::vector<Value> results;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f32, DType::bf16}) {
    const std::int64_t extent = 100000 + 1000 * std::ssize(results);
    results.push_back(b.binary(Op::add, b.parameter(dtype, {extent}), b.filled(dtype, {extent}, 1)));
  }
  const KernelCase each = make_case(b.finish(results));
  EXPECT_EQ(functions(each.kernel.source), 2) << each.kernel.source;
  expect_right(each, random_inputs(*each.graph));
}

TEST(PackingEmulated, EqualReductionsShareTheirCode) {
  Builder b;
  std::vector<Value> results;
  for (int i = 0; i < 4; ++i) results.push_back(b.reduce(ReduceKind::sum, b.parameter(DType::f32, {70, 300}), {1}));
  const KernelCase each = make_case(b.finish(results), profiler::test::one_phase);
  EXPECT_EQ(functions(each.kernel.source), 1) << each.kernel.source;
  expect_right(each, random_inputs(*each.graph));
}

TEST(PackingEmulated, TheTableHoldsEveryMember) {
  const KernelCase each = updates({65536, 65537, 100000});
  const auto integers = std::count_if(each.kernel.arguments.begin(), each.kernel.arguments.end(),
                                      [](const Argument& a) { return a.kind == Argument::Kind::integer; });
  EXPECT_EQ(each.kernel.arguments.size(), 3u * (3 + 2 + 2)) << "per tensor: inputs, results, extent and first tile";
  EXPECT_EQ(integers, 3 * 2);
}

// Lengths from one element on, each in code of its own where that suits it.
TEST(PackingEmulated, LengthsOfAllSizesAreRight) {
  const KernelCase each = updates({1, 3, 4, 127, 1000, 4097, 768, 5, 40000});
  expect_right(each, random_inputs(*each.graph));
}

// One sum over tensors of many sizes, then a factor for all: a gradient norm in one launch.
TEST(PackingEmulated, SumsOfManyTensorsMeetInOne) {
  Builder b;
  std::vector<Value> tensors;
  Value total{};
  for (const Dims& dims : {Dims{1000}, Dims{33, 7}, Dims{5}}) {
    tensors.push_back(b.parameter(DType::f32, dims));
    Dims all;
    for (std::size_t d = 0; d < dims.size(); ++d) all.push_back(d);
    const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, tensors.back(), tensors.back()), all);
    total = tensors.size() == 1 ? sum : b.binary(Op::add, total, sum);
  }
  const KernelCase each = make_case(b.finish({b.unary(Op::sqrt, total)}));
  expect_right(each, random_inputs(*each.graph));
}

}  // namespace
}  // namespace stitch::codegen::test
