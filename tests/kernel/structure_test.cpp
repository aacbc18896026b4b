#include "kernel/structure/structure.h"
#include "kernel/structure/structure_builder.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

std::string_view name_of(Anchor::Kind kind) {
  switch (kind) {
    case Anchor::Kind::store: return "store";
    case Anchor::Kind::reduce: return "reduce";
    case Anchor::Kind::partial: return "partial";
    case Anchor::Kind::scan: return "scan";
    case Anchor::Kind::sort: return "sort";
    case Anchor::Kind::scatter: return "scatter";
    case Anchor::Kind::atomic: return "atomic";
  }
  return "?";
}

std::string to_text(const Anchor& anchor) {
  std::string text(name_of(anchor.kind));
  for (const int axis : anchor.reduced) text += fmt::format("/{}", axis);
  for (const Buffer& buffer : anchor.buffers)
    text += fmt::format(":{}{}", buffer.kind == Buffer::Kind::scratch ? "s" : "", buffer.number);
  return text + fmt::format("@{}", anchor.sweep);
}

/// Phases separated by " | ", groups by " ; ": the extents of a group's axes (P: partial results), then its anchors as
/// KIND/REDUCED AXES:BUFFERS@STAGE, a scratch buffer with an s.
std::string to_text(const KernelStructure& structure) {
  std::string text;
  for (const PhaseStructure& phase : structure.phases) {
    if (!text.empty()) text += " | ";
    for (const GroupStructure& group : phase.groups) {
      if (&group != &phase.groups.front()) text += " ; ";
      text += "[";
      const auto& extents = group.program->axes().extents;
      for (std::size_t a = 0; a < extents.size(); ++a) {
        if (a > 0) text += " ";
        text += static_cast<int>(a) == group.partial_axis ? "P" : std::to_string(extents[a]);
      }
      text += "]";
      for (const Anchor& anchor : group.anchors) text += " " + to_text(anchor);
    }
  }
  return text;
}

KernelStructure structure_of(const Graph& graph, const StructureOptions& options = {}) {
  const AxisAnalysis analysis(graph);
  auto structure = derive_structure(graph, analysis, options);
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return std::move(*structure);
}

struct Example {
  std::string name;
  std::function<Graph()> graph;
  std::set<int> tile_axes;
  std::string text;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

Graph one(const std::function<std::vector<Value>(Builder&)>& make) {
  Builder b;
  const std::vector<Value> results = make(b);
  return finished(b, results);
}

Graph used_scatter() {
  return one([](Builder& b) {
    const Value table = b.parameter(DType::f32, {4096, 8}), at = b.parameter(DType::s32, {1024, 1});
    const Value updates = b.parameter(DType::f32, {1024, 8});
    return std::vector{b.unary(Op::tanh, b.add(Op::scatter, {table, at, updates}, row_scatter()))};
  });
}

Graph pieces(bool used) {
  return one([=](Builder& b) {
    const Value x = b.unary(Op::tanh, b.parameter(DType::f32, {100}));
    const Value y = b.unary(Op::exp, b.parameter(DType::f32, {200}));
    const Value all = b.concatenate({x, y}, 0);
    return std::vector{used ? b.unary(Op::negate, all) : all};
  });
}

Graph updated(const std::function<Value(Builder&, Value)>& cache_of) {
  return one([&](Builder& b) {
    const Value cache = cache_of(b, b.parameter(DType::f32, {16, 64}));
    const Value token = b.parameter(DType::f32, {1, 64}), at = b.parameter(DType::s32, {});
    return std::vector{
        b.add(Op::dynamic_update_slice, {cache, token, at, b.scalar(DType::s32, 0)}, graph::UpdateAttributes{true})};
  });
}

Graph arg_max() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 256});
    const Value top = b.add(Op::arg_reduce, {x}, graph::ArgReduceAttributes{ReduceKind::max, 1, DType::s32, false});
    return std::vector{top, Value{top.node, 1}};
  });
}

Graph reversed_sums() {
  return one([](Builder& b) {
    return std::vector{b.reverse(b.reduce(ReduceKind::sum, b.parameter(DType::f32, {64, 256}), {1}), {0})};
  });
}

Graph side_by_side() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {1000}), y = b.parameter(DType::f32, {1004});
    return std::vector{b.unary(Op::tanh, x), b.unary(Op::exp, y)};
  });
}

