// Scans on the emulated device, under its race detector: every way to lay one over lanes and warps, single operators
// and tuples, several results, and what happens when a barrier is missing.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <tuple>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/simplify.h"
#include "kernel/rewrite/tiled_scan.h"
#include "tests/codegen/kernel_run.h"
#include "tests/graph/associative_scans.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using graph::test::Combine;
using kernel::Level;

/// How a scan lies: lanes and warps along the axis, elements of a thread's run, whether these are a vector.
using Lay = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>;

/// Of a kernel whose first phase is the scan.
Lay lay_of(const kernel::KernelProgram& program) {
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  int axis = -1;
  for (const int a : group.structure.anchors[0].reduced) axis = a;
  const std::int64_t vector = group.extent(axis, Level::vector);
  return {group.extent(axis, Level::lane), group.extent(axis, Level::warp), vector * group.extent(axis, Level::reg),
          vector > 1};
}

/// Numbers within (-1, 1); of preds one in sixteen is true.
Bytes numbers(DType dtype, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values)
    value = dtype == DType::pred ? (random.below(16) == 0 ? 1 : 0)
                                 : (static_cast<double>(random.below(2000)) - 1000) / 1001;
  return bytes_of(dtype, values);
}

/// Runs one kernel of each lay that the space has; returns the lays.
std::set<Lay> expect_every_lay_right(const std::function<Result<graph::Graph>()>& make) {
  std::set<Lay> lays;
  const auto fresh = [&](const kernel::KernelProgram& program) { return lays.insert(lay_of(program)).second; };
  while (true) {
    std::optional<KernelCase> each;
    try {
      each = make_case(make(), fresh, {.keep = 100'000});
    } catch (const std::runtime_error&) {
      return lays;  // none is left
    }
    std::vector<Bytes> inputs;
    for (const graph::NodeId p : each->graph->parameters()) {
      const graph::TensorType& type = each->graph->node(p).type();
      inputs.push_back(numbers(type.dtype, type.elements(), inputs.size() + 1));
    }
    expect_right(*each, inputs);
  }
}

struct SumRow {
  std::string name;
  Dims dims;
  std::int64_t dimension;
  DType dtype;
  ReduceKind kind = ReduceKind::sum;
  std::size_t least_lays = 2;
};
void PrintTo(const SumRow& row, std::ostream* out) { *out << row.name; }

class RunningSumsEmulated : public testing::TestWithParam<SumRow> {};

TEST_P(RunningSumsEmulated, AreRightInEveryLay) {
  const SumRow& row = GetParam();
  for (const auto& [reverse, exclusive] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    const auto lays = expect_every_lay_right([&, reverse = reverse, exclusive = exclusive] {
      Builder b;
      const Value x = b.parameter(row.dtype, row.dims);
      return b.finish({b.add(Op::scan, {b.unary(Op::negate, x)},
                             graph::ScanAttributes{row.kind, row.dimension, reverse, exclusive})});
    });
    EXPECT_GE(lays.size(), row.least_lays);
  }
}

const SumRow sum_rows[] = {{"rows", {5, 1032}, 1, DType::f32, ReduceKind::sum, 4},
                           {"odd_rows", {3, 1537}, 1, DType::f32},
                           {"bf16_rows", {3, 640}, 1, DType::bf16, ReduceKind::max, 4},
                           {"one_row", {5000}, 0, DType::s32, ReduceKind::sum, 4},
                           {"columns", {2, 130, 36}, 1, DType::f32, ReduceKind::sum, 4},
                           {"few_columns", {70, 3}, 0, DType::f32, ReduceKind::sum, 1}};
INSTANTIATE_TEST_SUITE_P(Shapes, RunningSumsEmulated, testing::ValuesIn(sum_rows),
                         [](const auto& each) { return each.param.name; });

// Threads lie along what is contiguous in the operand; elements of their runs are not side by side in the result.
TEST(TransposedScanEmulated, IsRightInEveryLay) {
  for (const bool exclusive : {false, true}) {
    const auto lays = expect_every_lay_right([&] {
      Builder b;
      const Value x = b.transpose(b.parameter(DType::bf16, {24, 136}), {1, 0});
      return b.finish({b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 0, exclusive, exclusive})});
    });
    EXPECT_TRUE(std::ranges::any_of(lays, [](const Lay& lay) { return std::get<3>(lay); })) << "no vectors";
  }
}

struct TupleRow {
  std::string name;
  Combine combine;
  std::vector<DType> dtypes;
  std::vector<std::int32_t> wanted;
};
void PrintTo(const TupleRow& row, std::ostream* out) { *out << row.name; }

