#include "profiler/verify/input_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "graph/literal.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler {
namespace {

using graph::Box;
using graph::DType;
using graph::TensorType;

std::vector<std::byte> device_bytes(const InputSource& source, std::int64_t bytes, std::int64_t page = 4096) {
  std::vector<std::byte> all(static_cast<std::size_t>(bytes));
  const Filler filler = source.filler();
  for (std::int64_t at = 0; at < bytes; at += page) {
    const std::size_t length = std::min(page, bytes - at);
    filler(static_cast<std::uint64_t>(at), std::span(all).subspan(static_cast<std::size_t>(at), length));
  }
  return all;
}

graph::Tensor reference_values(const InputSource& source, const TensorType& type, const Box& box) {
  graph::Tensor part = graph::Tensor::zeros(type, box);
  const Status status = source.input()(part);
  EXPECT_TRUE(status) << status.error().message;
  return part;
}

// The kernel and the reference must see the same numbers, whatever the dtype, distribution, page and box.
TEST(InputSource, DeviceBytesAreTheReferencesValues) {
  for (const DType dtype :
       {DType::pred, DType::s8, DType::u8, DType::s16, DType::u16, DType::s32, DType::u32, DType::s64, DType::u64,
        DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const Distribution distribution : default_distributions()) {
      const TensorType type{dtype, {13, 7, 29}};
      const InputSource source(type, distribution, 77, std::nullopt);
      const auto bytes = device_bytes(source, type.bytes());
      EXPECT_EQ(bytes, device_bytes(source, type.bytes(), 64)) << to_string(distribution);
      const graph::Tensor device = graph::tensor_from_bytes(type, Box::whole(type.dims), bytes);
      EXPECT_EQ(device, reference_values(source, type, Box::whole(type.dims)))
          << graph::to_string(dtype) << " " << to_string(distribution);
      const Box part{{2, 3, 5}, {9, 2, 11}};
      const graph::Tensor some = reference_values(source, type, part);
      graph::Dims index = part.start;
      for (std::int64_t i = 0; i < part.elements(); ++i, graph::next_index(part, index)) {
        ASSERT_EQ(some.at(i), device.at((index[0] * 7 + index[1]) * 29 + index[2]));
      }
    }
  }
}

// A byte that places something in a long row: numbers that it does not hold would reach the kernel as others.
TEST(InputSource, RangesEndWhereTheDtypeDoes) {
  for (const DType dtype : {DType::s8, DType::u8, DType::s16, DType::u16, DType::s32, DType::u32, DType::s64}) {
    for (const InputSource::Range range : {InputSource::Range{0, 100'000}, {-5'000'000'000, 5'000'000'000}}) {
      const TensorType type{dtype, {1000}};
      const InputSource source(type, Distribution::mixed, 3, range);
      const graph::Tensor device =
          graph::tensor_from_bytes(type, Box::whole(type.dims), device_bytes(source, type.bytes()));
      EXPECT_EQ(device, reference_values(source, type, Box::whole(type.dims))) << graph::to_string(dtype);
      const auto [least, most] = std::minmax_element(device.integers.begin(), device.integers.end());
      EXPECT_GE(*least, range.low);
      EXPECT_LE(*most, range.high);
      EXPECT_GT(*most, 100);
    }
  }
}

// The quick roundings are the table's: one of two neighbours, never further, and exact where the dtype holds it.
TEST(InputSource, SixteenBitValuesAreRoundedToTheNearest) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const TensorType exact{DType::f64, {4000}}, type{dtype, {4000}};
    for (const Distribution distribution : {Distribution::mixed, Distribution::small, Distribution::large}) {
      const auto wide = reference_values({exact, distribution, 5, std::nullopt}, exact, Box::whole({4000}));
      const auto narrow = reference_values({type, distribution, 5, std::nullopt}, type, Box::whole({4000}));
      for (std::int64_t i = 0; i < 4000; ++i) {
        // By way of f32, so that a tie may fall the other way: as near as the table's.
        const double table = graph::round_to(dtype, wide.at(i));
        ASSERT_NEAR(std::abs(narrow.at(i) - wide.at(i)), std::abs(table - wide.at(i)), 1e-7 * std::abs(wide.at(i)));
      }
    }
  }
}

TEST(InputSource, DistributionsAreWhatTheySay) {
  const TensorType type{DType::f32, {64, 128}};
  const auto values = [&](Distribution distribution) {
    return reference_values({type, distribution, 3, std::nullopt}, type, Box::whole(type.dims));
  };
  const auto statistics = [&](Distribution distribution) {
    const graph::Tensor all = values(distribution);
    double sum = 0, squares = 0;
    for (const double x : all.floats) {
      sum += x;
      squares += x * x;
    }
    const double n = all.floats.size();
    return std::pair(sum / n, std::sqrt(squares / n - sum / n * sum / n));
  };
  EXPECT_NEAR(statistics(Distribution::mixed).first, 0, 0.05);
  EXPECT_NEAR(statistics(Distribution::mixed).second, 1, 0.05);
  EXPECT_NEAR(statistics(Distribution::small).second, 1e-3, 1e-4);
  EXPECT_NEAR(statistics(Distribution::large).second, 100, 5);
  EXPECT_NEAR(statistics(Distribution::offset).first, 100, 0.1);
  EXPECT_NEAR(statistics(Distribution::offset).second, 0.1, 0.01);
  int denormals = 0;
  for (const double x : values(Distribution::denormal).floats) {
    denormals += x != 0 && std::abs(x) < graph::smallest_normal(DType::f32) ? 1 : 0;
  }
  EXPECT_NEAR(denormals, 64 * 128 / 4, 300);
  const graph::Tensor rows = values(Distribution::constant_rows);
  std::set<double> distinct;
  for (std::int64_t i = 0; i < rows.elements(); ++i) {
    ASSERT_EQ(rows.at(i), rows.at(i / 128 * 128));
    distinct.insert(rows.at(i));
  }
  EXPECT_GT(distinct.size(), 60U);
}

TEST(InputSource, SeedsDiffer) {
  const TensorType type{DType::f32, {100}};
  const auto values = [&](std::uint64_t seed) {
    return reference_values({type, Distribution::mixed, seed, std::nullopt}, type, Box::whole(type.dims));
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
}

TEST(InputSource, IntegersKeepToTheirRange) {
  const TensorType type{DType::s32, {1000}};
  const InputSource source(type, Distribution::large, 9, InputSource::Range{5, 11});
  std::set<std::int64_t> seen;
  for (const std::int64_t value : reference_values(source, type, Box::whole(type.dims)).integers) seen.insert(value);
  EXPECT_EQ(*seen.begin(), 5);
  EXPECT_EQ(*seen.rbegin(), 11);
  EXPECT_EQ(seen.size(), 7U);
}

// ---- integer_ranges -------------------------------------------------------------------------------------------

using namespace test;

std::string ranges_of(const Result<Graph>& graph) {
  if (!graph) return graph.error().message;
  std::string text;
  for (const auto& range : integer_ranges(*graph)) {
    text += range ? fmt::format("[{},{}] ", range->low, range->high) : "- ";
  }
  return text;
}

TEST(IntegerRanges, IndicesOfGathersAndScattersStayInside) {
  EXPECT_EQ(ranges_of(looked_up(50, 16, 8)), "- [0,49] ");
  EXPECT_EQ(ranges_of(scattered(30, 4, 8)), "- [0,29] - ");
}

// Every component of an index vector that is put together has its own limit: labels reach the last class although
// there are fewer rows.
TEST(IntegerRanges, ComponentsOfAnIndexVector) { EXPECT_EQ(ranges_of(picked(8, 1000)), "- [0,999] "); }

TEST(IntegerRanges, AVectorThatComesWholeTakesTheSmallestLimit) {
  Builder b;
  const Value x = b.parameter(DType::f32, {8, 1000}), index = b.parameter(DType::s32, {5, 2});
  graph::GatherAttributes gather;
  gather.collapsed_slice_dims = {0, 1};
  gather.start_index_map = {0, 1};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 1};
  EXPECT_EQ(ranges_of(b.finish({b.add(Op::gather, {x, index}, gather)})), "- [0,7] ");
}

TEST(IntegerRanges, SlicesLeaveRoomForTheirSize) {
  Builder b;
  const Value x = b.parameter(DType::f32, {20, 30});
  const Value row = b.parameter(DType::s32, {}), column = b.parameter(DType::s64, {});
  const Value part =
      b.add(Op::dynamic_slice, {x, b.convert(row, DType::s64), column}, graph::DynamicSliceAttributes{{5, 30}});
  EXPECT_EQ(ranges_of(b.finish({part})), "- [0,15] [0,0] ");
}

TEST(IntegerRanges, DivisorsAreNotZero) {
  Builder b;
  const Value x = b.parameter(DType::s32, {4}), y = b.parameter(DType::s32, {4}), z = b.parameter(DType::f32, {4});
  EXPECT_EQ(ranges_of(b.finish({b.binary(Op::remainder, x, y), b.binary(Op::divide, z, z)})), "- [1,7] - ");
}

// Some indices lie outside, so that every guard is seen, but not of what is measured; divisors never do.
TEST(RangesDrawn, IndicesLieOutsideTooButWhereKernelsAreMeasured) {
  const auto gather = looked_up(50, 16, 8);
  ASSERT_TRUE(gather) << gather.error().message;
  for (const Distribution distribution : default_distributions()) {
    const auto range = ranges_drawn(*gather, distribution)[1];
    ASSERT_TRUE(range);
    const std::int64_t beyond = distribution == Distribution::mixed ? 0 : 7;
    EXPECT_EQ(range->low, -beyond) << to_string(distribution);
    EXPECT_EQ(range->high, 49 + beyond) << to_string(distribution);
  }
  Builder b;
  const Value x = b.parameter(DType::s32, {4}), y = b.parameter(DType::s32, {4});
  const auto remainder = b.finish({b.binary(Op::remainder, x, y)});
  ASSERT_TRUE(remainder) << remainder.error().message;
  EXPECT_EQ(ranges_drawn(*remainder, Distribution::large)[1]->low, 1);
  EXPECT_EQ(ranges_drawn(*remainder, Distribution::large)[1]->high, 7);
}

// What decides is no index: a mask that selects between indices, and the indices of an index table's look-up, which
// have a limit of their own.
TEST(IntegerRanges, OnlyDataIsLimited) {
  Builder b;
  const Value table = b.parameter(DType::f32, {10, 4}), index = b.parameter(DType::s32, {6, 1});
  const Value limit = b.parameter(DType::s32, {6, 1});
  const Value chosen = b.select(b.compare(graph::Comparison::lt, limit, b.filled(DType::s32, {6, 1}, 0)), index,
                                b.filled(DType::s32, {6, 1}, 3));
  graph::GatherAttributes gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 4};
  EXPECT_EQ(ranges_of(b.finish({b.add(Op::gather, {table, chosen}, gather)})), "- [0,9] - ");

  Builder c;
  const Value rows = c.parameter(DType::f32, {10, 4}), indirect = c.parameter(DType::s32, {100, 1});
  const Value at = c.parameter(DType::s32, {6, 1});
  graph::GatherAttributes inner = gather;
  inner.slice_sizes = {1, 1};
  const Value looked = c.add(Op::gather, {indirect, at}, inner);
  EXPECT_EQ(ranges_of(c.finish({c.add(Op::gather, {rows, looked}, gather)})), "- [0,9] [0,99] ");
}

}  // namespace
}  // namespace stitch::profiler