/// Two tensors under one dropout's mask.
Graph dropped() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {4096}), y = b.parameter(DType::f32, {4096});
    const Value key = b.broadcast(b.parameter(DType::u32, {}), {4096}, {});
    const Value bits = b.add(Op::threefry2x32, {key, key, key, b.iota(DType::u32, {4096}, 0)});
    const Value mask = b.compare(graph::Comparison::lt, bits, b.filled(DType::u32, {4096}, 1000));
    const Value zero = b.filled(DType::f32, {4096}, 0);
    return std::vector{b.select(mask, x, zero), b.select(mask, y, zero)};
  });
}

/// exp(x) stored, and the sums of its rows: both read x.
Graph store_and_sum() {
  return one([](Builder& b) {
    const Value e = b.unary(Op::exp, b.parameter(DType::f32, {64, 256}));
    return std::vector{e, b.reduce(ReduceKind::sum, e, {1})};
  });
}

/// x - sum of all x
Graph centred() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 256});
    const Value sum = b.reduce(ReduceKind::sum, x, {0, 1});
    return std::vector{b.binary(Op::subtract, x, b.broadcast(sum, {64, 256}, {}))};
  });
}

Graph running_sum() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 256});
    return std::vector{b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false})};
  });
}

std::vector<Example> examples() {
  return {
      {"element_wise",
       [] {
         return one([](Builder& b) { return std::vector{b.unary(Op::tanh, b.parameter(DType::f32, {64, 300}))}; });
       },
       {},
       "[19200] store:0@0"},
      // A row in the tile: each reduction that the next needs ends a sweep.
      {"softmax", [] { return softmax(64, 300); }, {1}, "[64 300] reduce/1@0 reduce/1@1 store:0@2"},
      {"layer_norm", [] { return layer_norm(64, 256); }, {1}, "[64 256] reduce/1@0 reduce/1@1 store:0@2"},
      {"arg_max", arg_max, {1}, "[64 256] reduce/1@0 store:0@1 store:1@1"},
      {"store_and_sum", store_and_sum, {1}, "[64 256] store:0@0 reduce/1@0 store:1@1"},
      // No axis in the tile: partial results, finished and kept in memory, before the next sweep can start.
      {"softmax_in_phases",
       [] { return softmax(64, 300); },
       {},
       "[64 300] partial/1:s0@0 | [P 64] reduce/0@0 store:s1@1 | [64 300] partial/1:s2@0 | "
       "[P 64] reduce/0@0 store:s3@1 | [64 300] store:0@0"},
      {"centred_in_phases", centred, {}, "[16384] partial/0:s0@0 | [P] reduce/0@0 store:s1@1 | [16384] store:0@0"},
      {"centred_in_a_tile", centred, {0}, "[16384] reduce/0@0 store:0@1"},
      // Rows and columns of one tensor: one group, whichever of them ends in the tile.
      {"row_and_column_sums_rows_local",
       [] { return row_and_column_sums(64, 256); },
       {1},
       "[64 256] reduce/1@0 store:0@1 partial/0:s0@0 | [P 256] reduce/0@0 store:1@1"},
      {"row_and_column_sums_columns_local",
       [] { return row_and_column_sums(64, 256); },
       {0},
       "[64 256] partial/1:s0@0 reduce/0@0 store:1@1 | [P 64] reduce/0@0 store:0@1"},
      {"row_and_column_sums_both_local",
       [] { return row_and_column_sums(64, 256); },
       {0, 1},
       "[64 256] reduce/1@0 store:0@1 reduce/0@0 store:1@1"},
      {"row_and_column_sums_none_local",
       [] { return row_and_column_sums(64, 256); },
       {},
       "[64 256] partial/1:s0@0 partial/0:s1@0 | [P 64] reduce/0@0 store:0@1 ; [P 256] reduce/0@0 store:1@1"},
      {"layer_norm_backward",
       [] { return layer_norm_backward(64, 256); },
       {1},
       "[64 256] reduce/1@0 reduce/1@0 store:0@1 partial/0:s0@0 partial/0:s1@0 | "
       "[P 256] reduce/0@0 reduce/0@0 store:1@1 store:2@1"},
      // A reduction needed at another index than where it was made goes through memory.
      {"reversed_sums", reversed_sums, {1}, "[64 256] reduce/1@0 store:s0@1 | [64] store:0@0"},
      // Scans and scatters are read from memory only.
      {"scan", running_sum, {}, "[64 256] scan/1:0@0"},
      {"scan_that_is_used", [] { return scanned(64, 256); }, {}, "[64 256] scan/1:s0@0 | [64 256] store:0@0"},
      {"few_updates_are_looked_for", [] { return scattered(300, 64, 40); }, {}, "[19200 40] scatter/1:0@0"},
      {"many_are_added", [] { return scattered(4096, 8, 1024); }, {}, "[32768] store:0@0 | [1024 8] atomic:0@0"},
      {"many_that_are_used", used_scatter, {}, "[32768] store:s0@0 | [1024 8] atomic:s0@0 | [32768] store:0@0"},
      {"many_of_integers",
       [] { return scattered(4096, 8, 1024, DType::s32, ReduceKind::max); },
       {},
       "[32768] store:0@0 | [1024 8] atomic:0@0"},
      // 16-bit values are summed in f32, in scratch memory.
      {"many_of_bf16",
       [] { return scattered(4096, 8, 1024, DType::bf16); },
       {},
       "[32768] store:s0@0 | [1024 8] atomic:s0@0 | [32768] store:0@0"},
      // Order matters, or there is no such atomic.
      {"many_that_replace",
       [] { return scattered(4096, 8, 1024, DType::f32, ReduceKind::replace); },
       {},
       "[32768 1024] scatter/1:0@0"},
      {"many_in_a_fixed_order",
       [] {
         Graph graph = scattered(4096, 8, 1024);
         graph.constraints.deterministic = true;
         return graph;
       },
       {},
       "[4096 8 1024] scatter/2:0@0"},
      {"many_maxima_of_f32",
       [] { return scattered(4096, 8, 1024, DType::f32, ReduceKind::max); },
       {},
       "[32768] store:0@0 | [1024 8] atomic:0@0"},
      // Concatenations are stored piece by piece, unless somebody computes with them.
      {"concatenation", [] { return pieces(false); }, {}, "[100] store:0@0 ; [200] store:0@0"},
      {"concatenation_that_is_used", [] { return pieces(true); }, {}, "[300] store:0@0"},
      // Updates in place write only the update.
      {"update_in_place", [] { return cache_update(16, 2048, 64, true); }, {}, "[16 64] store:0@0"},
      {"update_of_a_copy", [] { return cache_update(16, 2048, 64, false); }, {}, "[16 2048 64] store:0@0"},
      {"update_of_a_reshaped_parameter",
       [] { return updated([](Builder& b, Value x) {
              return b.reshape(b.reshape(x, {1024}), {16, 64});
            }); },
       {},
       "[64] store:0@0"},
      {"update_of_what_was_computed",
       [] { return updated([](Builder& b, Value x) { return b.unary(Op::tanh, x); }); },
       {},
       "[16 64] store:0@0"},
      {"random_bits_are_computed_once", dropped, {}, "[4096] store:0@0 store:1@0"},
      {"independent_stores_share_a_phase", side_by_side, {}, "[1000] store:0@0 ; [1004] store:1@0"},
  };
}

