// Updates of tensors in memory: in place, and by atomics.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/program/private_table.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Rows added (or otherwise combined) into a table; enough of them that every element does not look for its own.
Result<graph::Graph> scattered(DType dtype, ReduceKind combiner, std::int64_t rows, std::int64_t count,
                               std::int64_t columns = 24) {
  Builder b;
  const Value index = b.parameter(DType::s32, {count, 1}), updates = b.parameter(dtype, {count, columns});
  graph::ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = combiner;
  return b.finish({b.add(Op::scatter, {b.filled(dtype, {rows, columns}, 1), index, updates}, a)});
}

/// One element put into a long row, by a byte that says where.
TEST(UpdatesEmulated, AByteThatPlacesSomethingInALongRowIsComparedWithTheRowsEnd) {
  for (const DType dtype : {DType::u8, DType::s8, DType::u16}) {
    for (const std::int64_t extent : {100, 127, 128, 256, 257, 513, 70000}) {
      Builder b;
      const Value row = b.parameter(DType::s32, {extent}), places = b.parameter(dtype, {3, 1});
      const Value updates = b.parameter(DType::s32, {3});
      graph::ScatterAttributes a;
      a.inserted_window_dims = {0};
      a.scatter_dims_to_operand_dims = {0};
      a.index_vector_dim = 1;
      a.combiner = ReduceKind::replace;
      const KernelCase each = make_case(b.finish({b.add(Op::scatter, {row, places, updates}, a)}));
      const std::vector<double> zeros(static_cast<std::size_t>(extent));
      const double behind = dtype == DType::s8 ? -1 : 255;  // of the shorter rows
      SCOPED_TRACE(fmt::format("{} of {}", graph::to_string(dtype), extent));
      expect_right(each, {bytes_of(DType::s32, zeros), bytes_of(dtype, std::vector<double>{0, 99, behind}),
                          bytes_of(DType::s32, std::vector<double>{5, 6, 7})});
    }
  }
}

bool has_atomics(const kernel::PhaseProgram& phase) {
  return std::ranges::any_of(phase.groups, [](const kernel::GroupProgram& group) {
    return std::ranges::count(group.structure.anchors, kernel::Anchor::Kind::atomic, &kernel::Anchor::kind) > 0;
  });
}

bool has_atomics(const KernelCase& each) {
  return std::ranges::any_of(each.program.phases, [](const auto& phase) { return has_atomics(phase); });
}

/// Whether blocks side by side update by atomics.
bool blocks_meet(const kernel::KernelProgram& program) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    if (has_atomics(program.phases[p]) && !program.runs_alone(p) && program.phases[p].tiles >= 8) return true;
  }
  return false;
}

/// Indices from -2 to rows + 1: those outside are dropped.
std::vector<Bytes> inputs_of(const KernelCase& each, std::int64_t rows) {
  Random random(7);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : each.graph->parameters()) {
    const graph::TensorType& type = each.graph->node(id).type();
    std::vector<double> values(type.elements());
    const bool is_index = type.dims.back() == 1;
    for (double& value : values) {
      value = is_index ? static_cast<double>(random.below(rows + 4)) - 2 : random.below(64) / 8.0 - 4;
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

struct AtomicRow {
  DType dtype;
  ReduceKind combiner;
};

class AtomicsEmulated : public testing::TestWithParam<AtomicRow> {};

TEST_P(AtomicsEmulated, EveryUpdateArrivesOnce) {
  const std::int64_t rows = 700, count = 3000;
  const KernelCase each = make_case(scattered(GetParam().dtype, GetParam().combiner, rows, count));
  EXPECT_TRUE(has_atomics(each));
  expect_right(each, inputs_of(each, rows));
}

INSTANTIATE_TEST_SUITE_P(Types, AtomicsEmulated,
                         testing::Values(AtomicRow{DType::f32, ReduceKind::sum}, AtomicRow{DType::f64, ReduceKind::sum},
                                         AtomicRow{DType::bf16, ReduceKind::sum},
                                         AtomicRow{DType::f16, ReduceKind::sum}, AtomicRow{DType::s32, ReduceKind::sum},
                                         AtomicRow{DType::s64, ReduceKind::sum}, AtomicRow{DType::s32, ReduceKind::max},
                                         AtomicRow{DType::u32, ReduceKind::min}),
                         [](const auto& row) {
                           return fmt::format("{}_{}", to_string(row.param.dtype), to_string(row.param.combiner));
                         });

struct PrivateRow {
  DType dtype;
  ReduceKind combiner;
  std::int64_t rows, columns;
};

bool has_private_table(const graph::Graph& graph, const kernel::KernelProgram& program) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    if (kernel::private_table(graph, program, p)) return true;
  }
  return false;
}