Result<graph::Graph> tuple_scan(const TupleRow& row, const Dims& dims, std::int64_t dimension, bool reverse) {
  Builder b;
  std::vector<Value> x;
  for (const DType dtype : row.dtypes) x.push_back(b.parameter(dtype, dims));
  const Value scan = b.add(Op::associative_scan, x, graph::AssociativeScanAttributes{dimension, reverse},
                           {graph::test::combiner_of(row.combine, row.dtypes)});
  std::vector<Value> results;
  for (const std::int32_t i : row.wanted) results.push_back({scan.node, i});
  return b.finish(results);
}

class TupleScansEmulated : public testing::TestWithParam<TupleRow> {};

TEST_P(TupleScansEmulated, AreRightInEveryLay) {
  for (const bool reverse : {false, true}) {
    const auto rows = expect_every_lay_right([&] { return tuple_scan(GetParam(), {3, 516}, 1, reverse); });
    EXPECT_GE(rows.size(), 3U);
    const auto columns = expect_every_lay_right([&] { return tuple_scan(GetParam(), {130, 36}, 0, reverse); });
    EXPECT_GE(columns.size(), 3U);
  }
}

using namespace graph::test;
const TupleRow tuple_rows[] = {{"recurrence", recurrence, {DType::f32, DType::f32}, {1}},
                               {"recurrence_both", recurrence, {DType::f32, DType::f32}, {0, 1}},
                               {"recurrence_bf16", recurrence, {DType::bf16, DType::bf16}, {1}},
                               {"log_add_exp", log_add_exp, {DType::f32}, {0}},
                               {"online_softmax", online_softmax, {DType::f32, DType::f32}, {0, 1}},
                               {"segment_sums", segment_sum, {DType::pred, DType::f32}, {1}},
                               {"complex_products", complex_product, {DType::f32, DType::f32}, {0, 1}}};
INSTANTIATE_TEST_SUITE_P(Combiners, TupleScansEmulated, testing::ValuesIn(tuple_rows),
                         [](const auto& each) { return each.param.name; });

// A scan's inputs are computed where they are loaded, and its results are read by a later phase of the same kernel.
TEST(ScansEmulated, HaveWorkBeforeAndBehindThem) {
  Builder b;
  const Dims dims = {4, 200, 33};
  const Value gate = b.parameter(DType::f32, dims), x = b.parameter(DType::f32, dims);
  const Value decay = b.unary(Op::logistic, gate);
  const Value input = b.binary(Op::multiply, x, b.unary(Op::sqrt, b.unary(Op::abs, gate)));
  const Value scan = b.add(Op::associative_scan, {decay, input}, graph::AssociativeScanAttributes{1, false},
                           {combiner_of(recurrence, {DType::f32, DType::f32})});
  const KernelCase each = make_case(b.finish({b.binary(Op::multiply, {scan.node, 1}, x)}));
  EXPECT_EQ(each.program.phases.size(), 2U);
  const std::int64_t count = graph::element_count(dims);
  expect_right(each, {numbers(DType::f32, count, 1), numbers(DType::f32, count, 2)});
}

class ScanGradientsEmulated : public testing::TestWithParam<DifferentiatedScan> {};

