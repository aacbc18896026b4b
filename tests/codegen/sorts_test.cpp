// Sorts on the emulated device, under its race detector: every way to lay lines over threads, every element type,
// edge values and ties, lengths that are no power of two, what surrounds a sort, and what a missing barrier does.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <ostream>
#include <set>
#include <tuple>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/program/sort_plan.h"
#include "kernel/rewrite/small_selection.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::SortAttributes;
using graph::Value;

/// Threads of a line, elements of each, lines of a block.
using Lay = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Lay lay_of(const kernel::KernelProgram& program) {
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  const kernel::SortPlan plan = kernel::sort_plan(group.structure, group.mapping, program.schedule.threads);
  return {plan.threads, plan.elements, plan.lines};
}

/// Floats with many ties, infinities, zeros of both signs and NaN; integers of all bits, and small ones.
Bytes keys(DType dtype, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  if (!graph::is_floating(dtype)) {
    std::vector<std::uint64_t> bits(count);
    for (std::uint64_t& each : bits) {
      each = random.below(2) == 0 ? random.below(5) : random.below(~std::uint64_t{0});
      if (dtype == DType::pred) each %= 2;
    }
    return bytes_of_bits(dtype, bits);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0, -0.0, 1, -1};
  std::vector<double> values(count);
  for (double& value : values) {
    value = random.below(4) == 0 ? special[random.below(special.size())]
                                 : (static_cast<double>(random.below(2000)) - 1000) / 64;
  }
  return bytes_of(dtype, values);
}

struct SortRow {
  std::string name;
  Dims dims;
  std::int64_t dimension;
  DType dtype;
  bool descending = false;
  std::int64_t count = -1;
  std::vector<DType> along = {};  ///< element types of what goes along
  int combinations = 1;           ///< of the space: 8 are several lays a block size
};
void PrintTo(const SortRow& row, std::ostream* out) { *out << row.name; }

Result<graph::Graph> sort_of(const SortRow& row) {
  Builder b;
  std::vector<Value> operands = {b.parameter(row.dtype, row.dims)};
  for (const DType dtype : row.along) operands.push_back(b.parameter(dtype, row.dims));
  operands.push_back(b.iota(DType::s32, row.dims, row.dimension));
  const std::int64_t count = row.count < 0 ? row.dims[row.dimension] : row.count;
  const Value sort = b.add(Op::sort, operands, SortAttributes{row.dimension, row.descending, count});
  std::vector<Value> results;
  for (std::int32_t r = 0; r < std::ssize(operands); ++r) results.push_back({sort.node, r});
  return b.finish(results);
}

class SortsEmulated : public testing::TestWithParam<SortRow> {};