class PrivateTablesEmulated : public testing::TestWithParam<PrivateRow> {};

/// Into tables so small that each block has one of its own; indices repeat, and some lie outside.
TEST_P(PrivateTablesEmulated, HaveEveryUpdateOnce) {
  const auto& [dtype, combiner, rows, columns] = GetParam();
  const Result<graph::Graph> graph = scattered(dtype, combiner, rows, 48000 / columns, columns);
  ASSERT_TRUE(graph) << graph.error().message;
  for (const bool looped : {false, true}) {  // whether a block combines several tiles into its table
    const auto wish = [&](const kernel::KernelProgram& program) {
      return has_private_table(*graph, program) && program.is_looped(1) == looped && program.phases[1].tiles >= 8;
    };
    const search::StitchOptions all = {.keep = 1000};
    DeviceSpec device = *find_device("h100");
    if (looped) device.sm_count = 1;
    const KernelCase each = make_case(graph, wish, all, profiler::test::GridScorer(device));
    EXPECT_NE(each.kernel.source.find("combine_table<"), std::string::npos);
    expect_right(each, inputs_of(each, rows));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, PrivateTablesEmulated,
    testing::Values(PrivateRow{DType::f32, ReduceKind::sum, 9, 3}, PrivateRow{DType::f32, ReduceKind::sum, 8, 8},
                    PrivateRow{DType::bf16, ReduceKind::sum, 8, 4}, PrivateRow{DType::f16, ReduceKind::sum, 5, 1},
                    PrivateRow{DType::s32, ReduceKind::sum, 50, 1}, PrivateRow{DType::u32, ReduceKind::sum, 7, 4},
                    PrivateRow{DType::s32, ReduceKind::max, 9, 3}, PrivateRow{DType::u32, ReduceKind::min, 8, 4},
                    PrivateRow{DType::f32, ReduceKind::max, 8, 8}, PrivateRow{DType::f32, ReduceKind::min, 9, 3}),
    [](const auto& row) {
      return fmt::format("{}_{}_{}x{}", to_string(row.param.dtype), to_string(row.param.combiner), row.param.rows,
                         row.param.columns);
    });

TEST(PrivateTableEmulated, KeepsNaNsInfinitiesAndElementsWithoutUpdates) {
  for (const ReduceKind combiner : {ReduceKind::sum, ReduceKind::max, ReduceKind::min}) {
    const Result<graph::Graph> graph = scattered(DType::f32, combiner, 8, 4096, 2);
    const KernelCase each =
        make_case(graph, [&](const kernel::KernelProgram& program) { return has_private_table(*graph, program); });
    std::vector<double> places(4096), values(8192);
    for (int i = 0; i < 4096; ++i) places[i] = i % 5;  // rows 5 to 7 get none
    for (int i = 0; i < 4096; ++i) values[2 * i] = values[2 * i + 1] = i % 5 == 4 ? -1000 : 0.25;
    values[2 * 100] = NAN;
    values[2 * 101] = INFINITY;
    values[2 * 102] = -INFINITY;
    expect_right(each, {bytes_of(DType::s32, places), bytes_of(DType::f32, values)});
  }
}

/// Where nothing is gained there is none: many elements, few updates for each of them, floats over all of L2.
TEST(PrivateTableEmulated, IsForSmallTablesWithManyUpdates) {
  const auto any_private = [](Result<graph::Graph> graph) {
    const auto found = search::explore_space(*graph, profiler::test::GridScorer(), {.keep = 1000});
    return std::ranges::any_of(found->candidates, [&](const search::StitchCandidate& candidate) {
      return has_private_table(*graph, candidate.program);
    });
  };
  EXPECT_TRUE(any_private(scattered(DType::s32, ReduceKind::sum, 1000, 400000, 1)));
  EXPECT_FALSE(any_private(scattered(DType::s32, ReduceKind::sum, 20000, 400000, 1)));
  EXPECT_FALSE(any_private(scattered(DType::s32, ReduceKind::sum, 1000, 3000, 1)));
  EXPECT_FALSE(any_private(scattered(DType::f32, ReduceKind::sum, 100, 100000, 16)));
  EXPECT_TRUE(any_private(scattered(DType::f32, ReduceKind::max, 100, 100000, 16)));
}

struct VectorRow {
  DType dtype;
  ReduceKind combiner;
  std::int64_t columns;
  int width;  ///< elements that a thread combines at a time
};

class AtomicVectorsEmulated : public testing::TestWithParam<VectorRow> {};

/// All elements of an update's row go by one index: a thread's vector is looked up, guarded and combined as a whole.
TEST_P(AtomicVectorsEmulated, ArriveWhole) {
  const auto& [dtype, combiner, columns, width] = GetParam();
  const auto has_vectors = [width = width](const kernel::KernelProgram& program) {
    for (const kernel::PhaseProgram& phase : program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) {
        for (std::size_t a = 0; a < group.structure.anchors.size(); ++a) {
          const bool adds = group.structure.anchors[a].kind == kernel::Anchor::Kind::atomic;
          if (adds && group.stores[a][0].width == width) return true;
        }
      }
    }
    return false;
  };
  const KernelCase each = make_case(scattered(dtype, combiner, 700, 3000, columns), has_vectors);
  const std::string run = fmt::format("combine_atomically<{}, {}>", combiner == ReduceKind::sum ? "Sum" : "Max", width);
  EXPECT_NE(each.kernel.source.find(run), std::string::npos) << each.kernel.source;
  EXPECT_EQ(each.kernel.source.find("::combine_atomically("), std::string::npos) << each.kernel.source;
  expect_right(each, inputs_of(each, 700));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, AtomicVectorsEmulated,
    testing::Values(VectorRow{DType::f32, ReduceKind::sum, 24, 4}, VectorRow{DType::bf16, ReduceKind::sum, 24, 4},
                    VectorRow{DType::f32, ReduceKind::max, 24, 4}, VectorRow{DType::s32, ReduceKind::sum, 24, 4},
                    VectorRow{DType::f32, ReduceKind::sum, 26, 2}),
    [](const auto& row) {
      return fmt::format("{}_{}_{}", to_string(row.param.dtype), to_string(row.param.combiner), row.param.columns);
    });

