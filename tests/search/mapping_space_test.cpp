#include "search/schedule/mapping_space.h"
#include "search/schedule/vector_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "kernel/program/group_deriver.h"
#include "kernel/program/legality.h"
#include "kernel/rewrite/sorted_updates.h"
#include "kernel/structure/structure_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

struct Example {
  std::string name;
  std::function<Graph()> graph;
  std::set<int> tile_axes;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

Graph element_wise(DType dtype, const Dims& dims) {
  Builder b;
  return finished(b, {b.unary(Op::tanh, b.parameter(dtype, dims))});
}

Graph transposed(const Dims& dims, int results) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims), turned = b.transpose(x, {1, 0});
  std::vector<Value> list = {b.unary(Op::negate, turned)};
  for (int i = 1; i < results; ++i)
    list.push_back(b.binary(Op::multiply, turned, b.filled(DType::f32, {dims[1], dims[0]}, i)));
  return finished(b, list);
}

/// Elements put into a vector, the last one of a place stays.
Graph scattered_elements(std::int64_t extent, std::int64_t count) {
  Builder b;
  const Value x = b.parameter(DType::s32, {extent}), places = b.parameter(DType::s32, {count, 1});
  graph::ScatterAttributes a;
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = ReduceKind::replace;
  return finished(b, {b.add(Op::scatter, {x, places, b.parameter(DType::s32, {count})}, a)});
}

std::vector<Example> examples() {
  return {
      {"scalar", [] { return element_wise(DType::f32, {}); }, {}},
      {"tiny", [] { return element_wise(DType::f32, {3}); }, {}},
      {"element_wise", [] { return element_wise(DType::f32, {1 << 20}); }, {}},
      {"odd", [] { return element_wise(DType::bf16, {100003}); }, {}},
      {"softmax", [] { return softmax(64, 300); }, {1}},
      {"short_rows", [] { return softmax(5000, 5); }, {1}},
      {"long_rows", [] { return softmax(16, 65536); }, {1}},
      {"softmax_in_phases", [] { return softmax(64, 300); }, {}},
      {"norm_backward", [] { return layer_norm_backward(2048, 256); }, {1}},
      {"both_sums", [] { return row_and_column_sums(64, 256); }, {0, 1}},
      {"columns_first", [] { return row_and_column_sums(4096, 33); }, {0}},
      {"scan", [] { return scanned(300, 100); }, {}},
      {"scatter", [] { return scattered(300, 64, 40); }, {}},
      {"scatter_to_one", [] { return scattered_elements(1, 40); }, {}},
      {"scatter_of_elements", [] { return scattered_elements(2048, 1600); }, {}},
      {"sorted_rows", [] { return *kernel::sort_updates(scattered(4096, 8, 1024), 256); }, {}},
      {"sorted_elements", [] { return *kernel::sort_updates(scattered_elements(2048, 1600), 256); }, {}},
      {"atomic", [] { return scattered(4096, 8, 1024); }, {}},
      {"update", [] { return cache_update(16, 2048, 64, true); }, {}},
      {"transpose",
       [] {
         return transposed({300, 700}, 1);
       },
       {}},
  };
}

kernel::KernelStructure structure_of(const Graph& graph, const std::set<int>& tile_axes) {
  const kernel::AxisAnalysis analysis(graph);
  auto structure = kernel::derive_structure(graph, analysis, {tile_axes, {}});
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return std::move(*structure);
}

