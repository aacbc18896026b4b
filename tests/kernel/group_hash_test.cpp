#include "kernel/structure/group_hash.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// Hashes of the groups of a kernel that squares, doubles or sums independent tensors.
std::vector<Hash128> hashes(const std::function<void(Builder&, std::vector<Value>&)>& build) {
  Builder b;
  std::vector<Value> results;
  build(b, results);
  const Graph graph = finished(b, std::move(results));
  const AxisAnalysis analysis(graph);
  const auto structure = derive_structure(graph, analysis, {{}, {}});
  if (!structure) throw std::runtime_error(structure.error().message);
  std::vector<Hash128> list;
  for (const GroupStructure& group : structure->phases.at(0).groups) list.push_back(group_hash(graph, group));
  return list;
}

Value product(Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, y); }

TEST(GroupHash, GroupsThatComputeTheSameOfEquallyLargeTensorsAreEqual) {
  const auto list = hashes([](Builder& b, std::vector<Value>& results) {
    for (int i = 0; i < 3; ++i) {
      const Value x = b.parameter(DType::f32, {4096}), y = b.parameter(DType::f32, {4096});
      results.push_back(product(b, x, y));
    }
  });
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0], list[1]);
  EXPECT_EQ(list[0], list[2]);
}

TEST(GroupHash, SizesOperatorsTypesAndSharedOperandsTellGroupsApart) {
  const auto list = hashes([](Builder& b, std::vector<Value>& results) {
    const auto parameter = [&](DType dtype, std::int64_t size) { return b.parameter(dtype, {size}); };
    const Value x = parameter(DType::f32, 4096);
    results.push_back(product(b, parameter(DType::f32, 4096), parameter(DType::f32, 4096)));
    results.push_back(product(b, x, x));  // reads one tensor twice
    results.push_back(product(b, parameter(DType::f32, 8192), parameter(DType::f32, 8192)));
    results.push_back(product(b, parameter(DType::f16, 4096), parameter(DType::f16, 4096)));
    results.push_back(b.binary(Op::add, parameter(DType::f32, 4096), parameter(DType::f32, 4096)));
    results.push_back(product(b, parameter(DType::f32, 4096), b.slice(parameter(DType::f32, 8192), {0}, {8192}, {2})));
  });
  ASSERT_EQ(list.size(), 6U);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = i + 1; j < list.size(); ++j) EXPECT_NE(list[i], list[j]) << i << " and " << j;
  }
}

}  // namespace
}  // namespace stitch::kernel::test