TEST(ScatterEmulated, FewUpdatesAndOrderedOnesNeedNoAtomics) {
  EXPECT_FALSE(has_atomics(make_case(scattered(DType::f32, ReduceKind::sum, 16, 20))));
  EXPECT_FALSE(has_atomics(make_case(scattered(DType::f32, ReduceKind::replace, 700, 3000))));
  EXPECT_FALSE(has_atomics(make_case(scattered(DType::f32, ReduceKind::product, 700, 3000))));
}

/// Updates of all sizes, so that sums show the order of their terms.
std::vector<Bytes> uneven_inputs(const KernelCase& each, std::int64_t rows) {
  Random random(11);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : each.graph->parameters()) {
    const graph::TensorType& type = each.graph->node(id).type();
    std::vector<double> values(type.elements());
    const bool is_index = type.dims.back() == 1;
    for (double& value : values) {
      value = is_index ? static_cast<double>(random.below(rows)) : std::ldexp(random.uniform() - 0.5, random.below(24));
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

/// The different results of 20 runs, in each of which blocks start in another order.
std::size_t different_results(const KernelCase& each, std::int64_t rows) {
  const std::vector<Bytes> inputs = uneven_inputs(each, rows);
  std::set<Bytes> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    seen.insert(run(each, inputs, {.host_threads = 1, .shuffle_seed = seed}).results[0]);
  return seen.size();
}

struct DeterministicRow {
  DType dtype;
  std::int64_t rows, count;
};

class DeterministicScatterEmulated : public testing::TestWithParam<DeterministicRow> {};

// Few rows with many updates each, as many rows as updates, and updates that go nowhere near most rows.
TEST_P(DeterministicScatterEmulated, GivesTheSameBitsInEveryOrderOfBlocks) {
  const auto [dtype, rows, count] = GetParam();
  Result<graph::Graph> graph = scattered(dtype, ReduceKind::sum, rows, count);
  // The same without the constraint, by blocks whose order can matter.
  const KernelCase by_atomics = make_case(graph, blocks_meet);
  EXPECT_TRUE(has_atomics(by_atomics));
  graph->constraints.deterministic = true;
  const KernelCase each = make_case(graph);
  EXPECT_FALSE(has_atomics(each));
  expect_right(each, inputs_of(each, rows));
  EXPECT_EQ(different_results(each, rows), 1U);
  // What is asked for is no matter of course.
  EXPECT_TRUE(dtype != DType::f32 || different_results(by_atomics, rows) > 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, DeterministicScatterEmulated,
    testing::Values(DeterministicRow{DType::f32, 40, 3000}, DeterministicRow{DType::f32, 700, 700},
                    DeterministicRow{DType::f32, 5000, 300}, DeterministicRow{DType::bf16, 40, 3000},
                    DeterministicRow{DType::f16, 700, 700}, DeterministicRow{DType::f64, 300, 1000}),
    [](const auto& row) {
      return fmt::format("{}_{}_of_{}", to_string(row.param.dtype), row.param.count, row.param.rows);
    });

// Order does not matter to integers, nor to maxima: they keep their atomics.
TEST(FixedOrderEmulated, WhatHasNoOrderKeepsItsAtomics) {
  for (const auto& [dtype, combiner] : {std::pair{DType::s32, ReduceKind::sum}, {DType::f32, ReduceKind::max}}) {
    Result<graph::Graph> graph = scattered(dtype, combiner, 700, 3000);
    graph->constraints.deterministic = true;
    const KernelCase each = make_case(graph);
    EXPECT_TRUE(has_atomics(each)) << to_string(dtype);
    EXPECT_EQ(different_results(each, 700), 1U);
  }
}

// Only the update is written: what is around it keeps what was in memory.
TEST(UpdateInPlaceEmulated, WritesTheUpdateAndNothingElse) {
  Builder b;
  const Value x = b.parameter(DType::f32, {10, 5, 36}), u = b.parameter(DType::f32, {1, 5, 36}),
              i = b.parameter(DType::s32, {});
  const Value zero = b.scalar(DType::s32, 0);
  const KernelCase each = make_case(b.finish(
      {b.add(Op::dynamic_update_slice, {x, b.unary(Op::negate, u), i, zero, zero}, graph::UpdateAttributes{true})}));
  const std::size_t row = 5 * 36;
  std::vector<double> update(row);
  std::iota(update.begin(), update.end(), 1.0);
  for (const double index : {0.0, 3.0, 9.0, 42.0}) {  // the last is clamped
    const std::size_t at = std::min(index, 9.0);
    const KernelOutcome outcome = run(each, {bytes_of(DType::f32, std::vector<double>(10 * row, 0.5)),
                                             bytes_of(DType::f32, update), bytes_of(DType::s32, std::vector{index})});
    for (std::size_t e = 0; e < 10 * row; ++e) {
      const bool inside = e / row == at;
      const auto want = inside ? std::bit_cast<std::uint32_t>(static_cast<float>(-update[e % row])) : 0xCDCDCDCDU;
      ASSERT_EQ(bits_at(DType::f32, outcome.results[0], e), want) << "index " << index << " element " << e;
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
