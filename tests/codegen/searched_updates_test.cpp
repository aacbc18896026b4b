// Scatters whose blocks list the updates of their tiles, on the emulated device.

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/program/traffic.h"
#include "kernel/program/update_list.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

enum class Going : std::uint8_t { anywhere, to_one, once, nowhere };

struct Searched {
  std::string name;
  std::int64_t rows, count, columns;
  DType dtype = DType::f32;
  ReduceKind combiner = ReduceKind::sum;
  Going where = Going::anywhere;
  DType index = DType::s32;
};
void PrintTo(const Searched& each, std::ostream* out) { *out << each.name; }

graph::ScatterAttributes rows_of(ReduceKind combiner) {
  graph::ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = combiner;
  return a;
}

Graph scatter_of(const Searched& each) {
  Builder b;
  const Value table = b.parameter(each.dtype, {each.rows, each.columns}), at = b.parameter(each.index, {each.count, 1});
  const Value updates = b.parameter(each.dtype, {each.count, each.columns});
  return std::move(*b.finish({b.add(Op::scatter, {table, at, updates}, rows_of(each.combiner))}));
}

/// Numbers of all sizes, so that sums show the order of their terms.
Bytes of_all_sizes(DType dtype, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = std::ldexp(random.uniform() - 0.5, static_cast<int>(random.below(12)));
  return bytes_of(dtype, values);
}

std::vector<double> goals_of(const Searched& each) {
  Random random(3);
  std::vector<double> values(each.count);
  for (std::int64_t i = 0; i < each.count; ++i) {
    switch (each.where) {
      case Going::anywhere: values[i] = static_cast<double>(random.below(each.rows + 4)) - 2; break;  // some outside
      case Going::to_one: values[i] = static_cast<double>(each.rows / 2); break;
      case Going::once: values[i] = static_cast<double>(i * 7 % each.rows); break;
      case Going::nowhere: values[i] = static_cast<double>(i % 2 == 0 ? -1 - i : each.rows + i); break;
    }
  }
  return values;
}

std::vector<Bytes> inputs_of(const Searched& each) {
  return {of_all_sizes(each.dtype, each.rows * each.columns, 1), bytes_of(each.index, goals_of(each)),
          of_all_sizes(each.dtype, each.count * each.columns, 2)};
}

/// A single phase in which every warp has so many places of a list's.
Wish lists_for(std::int64_t places) {
  return [places](const kernel::KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases.back().groups[0];
    if (kernel::update_list(group.structure, group.mapping, p.schedule.threads).parts == 0) return false;
    const kernel::Anchor& anchor = group.structure.anchors[0];
    std::int64_t registers = 1;
    for (const int a : group.structure.program->at(anchor.items[1]).axes - anchor.reduced)
      registers *= group.extent(a, kernel::Level::reg);
    return registers == places;
  };
}