/// What every mapping of a group must be; returns how many of them a program can be derived from.
int check_mappings(const kernel::GroupStructure& group, const MappingSpaceOptions& options) {
  const std::vector<kernel::GroupMapping> mappings = enumerate_mappings(group, options, *find_device("h100"));
  std::vector<std::int64_t> extents = group.program->axes().extents;
  if (group.partial_axis >= 0) extents[group.partial_axis] = options.partials;
  int usable = 0;
  for (std::size_t m = 0; m < mappings.size(); ++m) {
    const kernel::GroupMapping& mapping = mappings[m];
    EXPECT_EQ(std::find(mappings.begin(), mappings.begin() + m, mapping), mappings.begin() + m)
        << "mapping " << m << " is there twice";
    if (mapping.axes.size() != extents.size()) {
      ADD_FAILURE() << mapping.axes.size() << " axes of " << extents.size();
      continue;
    }
    std::int64_t threads = 1, lanes = 1, clusters = 1;
    for (std::size_t a = 0; a < extents.size(); ++a) {
      const kernel::AxisMapping& axis = mapping.axes[a];
      EXPECT_GE(axis.covered(), extents[a]) << "axis " << a << " of mapping " << m;
      // No tile lies wholly beyond the end.
      EXPECT_LT(axis.step(kernel::Level::grid) * (axis.at(kernel::Level::grid) - 1), extents[a])
          << "axis " << a << " of mapping " << m;
      if (axis.at(kernel::Level::vector) > 1) {
        EXPECT_EQ(static_cast<int>(a), mapping.vector_axis);
      }
      threads *= axis.threads();
      lanes *= axis.at(kernel::Level::lane);
      clusters *= axis.at(kernel::Level::cluster);
    }
    EXPECT_LE(threads, options.threads);
    EXPECT_LE(lanes, 32);
    EXPECT_TRUE(clusters == 1 || clusters == options.cluster);
    kernel::Schedule schedule;
    schedule.threads = options.threads;
    schedule.cluster = options.cluster;
    const auto program = kernel::derive_group(group, mapping, schedule, options.partials);
    if (program) {
      ++usable;
    } else {
      EXPECT_EQ(program.error().kind, ErrorKind::constraint) << program.error().message;
    }
  }
  return usable;
}

class MappingsOf : public testing::TestWithParam<Example> {};

// Every thread tests all updates for its elements: lanes along updates would all do the same.
TEST(MappingSpace, LanesOfAScatterLieAlongItsElements) {
  const graph::Graph many = scattered_elements(2048, 1600);  // what a structure points into
  const kernel::KernelStructure structure = structure_of(many, {});
  const kernel::GroupStructure& group = structure.phases[0].groups[0];
  ASSERT_EQ(group.anchors[0].kind, kernel::Anchor::Kind::scatter);
  std::set<std::int64_t> elements;
  for (const kernel::GroupMapping& mapping : enumerate_mappings(group, {}, *find_device("h100"))) {
    for (std::size_t a = 0; a < mapping.axes.size(); ++a) {
      if (group.anchors[0].reduced.contains(a)) {
        EXPECT_EQ(mapping.axes[a].threads(), 1);
      } else {
        EXPECT_EQ(mapping.axes[a].at(kernel::Level::lane), 32);
        elements.insert(mapping.axes[a].at(kernel::Level::reg));
      }
    }
  }
  EXPECT_THAT(elements, testing::ElementsAre(1, 8, 32));
  // Of one element there is none to give lanes to.
  const graph::Graph single = scattered_elements(1, 40);
  const kernel::KernelStructure one = structure_of(single, {});
  for (const kernel::GroupMapping& mapping : enumerate_mappings(one.phases[0].groups[0], {}, *find_device("h100"))) {
    for (const kernel::AxisMapping& axis : mapping.axes) EXPECT_EQ(axis.threads(), 1);
  }
}

/// Per mapping of the search of sorted updates: lanes along the updates, lanes and registers along the places.
std::set<std::vector<std::int64_t>> searches(const graph::Graph& sorted) {
  const kernel::KernelStructure structure = structure_of(sorted, {});
  const kernel::GroupStructure& group = structure.phases.back().groups[0];
  const kernel::Anchor& anchor = group.anchors[0];
  const kernel::AxisSet placed = group.program->at(anchor.items[1]).axes - anchor.reduced;
  std::set<std::vector<std::int64_t>> seen;
  for (const kernel::GroupMapping& mapping : enumerate_mappings(group, {}, *find_device("h100"))) {
    std::vector<std::int64_t> each = {1, 1, 1};
    for (const int a : anchor.reduced) each[0] *= mapping.axes[a].at(kernel::Level::lane);
    for (const int a : placed) {
      each[1] *= mapping.axes[a].at(kernel::Level::lane);
      each[2] *= mapping.axes[a].at(kernel::Level::reg);
    }
    seen.insert(each);
  }
  return seen;
}

// A warp looks for the updates of one row or several, of 32 elements at a time, or of one, which its lanes load.
TEST(MappingSpace, AWarpLooksForUpdatesOfSeveralPlaces) {
  using Lay = std::vector<std::int64_t>;
  EXPECT_THAT(searches(*kernel::sort_updates(scattered(4096, 8, 1024), 256)),
              testing::ElementsAre(Lay{1, 1, 1}, Lay{1, 1, 4}, Lay{1, 1, 8}));
  EXPECT_THAT(searches(*kernel::sort_updates(scattered_elements(2048, 1600), 256)),
              testing::ElementsAre(Lay{1, 32, 1}, Lay{1, 32, 8}, Lay{32, 1, 1}));
}