class StructureOf : public testing::TestWithParam<Example> {};

TEST_P(StructureOf, Kernel) {
  const Graph graph = GetParam().graph();
  EXPECT_EQ(to_text(structure_of(graph, {GetParam().tile_axes, {}})), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Kernels, StructureOf, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

// ---- gathered reductions ------------------------------------------------------------------------------------------

/// x - Σ of its rows' sums of squares, and those sums
Graph of_all_rows() {
  return one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 256});
    const Value rows = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
    const Value all = b.reduce(ReduceKind::sum, b.unary(Op::sqrt, rows), {0});
    return std::vector{b.binary(Op::subtract, x, b.broadcast(all, {64, 256}, {})), rows};
  });
}

TEST(GatheredReductions, EndInATileOfAPhaseOfTheirOwn) {
  EXPECT_EQ(to_text(structure_of(of_all_rows(), {{1}, {}})),
            "[64 256] reduce/1@0 store:1@1 partial/0:s0@1 | [P] reduce/0@0 store:s1@1 | [64 256] store:0@0");
  EXPECT_EQ(to_text(structure_of(of_all_rows(), {.tile_axes = {1}, .materialised = {}, .gathered = 1000})),
            "[64 256] reduce/1@0 store:1@1 | [64] reduce/0@0 store:s0@1 | [64 256] store:0@0");
}