const search::StitchOptions all_mappings{.keep = 100'000, .wide = true, .combinations = 100};

/// Sums one after the other, as f32 has them.
Bytes in_order(const Searched& each, const std::vector<Bytes>& inputs) {
  std::vector<float> table(each.rows * each.columns), updates(each.count * each.columns);
  std::memcpy(table.data(), inputs[0].data(), inputs[0].size());
  std::memcpy(updates.data(), inputs[2].data(), inputs[2].size());
  const std::vector<double> goals = goals_of(each);
  for (std::int64_t i = 0; i < each.count; ++i) {
    const auto goal = static_cast<std::int64_t>(goals[i]);
    if (goal < 0 || goal >= each.rows) continue;
    for (std::int64_t c = 0; c < each.columns; ++c) table[goal * each.columns + c] += updates[i * each.columns + c];
  }
  Bytes bytes(inputs[0].size());
  std::memcpy(bytes.data(), table.data(), bytes.size());
  return bytes;
}

class SearchedUpdatesEmulated : public testing::TestWithParam<Searched> {};

TEST_P(SearchedUpdatesEmulated, AreCombinedInTheirOrder) {
  const Searched& each = GetParam();
  Graph graph = scatter_of(each);
  graph.constraints.deterministic = true;
  const std::vector<Bytes> inputs = inputs_of(each);
  const bool floats = each.dtype == DType::f32 && each.combiner == ReduceKind::sum;
  for (const std::int64_t places : {1, 4}) {
    if (places > 1 && each.rows < 128) continue;
    SCOPED_TRACE(places);
    const KernelCase found = make_case(graph, lists_for(places), all_mappings);
    EXPECT_EQ(found.program.phases.size(), 1U);
    expect_right(found, inputs, graph);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const Bytes bits = run(found, inputs, {.host_threads = 1, .shuffle_seed = seed}).results[0];
      if (floats) {
        EXPECT_TRUE(bits == in_order(each, inputs)) << "seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, SearchedUpdatesEmulated,
    testing::Values(Searched{"rows", 300, 1000, 64}, Searched{"few_rows", 5, 1000, 64},
                    Searched{"odd_columns", 150, 700, 45}, Searched{"a_tail", 133, 100, 33},
                    Searched{"long_rows", 40, 200, 600}, Searched{"several_chunks", 200, 9000, 32},
                    Searched{"f16", 150, 500, 64, DType::f16}, Searched{"bf16", 150, 500, 64, DType::bf16},
                    Searched{"f64", 150, 300, 40, DType::f64}, Searched{"s32", 150, 300, 40, DType::s32},
                    Searched{"maxima", 150, 500, 64, DType::f32, ReduceKind::max},
                    Searched{"the_last", 150, 500, 64, DType::f32, ReduceKind::replace},
                    Searched{"products", 150, 300, 40, DType::f32, ReduceKind::product},
                    Searched{"all_to_one", 150, 600, 64, DType::f32, ReduceKind::sum, Going::to_one},
                    Searched{"each_once", 300, 300, 64, DType::f32, ReduceKind::sum, Going::once},
                    Searched{"none_inside", 150, 300, 64, DType::f32, ReduceKind::sum, Going::nowhere},
                    Searched{"s64_indices", 150, 500, 64, DType::f32, ReduceKind::sum, Going::anywhere, DType::s64}),
    [](const auto& row) { return row.param.name; });

TEST(SearchedUpdateKernelsEmulated, AreFoundWithABarrierLess) {
  const Searched each{"", 300, 9000, 64};
  Graph graph = scatter_of(each);
  graph.constraints.deterministic = true;
  const KernelCase whole = make_case(graph, lists_for(4), all_mappings);
  const std::string barrier = "__syncthreads();";
  int barriers = 0;
  for (std::size_t at = whole.kernel.source.find(barrier); at != std::string::npos;
       at = whole.kernel.source.find(barrier, at + 1)) {
    KernelCase without = whole;
    without.kernel.source.replace(at, barrier.size(), ";");
    EXPECT_FALSE(launch(without, inputs_of(each)).findings.empty()) << "without barrier " << barriers;
    ++barriers;
  }
  EXPECT_EQ(barriers, 3);
}

// Messages along a graph's edges: rows are gathered, weighted by what edges and nodes have, and summed at the nodes.
// No result is filled first, nor read again where it is added to.
TEST(SearchedUpdateKernelsEmulated, SumGatheredRows) {
  constexpr std::int64_t nodes = 200, edges = 520, width = 64;
  Builder b;
  const Value x = b.parameter(DType::f32, {nodes, width}), from = b.parameter(DType::s32, {edges, 1});
  const Value to = b.parameter(DType::s32, {edges, 1}), weight = b.parameter(DType::f32, {edges});
  graph::GatherAttributes taken;
  taken.offset_dims = {1};
  taken.collapsed_slice_dims = taken.start_index_map = {0};
  taken.index_vector_dim = 1;
  taken.slice_sizes = {1, width};
  const Value rows = b.add(Op::gather, {x, from}, taken);
  const Value messages = b.binary(Op::multiply, rows, b.broadcast(weight, {edges, width}, {0}));
  const Value sum =
      b.add(Op::scatter, {b.filled(DType::f32, {nodes, width}, 0), to, messages}, rows_of(ReduceKind::sum));
  const Graph graph = std::move(*b.finish({sum}));
  const KernelCase each = make_case(graph);
  EXPECT_EQ(each.program.phases.size(), 1U);
  EXPECT_EQ(each.kernel.source.find("atomicAdd"), std::string::npos);
  // Rows of edges, indices and weights are read, rows of nodes written.
  constexpr std::int64_t moved = (edges * width + 3 * edges + nodes * width) * 4;
  EXPECT_LE(kernel::scheduled_bytes(graph, each.program), moved + nodes * width * 4);
  Random random(17);
  std::vector<double> sources(edges), goals(edges);
  for (double& source : sources) source = static_cast<double>(random.below(nodes));
  for (double& goal : goals) goal = static_cast<double>(random.below(nodes));
  expect_right(each,
               {of_all_sizes(DType::f32, nodes * width, 1), bytes_of(DType::s32, sources), bytes_of(DType::s32, goals),
                of_all_sizes(DType::f32, edges, 2)},
               graph);
}

// What a mixture of experts' last product leaves goes back to the tokens: weighted, summed in f32 and stored in bf16,
// without a tensor of f32 in memory. Others that need the sum of f32 have it, and what is no conversion waits for it.
TEST(SearchedUpdateKernelsEmulated, StoreWhatTheyAreConvertedTo) {
  constexpr std::int64_t tokens = 160, rows = 320, width = 64;
  enum class Behind : std::uint8_t { nothing, its_sum, a_function };
  for (const Behind behind : {Behind::nothing, Behind::its_sum, Behind::a_function}) {
    SCOPED_TRACE(static_cast<int>(behind));
    Builder b;
    const Value y = b.parameter(DType::bf16, {rows, width}), token = b.parameter(DType::s32, {rows, 1});
    const Value weight = b.parameter(DType::f32, {rows});
    const Value weighted = b.binary(Op::multiply, b.convert(y, DType::f32), b.broadcast(weight, {rows, width}, {0}));
    const Value sum =
        b.add(Op::scatter, {b.filled(DType::f32, {tokens, width}, 0), token, weighted}, rows_of(ReduceKind::sum));
    const Value stored = b.convert(sum, DType::bf16);
    std::vector<Value> results = {stored};
    if (behind == Behind::its_sum) results.push_back(sum);
    if (behind == Behind::a_function) results = {b.unary(Op::tanh, stored)};
    const Graph graph = std::move(*b.finish(results));
    const KernelCase each = make_case(graph);
    std::int64_t scratch = 0;
    for (std::size_t i = 0; i < each.program.scratch.size(); ++i) scratch += each.program.scratch_bytes(i);
    EXPECT_EQ(each.program.phases.size(), behind == Behind::nothing ? 1U : 2U);
    EXPECT_EQ(scratch, behind == Behind::a_function ? tokens * width * 2 : 0);
    Random random(23);
    std::vector<double> goals(rows);
    for (double& goal : goals) goal = static_cast<double>(random.below(tokens));
    expect_right(
        each,
        {of_all_sizes(DType::bf16, rows * width, 1), bytes_of(DType::s32, goals), of_all_sizes(DType::f32, rows, 2)},
        graph);
  }
}

TEST(SearchedUpdateKernelsEmulated, RandomOnesAreRight) {
  const std::uint64_t seed = 20261130;
  Random random(seed);
  for (int i = 0; i < 12; ++i) {
    const Searched each{"",
                        static_cast<std::int64_t>(random.below(400)) + 1,
                        static_cast<std::int64_t>(random.below(1200)) + 65,
                        static_cast<std::int64_t>(random.below(160)) + 32,
                        random.below(3) == 0 ? DType::bf16 : DType::f32,
                        random.below(4) == 0 ? ReduceKind::max : ReduceKind::sum};
    SCOPED_TRACE(fmt::format("seed {}, case {}: {} rows, {} updates of {} {}", seed, i, each.rows, each.count,
                             each.columns, to_string(each.dtype)));
    Graph graph = scatter_of(each);
    graph.constraints.deterministic = random.below(2) == 0;
    expect_right(make_case(graph), inputs_of(each), graph);
  }
}

}  // namespace
}  // namespace stitch::codegen::test