TEST_P(MappingsOf, CoverEveryAxisAndFitTheBlock) {
  const Graph graph = GetParam().graph();
  const kernel::KernelStructure structure = structure_of(graph, GetParam().tile_axes);
  for (const kernel::PhaseStructure& phase : structure.phases) {
    for (const kernel::GroupStructure& group : phase.groups) {
      int usable = 0;
      for (const int threads : {64, 256, 1024}) {
        for (const bool wide : {false, true}) {
          MappingSpaceOptions options;
          options.threads = threads;
          options.wide = wide;
          options.partial_tiles = 132;
          options.partials = group.partial_axis >= 0 ? 66 : 1;
          usable += check_mappings(group, options);
        }
      }
      EXPECT_GT(usable, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MappingsOf, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(MappingSpace, OneTileIsCoveredByItsBlockOrSharedByACluster) {
  // Rows of 96 that are reduced, columns of 64 that are kept.
  Builder b;
  const Value x = b.parameter(DType::f32, {96, 64});
  const Graph graph = finished(b, {b.reduce(ReduceKind::sum, x, {0})});
  const kernel::KernelStructure structure = structure_of(graph, {0});
  for (const int cluster : {1, 4, 16, 32}) {
    MappingSpaceOptions options;
    options.one_tile = true;
    options.threads = 64;
    options.cluster = cluster;
    const auto mappings = enumerate_mappings(structure.phases[0].groups[0], options, *find_device("h100"));
    ASSERT_FALSE(mappings.empty());
    for (const kernel::GroupMapping& mapping : mappings) {
      ASSERT_EQ(mapping.axes.size(), 2U);
      EXPECT_EQ(mapping.axes[0].at(kernel::Level::cluster), 1);
      // With 32 blocks two columns each would be left: every block does all of them.
      EXPECT_EQ(mapping.axes[1].at(kernel::Level::cluster), cluster == 32 ? 1 : cluster);
      for (const kernel::AxisMapping& axis : mapping.axes) EXPECT_EQ(axis.at(kernel::Level::grid), 1);
      EXPECT_GE(mapping.axes[0].step(kernel::Level::grid), 96);
      EXPECT_GE(mapping.axes[1].step(kernel::Level::grid), 64);
    }
  }
}

// What several tiles reduce together is walked by all of them together, unless one block finds in L1 what it asked for
// a turn before: the rest of a sector of something that lies across, or of a window.
TEST(MappingSpace, BlocksWalkAlongPartialAxesTogether) {
  const auto interleaved = [](const std::function<Value(Builder&, Value)>& beside) {
    Builder b;
    const Value x = b.parameter(DType::f32, {30'000, 64});
    const Value y = beside(b, x);
    const Graph graph = finished(b, {b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, y), {0})});
    const kernel::KernelStructure structure = structure_of(graph, {});
    MappingSpaceOptions options;
    options.partial_tiles = 132;
    int looped = 0, together = 0;
    for (const kernel::GroupMapping& mapping :
         enumerate_mappings(structure.phases[0].groups[0], options, *find_device("h100"))) {
      looped += mapping.axes[0].at(kernel::Level::loop) > 1 && mapping.axes[0].at(kernel::Level::grid) > 1;
      together += mapping.axes[0].interleaved;
      EXPECT_FALSE(mapping.axes[1].interleaved);
    }
    EXPECT_GT(looped, 0);
    return together == 0 ? "none" : together >= looped ? "all" : "some";
  };
  EXPECT_STREQ(interleaved([](Builder&, Value x) { return x; }), "all");
  EXPECT_STREQ(interleaved([](Builder& b, Value) {
                 return b.transpose(b.parameter(DType::f32, {64, 30'000}), {1, 0});
               }),
               "none");
  EXPECT_STREQ(interleaved([](Builder& b, Value) {
                 const Value rows = b.parameter(DType::f32, {30'002, 64});
                 const auto from = [&](std::int64_t first) { return b.slice(rows, {first, 0}, {first + 30'000, 64}); };
                 return b.binary(Op::add, from(0), b.binary(Op::add, from(1), from(2)));
               }),
               "none");
}

TEST(MappingSpace, ClustersSplitTheRow) {
  const Graph graph = softmax(16, 65536);
  const kernel::KernelStructure structure = structure_of(graph, {1});
  MappingSpaceOptions options;
  options.cluster = 4;
  check_mappings(structure.phases[0].groups[0], options);
  for (const kernel::GroupMapping& mapping :
       enumerate_mappings(structure.phases[0].groups[0], options, *find_device("h100"))) {
    EXPECT_EQ(mapping.axes[0].at(kernel::Level::cluster), 1);
    EXPECT_EQ(mapping.axes[1].at(kernel::Level::cluster), 4);
    EXPECT_EQ(mapping.axes[1].at(kernel::Level::grid), 1);
  }
}

TEST(MappingSpace, WideHoldsAllOfTheUsual) {
  const Graph graph = softmax(64, 300);
  const kernel::KernelStructure structure = structure_of(graph, {1});
  MappingSpaceOptions options;
  options.wide = false;
  const auto usual = enumerate_mappings(structure.phases[0].groups[0], options, *find_device("h100"));
  options.wide = true;
  const auto wide = enumerate_mappings(structure.phases[0].groups[0], options, *find_device("h100"));
  EXPECT_GT(wide.size(), usual.size());
  for (const kernel::GroupMapping& mapping : usual) EXPECT_NE(std::find(wide.begin(), wide.end(), mapping), wide.end());
}

/// A norm with a gain, whose rows are `columns` long.
std::vector<kernel::GroupMapping> norm_mappings(std::int64_t rows, std::int64_t columns, bool gain) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims);
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
  Value scaled = b.binary(Op::divide, x, b.broadcast(sum, dims, {0}));
  if (gain) scaled = b.binary(Op::multiply, scaled, b.broadcast(b.parameter(DType::f32, {columns}), dims, {1}));
  const Graph graph = finished(b, {scaled});
  MappingSpaceOptions options;
  options.wide = false;
  return enumerate_mappings(structure_of(graph, {1}).phases[0].groups[0], options, *find_device("h100"));
}

bool any_with(const std::vector<kernel::GroupMapping>& mappings, kernel::Level level) {
  return std::any_of(mappings.begin(), mappings.end(),
                     [&](const kernel::GroupMapping& m) { return m.axes[0].at(level) > 1; });
}

// A gain is loaded once for several rows: side by side where they are short, in a loop where blocks abound.
TEST(MappingSpace, WhatRepeatsAlongRowsIsLoadedOnceForSeveral) {
  EXPECT_TRUE(any_with(norm_mappings(4096, 768, true), kernel::Level::reg));
  EXPECT_FALSE(any_with(norm_mappings(4096, 768, false), kernel::Level::reg));
  EXPECT_TRUE(any_with(norm_mappings(8192, 8192, true), kernel::Level::loop));
  EXPECT_FALSE(any_with(norm_mappings(8192, 8192, false), kernel::Level::loop));
  EXPECT_FALSE(any_with(norm_mappings(512, 8192, true), kernel::Level::loop));
}

TEST(MappingSpace, UnrollsAlongRowsWhereABiasRepeats) {
  const auto unrolled = [](bool bias) {
    Builder b;
    const Dims dims = {4096, 1024};
    const Value x = b.parameter(DType::f32, dims);
    const Value other = bias ? b.broadcast(b.parameter(DType::f32, {1024}), dims, {1})
                             : b.broadcast(b.parameter(DType::f32, {4096}), dims, {0});
    const Graph graph = finished(b, {b.binary(Op::add, x, other)});
    return enumerate_mappings(structure_of(graph, {}).phases[0].groups[0], {}, *find_device("h100"));
  };
  const auto none_along_columns = [](const std::vector<kernel::GroupMapping>& mappings) {
    return std::none_of(mappings.begin(), mappings.end(),
                        [](const kernel::GroupMapping& mapping) { return mapping.axes[1].at(kernel::Level::reg) > 1; });
  };
  EXPECT_TRUE(any_with(unrolled(true), kernel::Level::reg));
  EXPECT_TRUE(none_along_columns(unrolled(true)));
  EXPECT_TRUE(!none_along_columns(unrolled(false)));
}

// Lanes along the axis that is contiguous on the other side fill a sector there.
TEST(MappingSpace, AWarpLiesOnBothAxesOfATranspose) {
  const auto narrow = [](const Graph& graph) {
    const auto mappings = enumerate_mappings(structure_of(graph, {}).phases[0].groups[0], {}, *find_device("h100"));
    return std::ranges::count_if(mappings, [](const kernel::GroupMapping& mapping) {
      const std::size_t v = mapping.vector_axis;
      return mapping.axes[v].at(kernel::Level::lane) == 4 && mapping.axes[1 - v].at(kernel::Level::lane) == 8;
    });
  };
  EXPECT_GT(narrow(transposed({1024, 2048}, 1)), 0);
  Builder b;
  const Dims dims = {1024, 2048};
  const Value x = b.parameter(DType::f32, dims);
  const Value bias = b.broadcast(b.parameter(DType::f32, {2048}), dims, {1});
  EXPECT_EQ(narrow(finished(b, {b.binary(Op::add, x, bias)})), 0);
}

class RandomMappings : public testing::TestWithParam<int> {};

TEST_P(RandomMappings, CoverEveryAxisAndFitTheBlock) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 10;
  const Graph graph = graph::test::random_graph(options);
  const kernel::KernelStructure structure = structure_of(graph, {});
  for (const kernel::PhaseStructure& phase : structure.phases) {
    for (const kernel::GroupStructure& group : phase.groups) {
      MappingSpaceOptions space;
      space.partials = group.partial_axis >= 0 ? 3 : 1;
      space.partial_tiles = 3;
      EXPECT_GT(check_mappings(group, space), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMappings, testing::Range(1, 31));

// ---- vectors ------------------------------------------------------------------------------------------------------

struct Vector {
  std::string name;
  std::function<Graph()> graph;
  std::set<int> tile_axes;
  int axis;
  std::int64_t width;
};

void PrintTo(const Vector& vector, std::ostream* out) { *out << vector.name; }

class VectorOf : public testing::TestWithParam<Vector> {};

TEST_P(VectorOf, Group) {
  const Graph graph = GetParam().graph();
  const VectorChoice choice = choose_vector(structure_of(graph, GetParam().tile_axes).phases[0].groups[0]);
  EXPECT_EQ(choice.axis, GetParam().axis);
  EXPECT_EQ(choice.width, GetParam().width);
}

INSTANTIATE_TEST_SUITE_P(
    Groups, VectorOf,
    testing::Values(  // 16 bytes at a time, whole vectors to a row
        Vector{"f32", [] { return element_wise(DType::f32, {1 << 20}); }, {}, 0, 4},
        Vector{"bf16", [] { return element_wise(DType::bf16, {1 << 20}); }, {}, 0, 8},
        Vector{"f64", [] { return element_wise(DType::f64, {1 << 20}); }, {}, 0, 2},
        Vector{"odd_but_alone_has_a_tail", [] { return element_wise(DType::f32, {100003}); }, {}, 0, 4},
        Vector{"rows_of_300", [] { return softmax(64, 300); }, {1}, 1, 4},
        Vector{"rows_of_302", [] { return softmax(64, 302); }, {1}, 1, 2},
        Vector{"rows_of_301", [] { return softmax(64, 301); }, {1}, 1, 1},
        // A vector of 16 mask bytes would take the floats in two halves, each touching every sector.
        Vector{"mask_beside_floats",
               [] {
                 Builder b;
                 const Value x = b.parameter(DType::f32, {1 << 20}), mask = b.parameter(DType::pred, {1 << 20});
                 return finished(b, {b.select(mask, x, b.filled(DType::f32, {1 << 20}, 0))});
               },
               {},
               0,
               4},
        Vector{"float_gain_beside_halves",
               [] {
                 Builder b;
                 const Dims dims = {4096, 1024};
                 const Value x = b.parameter(DType::bf16, dims), gain = b.parameter(DType::f32, {1024});
                 const Value wide = b.binary(Op::multiply, b.convert(x, DType::f32), b.broadcast(gain, dims, {1}));
                 return finished(b, {b.convert(wide, DType::bf16)});
               },
               {},
               1,
               8},
        Vector{"shorter_than_a_vector", [] { return element_wise(DType::f32, {3}); }, {}, 0, 2},
        Vector{"scalar", [] { return element_wise(DType::f32, {}); }, {}, -1, 1},
        // One load along the rows, three stores along the columns: the stores weigh more.
        Vector{"transpose_with_many_stores",
               [] {
                 return transposed({64, 128}, 3);
               },
               {},
               1,
               4}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::search::test