// A scan and its gradient, written out as jax does, are two scans of one kernel, whose elements are shifted by one.
TEST_P(ScanGradientsEmulated, AreOneKernelOfTwoScans) {
  for (const auto& [dims, dimension] : {std::pair<Dims, std::int64_t>{{3, 516}, 1}, {{130, 36}, 0}}) {
    for (const bool reverse : {false, true}) {
      Builder b;
      const std::vector<Value> results = training(GetParam(), dims, dimension, reverse)(b);
      Result<graph::Graph> line = b.finish(results);
      ASSERT_TRUE(line) << line.error().message;
      ASSERT_TRUE(graph::simplify(*line, {}));
      const KernelCase each = make_case(std::move(line));
      std::vector<Bytes> inputs;
      for (const graph::NodeId p : each.graph->parameters()) {
        const graph::TensorType& type = each.graph->node(p).type();
        inputs.push_back(numbers(type.dtype, type.elements(), inputs.size() + 1));
      }
      expect_right(each, inputs);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Combiners, ScanGradientsEmulated, testing::ValuesIn(differentiated_scans()),
                         [](const auto& each) { return each.param.name; });

// Sums of columns are scanned and meet sums of rows of the same square: the scan has axes of its own.
TEST(ScansEmulated, GoAlongTheirOwnAxesWhereRowsMeetColumns) {
  for (const bool tuple : {false, true}) {
    Builder b;
    const Value x = b.parameter(DType::f32, {12, 12});
    const Value rows = b.reduce(ReduceKind::sum, x, {1}), columns = b.reduce(ReduceKind::sum, x, {0});
    const Value scan = tuple
                           ? b.add(Op::associative_scan, {columns, columns}, graph::AssociativeScanAttributes{0, false},
                                   {combiner_of(recurrence, {DType::f32, DType::f32})})
                           : b.add(Op::scan, {columns}, graph::ScanAttributes{ReduceKind::sum, 0, false, false});
    const KernelCase each = make_case(b.finish({b.binary(Op::add, rows, {scan.node, tuple ? 1 : 0})}));
    expect_right(each, {numbers(DType::f32, 144, 1)});
  }
}

// Each barrier of the exchange is there for a reason that the race detector sees.
TEST(ScansEmulated, AMissingBarrierIsSeen) {
  const auto shared_by_warps = [](const kernel::KernelProgram& p) { return std::get<1>(lay_of(p)) > 1; };
  KernelCase each = make_case(tuple_scan(tuple_rows[0], {2, 4096}, 1, false), shared_by_warps, {.keep = 100'000});
  const std::vector<Bytes> inputs = {numbers(DType::f32, 8192, 1), numbers(DType::f32, 8192, 2)};
  expect_right(each, inputs);
  const std::string barrier = "__syncthreads();";
  const std::size_t at = each.kernel.source.find(barrier);
  ASSERT_NE(at, std::string::npos);
  each.kernel.source.erase(at, barrier.size());
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    run(each, inputs);
  }
  EXPECT_GT(failures.size(), 0);
}

// ---- lines that many blocks have a tile of each ------------------------------------------------------------------

class TiledScansEmulated : public testing::TestWithParam<SumRow> {};

bool in_many_blocks(const kernel::KernelProgram& program) { return program.phases.size() > 2 && program.blocks >= 8; }

/// A kernel of one launch whose blocks wait for one another.
KernelCase tiled(const graph::Graph& line, const Wish& wish = in_many_blocks) {
  auto tiles = kernel::tile_scans(line);
  if (!tiles) throw std::runtime_error("no tiles");
  return make_case(std::move(*tiles), wish);
}

Result<graph::Graph> line_of(const SumRow& row, bool reverse, bool exclusive) {
  Builder b;
  const Value x = b.parameter(row.dtype, row.dims), terms = row.dtype == DType::pred ? x : b.unary(Op::negate, x);
  return b.finish({b.add(Op::scan, {terms}, graph::ScanAttributes{row.kind, row.dimension, reverse, exclusive})});
}

TEST_P(TiledScansEmulated, AreWhatTheWholeLineIs) {
  const SumRow& row = GetParam();
  for (const auto& [reverse, exclusive] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    const auto line = line_of(row, reverse, exclusive);
    ASSERT_TRUE(line) << line.error().message;
    expect_right(tiled(*line), {numbers(row.dtype, graph::element_count(row.dims), 1)}, *line);
  }
}

const SumRow tiled_rows[] = {{"rows", {2, 16384}, 1, DType::f32},
                             {"no_power_of_two", {1, 50257}, 1, DType::f32},
                             {"columns", {1024, 36}, 0, DType::f32},
                             {"few_columns", {2048, 8}, 0, DType::s32},
                             {"f64", {16384}, 0, DType::f64},
                             {"bf16", {16384}, 0, DType::bf16},
                             {"f16_products", {16384}, 0, DType::f16, ReduceKind::product},
                             {"greatest_of_bf16", {16384}, 0, DType::bf16, ReduceKind::max},
                             {"least_of_s64", {16384}, 0, DType::s64, ReduceKind::min},
                             {"any_so_far", {16384}, 0, DType::pred, ReduceKind::bit_or}};
INSTANTIATE_TEST_SUITE_P(Shapes, TiledScansEmulated, testing::ValuesIn(tiled_rows),
                         [](const auto& each) { return each.param.name; });

// The totals are complete before a line of them is scanned, and that line before a tile begins: blocks that do not wait
// are seen.
TEST(TiledScansEmulated, AMissingWaitBetweenBlocksIsSeen) {
  const auto line = line_of({"", {1, 16384}, 1, DType::f32}, false, false);
  ASSERT_TRUE(line);
  const auto barriers = [](const kernel::KernelProgram& p) {
    return in_many_blocks(p) &&
           std::ranges::all_of(p.schedule.syncs, [](kernel::Sync s) { return s == kernel::Sync::barrier; });
  };
  const KernelCase each = tiled(*line, barriers);
  const std::vector<Bytes> inputs = {numbers(DType::f32, 16384, 1)};
  expect_right(each, inputs, *line);
  const std::string wait = "grid_barrier(";
  std::size_t dropped = 0;
  for (std::size_t at = each.kernel.source.find(wait); at != std::string::npos;
       at = each.kernel.source.find(wait, at + 1), ++dropped) {
    KernelCase without = each;
    without.kernel.source.erase(at, without.kernel.source.find(';', at) + 1 - at);
    EXPECT_FALSE(launch(without, inputs).findings.empty()) << "wait " << dropped << " is not needed?";
  }
  EXPECT_EQ(dropped, each.program.phases.size() - 1);
}

}  // namespace
}  // namespace stitch::codegen::test
