// Reductions and scans of types that are narrower than a word, on the emulated device: truth values across blocks of a
// cluster and tiles of a grid, and the identities that exclusive scans begin with.

#include <gtest/gtest.h>

#include <ostream>

#include "base/random.h"
#include "graph/builder.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Small integers, the same for the same seed; of preds few are true.
Bytes some(DType dtype, std::int64_t count) {
  Random random(7);
  std::vector<double> values(count);
  for (double& value : values) {
    value = dtype == DType::pred ? (random.below(50) == 0 ? 1 : 0) : static_cast<double>(random.below(9)) - 4;
  }
  return bytes_of(dtype, values);
}

// Updates of f16 meet in f32: what is read from there has the bits of f16 only when it is made one.
TEST(NarrowBitsEmulated, OfWhatWasKeptWiderAreThoseOfTheNarrowType) {
  Builder b;
  const Value x = b.parameter(DType::f16, {24, 24}), at = b.parameter(DType::s32, {96, 1});
  graph::ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = ReduceKind::min;
  const Value least = b.add(Op::scatter, {x, at, b.parameter(DType::f16, {96, 24})}, a);
  const KernelCase each = make_case(b.finish({b.bitcast(least, DType::s16)}));
  expect_right(each, {some(DType::f16, 24 * 24), some(DType::s32, 96), some(DType::f16, 96 * 24)});
}

struct TruthRow {
  std::string name;
  Dims dims, reduced;
};
void PrintTo(const TruthRow& row, std::ostream* out) { *out << row.name; }

class TruthReductionsEmulated : public testing::TestWithParam<TruthRow> {};

TEST_P(TruthReductionsEmulated, AreRight) {
  const auto& [name, dims, reduced] = GetParam();
  for (const ReduceKind kind : {ReduceKind::bit_or, ReduceKind::bit_and, ReduceKind::bit_xor}) {
    Builder b;
    const Value x = b.parameter(DType::pred, dims);
    const KernelCase each = make_case(b.finish({b.reduce(kind, x, reduced)}));
    expect_right(each, {some(DType::pred, graph::element_count(dims))});
  }
}

const TruthRow truth_rows[] = {{"a_few", {3}, {0}},          {"a_warp", {64}, {0}},
                               {"a_row", {4097}, {0}},       {"a_cluster", {100'000}, {0}},
                               {"the_grid", {1 << 20}, {0}}, {"columns", {65'536, 4}, {0}},
                               {"rows", {700, 129}, {1}},    {"everything", {3, 129}, {0, 1}}};
INSTANTIATE_TEST_SUITE_P(Shapes, TruthReductionsEmulated, testing::ValuesIn(truth_rows),
                         [](const auto& each) { return each.param.name; });

struct ScanRow {
  std::string name;
  DType dtype;
  ReduceKind kind;
};
void PrintTo(const ScanRow& row, std::ostream* out) { *out << row.name; }

class ExclusiveScansEmulated : public testing::TestWithParam<ScanRow> {};

// What stands before the first element is the identity of the type itself, not of what it is computed in.
TEST_P(ExclusiveScansEmulated, BeginWithTheIdentity) {
  const auto& [name, dtype, kind] = GetParam();
  for (const bool reverse : {false, true}) {
    for (const Dims& dims : {Dims{129}, Dims{5, 40}}) {
      Builder b;
      const Value x = b.parameter(dtype, dims);
      const std::int64_t last = std::ssize(dims) - 1;
      const graph::ScanAttributes a{kind, last, reverse, true};
      const KernelCase each = make_case(b.finish({b.add(Op::scan, {x}, a)}));
      expect_right(each, {some(dtype, graph::element_count(dims))});
    }
  }
}

const ScanRow scan_rows[] = {
    {"s8_min", DType::s8, ReduceKind::min},       {"s8_max", DType::s8, ReduceKind::max},
    {"s16_min", DType::s16, ReduceKind::min},     {"u8_max", DType::u8, ReduceKind::max},
    {"u16_and", DType::u16, ReduceKind::bit_and}, {"s32_min", DType::s32, ReduceKind::min},
    {"s64_max", DType::s64, ReduceKind::max},     {"f16_max", DType::f16, ReduceKind::max},
    {"f8_max", DType::f8e4m3, ReduceKind::max},   {"f8_min", DType::f8e4m3, ReduceKind::min},
    {"s8_sum", DType::s8, ReduceKind::sum},       {"f32_product", DType::f32, ReduceKind::product}};
INSTANTIATE_TEST_SUITE_P(Types, ExclusiveScansEmulated, testing::ValuesIn(scan_rows),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