// Deviations from a mean of means: the second sum needs the first, in the same tile.
TEST(GatheredReductions, OneTileMakesSeveralOfThem) {
  const Graph graph = one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 256});
    const Value rows = b.reduce(ReduceKind::sum, x, {1});
    const Value mean = b.broadcast(b.reduce(ReduceKind::sum, rows, {0}), {64}, {});
    const Value apart = b.binary(Op::subtract, rows, mean);
    const Value spread = b.reduce(ReduceKind::sum, b.binary(Op::multiply, apart, apart), {0});
    return std::vector{b.binary(Op::multiply, x, b.broadcast(spread, {64, 256}, {}))};
  });
  EXPECT_EQ(structure_of(graph, {{1}, {}}).phases.size(), 5U);
  EXPECT_EQ(to_text(structure_of(graph, {.tile_axes = {1}, .materialised = {}, .gathered = 1000})),
            "[64 256] reduce/1@0 store:s0@1 | [64] reduce/0@0 reduce/0@1 store:s1@2 | [64 256] store:0@0");
}

TEST(GatheredReductions, AreThoseOfFewElementsThatManyTilesLeave) {
  const auto gathers = [](const Graph& graph, const std::set<int>& tile_axes, std::int64_t most) {
    return gathers_any(graph, AxisAnalysis(graph), {.tile_axes = tile_axes, .materialised = {}, .gathered = most});
  };
  EXPECT_TRUE(gathers(of_all_rows(), {1}, 64));
  EXPECT_FALSE(gathers(of_all_rows(), {1}, 63)) << "too many";
  EXPECT_FALSE(gathers(of_all_rows(), {1}, 16384)) << "what is computed from is small itself";
  EXPECT_FALSE(gathers(of_all_rows(), {0, 1}, 64)) << "they end in their tile in any case";
  EXPECT_FALSE(gathers(centred(), {}, 1000)) << "large ones leave partial results";
}

// ---- where things go ----------------------------------------------------------------------------------------------

std::int64_t address(const GroupStructure& group, const std::vector<std::int64_t>& at) {
  std::unordered_map<Index, std::int64_t> variables;
  for (std::size_t a = 0; a < at.size(); ++a) variables[group.program->axes().variables[a]] = at[a];
  return group.program->pool().evaluate(group.anchors[0].addresses[0], variables);
}

TEST(Structure, PiecesOfAConcatenationStandWhereTheyBelong) {
  const Graph graph = one([](Builder& b) {
    const Value x = b.unary(Op::tanh, b.parameter(DType::f32, {8, 3}));
    const Value y = b.unary(Op::exp, b.parameter(DType::f32, {8, 5}));
    const Value z = b.unary(Op::negate, b.parameter(DType::f32, {4, 8}));
    return std::vector{b.concatenate({b.concatenate({x, y}, 1), z}, 0)};
  });
  const KernelStructure structure = structure_of(graph);
  ASSERT_EQ(to_text(structure), "[8 3] store:0@0 ; [8 5] store:0@0 ; [4 8] store:0@0");
  const auto& groups = structure.phases[0].groups;
  EXPECT_EQ(address(groups[0], {2, 1}), 2 * 8 + 1);
  EXPECT_EQ(address(groups[1], {2, 1}), 2 * 8 + 3 + 1);
  EXPECT_EQ(address(groups[2], {1, 1}), 9 * 8 + 1);
}

TEST(Structure, PartsThatTakeTurnsWithinASectorAreStoredTogether) {
  const auto interleaved = [](std::int64_t part, DType dtype) {
    return one([&](Builder& b) {
      const Value x = b.parameter(dtype, {8, 64, part});
      return std::vector{b.concatenate({b.unary(Op::tanh, x), b.unary(Op::exp, x)}, 2)};
    });
  };
  EXPECT_EQ(to_text(structure_of(interleaved(1, DType::f32))), "[512 2] store:0@0");
  const Graph many = one([](Builder& b) {
    std::vector<Value> parts;
    for (int i = 0; i < 9; ++i) parts.push_back(b.unary(Op::tanh, b.parameter(DType::f32, {64, 1})));
    return std::vector{b.concatenate(parts, 1)};
  });
  EXPECT_EQ(structure_of(many).phases[0].groups.size(), 9U) << "more than a thread can hold";
  EXPECT_EQ(to_text(structure_of(interleaved(15, DType::bf16))), "[512 30] store:0@0");
  EXPECT_EQ(to_text(structure_of(interleaved(16, DType::bf16))), "[512 16] store:0@0 store:0@0") << "a sector each";
}