TEST_P(SortsEmulated, AreRightInEveryLay) {
  std::set<Lay> lays;
  const auto fresh = [&](const kernel::KernelProgram& program) { return lays.insert(lay_of(program)).second; };
  while (true) {
    std::optional<KernelCase> each;
    try {
      each = make_case(sort_of(GetParam()), fresh, {.keep = 100'000, .combinations = GetParam().combinations});
    } catch (const std::runtime_error&) {
      break;  // none is left
    }
    std::vector<Bytes> inputs;
    for (const graph::NodeId p : each->graph->parameters()) {
      const graph::TensorType& type = each->graph->node(p).type();
      inputs.push_back(keys(type.dtype, type.elements(), inputs.size() + 1));
    }
    SCOPED_TRACE(fmt::format("{} threads a line, {} elements each, {} lines", std::get<0>(*lays.rbegin()),
                             std::get<1>(*lays.rbegin()), std::get<2>(*lays.rbegin())));
    expect_right(*each, inputs);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GE(lays.size(), 2U);
}

const SortRow sort_rows[] = {
    {"rows", {5, 256}, 1, DType::f32, false, -1, {}, 8},
    {"odd_rows", {3, 301}, 1, DType::f32, true},
    {"top_of_rows", {70, 64}, 1, DType::bf16, true, 6, {DType::f16}},
    {"short_rows", {130, 3}, 1, DType::f32, false, 2},
    {"pairs", {9, 2}, 1, DType::s32, true},
    {"one_line", {1000}, 0, DType::s32},
    {"columns", {2, 37, 5}, 1, DType::f32, true, 11, {DType::f64, DType::pred}, 8},
    {"u8", {4, 100}, 1, DType::u8, true},
    {"s8", {4, 100}, 1, DType::s8},
    {"u16", {4, 100}, 1, DType::u16},
    {"s16", {4, 100}, 1, DType::s16, true},
    {"u32", {4, 100}, 1, DType::u32, true},
    {"u64", {4, 100}, 1, DType::u64},
    {"s64", {4, 100}, 1, DType::s64, true, 40},
    {"pred", {4, 100}, 1, DType::pred},
    {"f8e4m3", {4, 100}, 1, DType::f8e4m3, true},
    {"f8e5m2", {4, 100}, 1, DType::f8e5m2},
    {"f16", {4, 100}, 1, DType::f16},
    {"bf16", {4, 100}, 1, DType::bf16, true},
    {"f64", {4, 100}, 1, DType::f64, true},
};
INSTANTIATE_TEST_SUITE_P(Of, SortsEmulated, testing::ValuesIn(sort_rows),
                         [](const auto& each) { return each.param.name; });

// Lines that all threads of a block sort, in several steps through shared memory.
TEST(LongSortEmulated, IsRight) {
  for (const auto& [length, dtype] :
       {std::pair{4096, DType::f32}, {8192, DType::s32}, {8192, DType::bf16}, {5000, DType::f32}, {4096, DType::f64}}) {
    SCOPED_TRACE(length);
    const SortRow row{"", {2, length}, 1, dtype, length == 5000};
    const auto few = [](const kernel::KernelProgram& program) { return std::get<1>(lay_of(program)) <= 8; };
    const KernelCase each = make_case(sort_of(row), few, {.keep = 100'000});
    expect_right(each, {keys(dtype, 2 * length, 3)});
  }
}

// Both zeros are one key, and each comes back as it was; NaN is behind everything else.
TEST(SortsOfZerosEmulated, KeepSignsAndOrder) {
  const std::vector<double> line = {0.0, std::numeric_limits<double>::quiet_NaN(), -0.0, 1, -0.0, -1,
                                    0.0, std::numeric_limits<double>::infinity()};
  for (const bool descending : {false, true}) {
    const KernelCase each = make_case(sort_of({"", {1, 8}, 1, DType::f32, descending}));
    const KernelOutcome outcome = run(each, {bytes_of(DType::f32, line)});
    std::string values, places;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::uint64_t bits = bits_at(DType::f32, outcome.results[0], i);
      values += fmt::format("{}{}", i == 0 ? "" : " ",
                            (bits & 0x7fffffff) > 0x7f800000
                                ? "nan"
                                : fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
      places += fmt::format("{}{}", i == 0 ? "" : " ", bits_at(DType::s32, outcome.results[1], i));
    }
    EXPECT_EQ(values, descending ? "nan inf 1 0 -0 -0 0 -1" : "-1 0 -0 -0 0 1 inf nan");
    EXPECT_EQ(places, descending ? "1 7 3 0 2 4 6 5" : "5 0 2 4 6 3 7 1");
  }
}

// What is element-wise before a sort is computed where keys are made, and what goes along where it is stored.
TEST(FusedSortEmulated, ComputesKeysAndWhatGoesAlong) {
  Builder b;
  const Value x = b.parameter(DType::bf16, {6, 50}), y = b.parameter(DType::f32, {50}),
              z = b.parameter(DType::f32, {6, 50});
  const Value key = b.binary(Op::multiply, b.convert(x, DType::f32), b.broadcast(y, {6, 50}, {1}));
  const Value along = b.binary(Op::add, z, b.broadcast(y, {6, 50}, {1}));
  const Value sort = b.add(Op::sort, {key, along}, SortAttributes{1, false, 20});
  const KernelCase each = make_case(b.finish({{sort.node, 0}, {sort.node, 1}}));
  EXPECT_EQ(each.program.phases.size(), 1U);
  Random random(11);
  std::vector<double> values[3] = {std::vector<double>(300), std::vector<double>(50), std::vector<double>(300)};
  for (auto& list : values) {
    for (double& value : list) value = static_cast<double>(random.below(1024)) / 256 + 1;
  }
  expect_right(each,
               {bytes_of(DType::bf16, values[0]), bytes_of(DType::f32, values[1]), bytes_of(DType::f32, values[2])});
}

// Of unlike types, so that a pointer of the key's would not do.
TEST(FusedSortEmulated, StoresWhatGoesAlongAlone) {
  for (const DType key : {DType::s16, DType::pred, DType::f64}) {
    Builder b;
    const Value x = b.parameter(key, {5, 48});
    const Value sort = b.add(Op::sort, {x, b.iota(DType::s32, {5, 48}, 1)}, SortAttributes{1, false, 4});
    expect_right(make_case(b.finish({{sort.node, 1}})), {keys(key, 240, 7)});
  }
}

// What reads a sort's results waits for a phase of their own; reshaped ones are stored where they belong.
TEST(FusedSortEmulated, IsReadInALaterPhase) {
  Builder b;
  const Value x = b.parameter(DType::f32, {40, 24});
  const Value sort =
      b.add(Op::sort, {b.unary(Op::negate, x), b.iota(DType::s32, {40, 24}, 1)}, SortAttributes{1, true, 4});
  const Value shares =
      b.binary(Op::subtract, sort, b.broadcast(b.reduce(graph::ReduceKind::sum, sort, {1}), {40, 4}, {0}));
  const KernelCase each = make_case(b.finish({shares, b.reshape({sort.node, 1}, {160})}));
  Random random(12);
  std::vector<double> values(960);
  for (double& value : values) value = static_cast<double>(random.below(64)) / 8;
  expect_right(each, {bytes_of(DType::f32, values)});
}

// A row of a tensor of three dimensions, of which two are sorted as one.
TEST(FusedSortEmulated, WalksSeveralAxes) {
  Builder b;
  const Value x = b.parameter(DType::f32, {7, 6, 10}), y = b.parameter(DType::f32, {7, 10});
  const Value sums = b.binary(Op::add, x, b.broadcast(y, {7, 6, 10}, {0, 2}));
  const Value flat = b.reshape(sums, {7, 60});
  const Value sort = b.add(Op::sort, {flat, b.iota(DType::u16, {7, 60}, 1)}, SortAttributes{1, false, 60});
  const KernelCase each = make_case(b.finish({{sort.node, 0}, {sort.node, 1}}));
  expect_right(each, {keys(DType::f32, 420, 4), bytes_of(DType::f32, std::vector<double>(70, 0.5))});
}

// ---- a few of the first, one by one ------------------------------------------------------------------------------

struct Selection {
  std::string name;
  DType dtype;
  bool descending;
  std::int64_t count;
};
void PrintTo(const Selection& row, std::ostream* out) { *out << row.name; }

class SelectionsEmulated : public testing::TestWithParam<Selection> {};

// Rows of edge values, and rows of nothing but the lowest ones, of which each is taken once.
TEST_P(SelectionsEmulated, AreWhatTheSortIs) {
  const Selection& row = GetParam();
  const auto sorted = sort_of({"", {6, 70}, 1, row.dtype, row.descending, row.count});
  ASSERT_TRUE(sorted) << sorted.error().message;
  auto selected = kernel::select_one_by_one(*sorted);
  ASSERT_TRUE(selected);
  EXPECT_TRUE(std::ranges::none_of(selected->nodes(), [](const graph::Node& node) { return node.op == Op::sort; }));
  const KernelCase each = make_case(std::move(*selected));
  EXPECT_EQ(each.program.phases.size(), 1U);
  expect_right(each, {keys(row.dtype, 420, 6)}, *sorted);
  const bool floating = graph::is_floating(row.dtype);
  const double lowest = floating ? -std::numeric_limits<double>::infinity() : row.descending ? -128 : 127;
  expect_right(each, {bytes_of(row.dtype, std::vector<double>(420, lowest))}, *sorted);
}

const Selection selections[] = {{"f32", DType::f32, true, 8},         {"bf16", DType::bf16, true, 5},
                                {"f64", DType::f64, true, 2},         {"s8", DType::s8, true, 16},
                                {"least_of_s8", DType::s8, false, 7}, {"s64", DType::s64, true, 3},
                                {"one_u16", DType::u16, true, 1}};
INSTANTIATE_TEST_SUITE_P(Of, SelectionsEmulated, testing::ValuesIn(selections),
                         [](const auto& each) { return each.param.name; });

// A router: softmax, the first experts, their weights' share. One phase of one group, none of it through memory.
TEST(RouterEmulated, IsOnePhase) {
  Builder b;
  const Dims dims = {33, 64};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const auto spread = [&](Value rows, const Dims& to) { return b.broadcast(rows, to, {0}); };
  const Value weights =
      b.unary(Op::exp, b.binary(Op::subtract, x, spread(b.reduce(graph::ReduceKind::max, x, {1}), dims)));
  const Value softmax = b.binary(Op::divide, weights, spread(b.reduce(graph::ReduceKind::sum, weights, {1}), dims));
  const Value top = b.add(Op::sort, {softmax, b.iota(DType::s32, dims, 1)}, SortAttributes{1, true, 6});
  const Value share = b.binary(Op::divide, top, spread(b.reduce(graph::ReduceKind::sum, top, {1}), {33, 6}));
  const auto router = b.finish({b.convert(share, DType::bf16), {top.node, 1}});
  ASSERT_TRUE(router) << router.error().message;
  auto selected = kernel::select_one_by_one(*router);
  ASSERT_TRUE(selected);
  const KernelCase each = make_case(std::move(*selected), profiler::test::one_phase);
  EXPECT_EQ(each.program.phases[0].groups.size(), 1U);
  Random random(13);
  std::vector<double> values(33 * 64);
  for (double& value : values) value = static_cast<double>(random.below(4096)) / 256 - 8;
  expect_right(each, {bytes_of(DType::bf16, values)}, *router);
}

// What goes along besides places, ascending floats, and more than a few are sorted.
TEST(Selections, AreOfFewPlacesAlone) {
  for (const SortRow& row : {SortRow{"", {4, 40}, 1, DType::f32, false, 4},
                             {"", {4, 40}, 1, DType::f32, true, 17},
                             {"", {4, 40}, 1, DType::f32, true, 4, {DType::f32}},
                             {"", {4, 40}, 1, DType::pred, true, 4}}) {
    const auto sorted = sort_of(row);
    ASSERT_TRUE(sorted);
    EXPECT_FALSE(kernel::select_one_by_one(*sorted));
  }
}

// Without the barriers of the network, in turn those of warps and those of blocks, the detector of races speaks.
TEST(SortRacesEmulated, MissingBarriersAreFound) {
  const std::string include = "#include \"stitch/kernel.cuh\"";
  for (const auto& [barrier, length] : {std::pair{"__syncwarp", 64}, {"__syncthreads", 1024}}) {
    const auto among = [&](const kernel::KernelProgram& program) {
      const std::int64_t threads = std::get<0>(lay_of(program));
      return length == 64 ? threads > 1 && threads <= 32 : threads > 32;
    };
    const KernelCase whole = make_case(sort_of({"", {2, length}, 1, DType::f32}), among, {.keep = 100'000});
    const std::vector<Bytes> inputs = {keys(DType::f32, 2 * length, 5)};
    expect_right(whole, inputs);
    const KernelCase each =
        profiler::test::mutated(whole, include, fmt::format("#define {}() ((void)0)\n{}", barrier, include));
    EXPECT_FALSE(launch(each, inputs).findings.empty()) << barrier;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