TEST(Structure, PartialResultsStandSetBySet) {
  const Graph graph = row_and_column_sums(64, 256);
  const KernelStructure structure = structure_of(graph, {{1}, {}});
  const GroupStructure& finish = structure.phases[1].groups[0];
  const Item& load = finish.program->at(finish.anchors[0].items[0]);
  EXPECT_EQ(load.kind, Item::Kind::load);
  EXPECT_EQ(load.buffer, (Buffer{Buffer::Kind::scratch, 0}));
  const auto& variables = finish.program->axes().variables;
  EXPECT_EQ(finish.program->pool().evaluate(load.index, {{variables[0], 3}, {variables[1], 7}}), 3 * 256 + 7);
  ASSERT_EQ(structure.scratch.size(), 1U);
  EXPECT_EQ(structure.scratch[0].kind, Scratch::Kind::partials);
  EXPECT_EQ(structure.scratch[0].elements, 256);
  EXPECT_EQ(structure.scratch[0].value, graph.results()[1]);
}

TEST(Structure, PartialResultsAndSumsAreKeptInTheAccumulatorsType) {
  const Graph graph = one([](Builder& b) {
    const Value x = b.parameter(DType::bf16, {64, 256});
    return std::vector{b.reduce(ReduceKind::sum, x, {0})};
  });
  const KernelStructure structure = structure_of(graph);
  EXPECT_EQ(structure.scratch.at(0).dtype, DType::f32);
  const Graph added = scattered(4096, 8, 1024, DType::bf16);
  EXPECT_EQ(structure_of(added).scratch.at(0).dtype, DType::f32);
}

TEST(Structure, MaterialisedValuesAreKeptInScratch) {
  Builder b;
  const Value y = b.unary(Op::tanh, b.parameter(DType::f32, {2000}));
  const Graph graph = finished(b, {b.unary(Op::exp, y)});
  const KernelStructure structure = structure_of(graph, {{}, {y}});
  EXPECT_EQ(to_text(structure), "[2000] store:s0@0 store:0@0");
  EXPECT_EQ(structure.scratch.at(0).value, y);
  EXPECT_EQ(structure.scratch.at(0).elements, 2000);
}

TEST(Structure, AScanIsStoredAsTheReshapeOfItThatIsWanted) {
  const auto structure = [](bool several) {
    Builder b;
    const Value x = b.parameter(DType::f32, {6, 1000});
    const Value sums = b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
    const Value reshaped = b.reshape(b.reshape(sums, {3, 2, 1000}), {6000});
    std::vector<Value> results = {reshaped};
    if (several) results = {sums, reshaped, b.unary(Op::exp, reshaped)};
    return structure_of(finished(b, results));
  };
  EXPECT_EQ(structure(false).phases.size(), 1U);
  EXPECT_TRUE(structure(false).scratch.empty());
  // Who else wants it reads the first.
  EXPECT_EQ(structure(true).phases.size(), 2U);
  EXPECT_TRUE(structure(true).scratch.empty());
}

TEST(Structure, ItemsStandInTheEarliestSweepTheyCan) {
  const Graph graph = softmax(64, 300);
  const KernelStructure structure = structure_of(graph, {{1}, {}});
  const GroupStructure& group = structure.phases[0].groups[0];
  EXPECT_EQ(group.sweep_count, 3);
  std::map<Op, int> sweep;
  for (std::size_t i = 0; i < group.program->items().size(); ++i) {
    const Item& item = group.program->items()[i];
    if (item.kind == Item::Kind::load) {
      EXPECT_EQ(group.item_sweep[i], 0);
    } else if (item.kind == Item::Kind::compute) {
      sweep[item.op] = group.item_sweep[i];
    }
  }
  EXPECT_EQ(sweep, (std::map<Op, int>{{Op::subtract, 1}, {Op::exp, 1}, {Op::divide, 2}}));
}

TEST(Structure, RefusesWhatNoKernelComputes) {
  const Graph graph = one([](Builder& b) {
    const Value x = b.parameter(DType::f32, {64, 64});
    graph::DotAttributes dot;
    dot.lhs_contracting = {1};
    dot.rhs_contracting = {0};
    return std::vector{b.dot(x, x, dot)};
  });
  const auto structure = derive_structure(graph, AxisAnalysis(graph), {});
  ASSERT_FALSE(structure);
  EXPECT_EQ(structure.error().kind, ErrorKind::constraint);
  EXPECT_THAT(structure.error().message, testing::HasSubstr("dot cannot be computed inside a kernel"));
}

}  // namespace
}  // namespace stitch::kernel::test
