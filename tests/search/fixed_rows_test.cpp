#include "search/schedule/fixed_rows.h"

#include <gtest/gtest.h>

#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search {
namespace {

using kernel::AxisMapping;
using kernel::Level;
using kernel::test::Builder;
using kernel::test::DType;
using kernel::test::Graph;
using kernel::test::ReduceKind;

std::string text_of(const AxisMapping& row) {
  std::string text;
  for (const Level level : {Level::vector, Level::lane, Level::warp, Level::reg, Level::loop}) {
    if (row.at(level) > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(level), row.at(level));
  }
  return text;
}

struct RowCase {
  std::int64_t elements;
  int bytes;
  const char* mapping;
};

TEST(FixedRow, FollowsFromItsLength) {
  const RowCase cases[] = {
      {2, 4, "vector 2"},
      {3, 4, "lane 4"},
      {64, 4, "vector 4, lane 16"},
      {768, 4, "vector 4, lane 32, register 6"},
      {768, 8, "vector 2, lane 32, warp 2, register 6"},
      {1001, 4, "lane 32, warp 4, register 8"},
      {4096, 4, "vector 4, lane 32, warp 4, register 8"},
      {32768, 4, "vector 4, lane 32, warp 32, register 4, loop 2"},
      {50257, 4, "lane 32, warp 32, register 8, loop 7"},
      {262144, 4, "vector 4, lane 32, warp 32, register 4, loop 16"},
  };
  for (const RowCase& each : cases) {
    const AxisMapping row = fixed_row(each.elements, each.bytes);
    EXPECT_EQ(text_of(row), each.mapping) << each.elements;
    EXPECT_GE(row.covered(), each.elements);
    EXPECT_EQ(row.at(Level::grid) * row.at(Level::cluster), 1);
  }
}

/// Every mapping of the axis that rows of a graph are reduced along, in all schedules that are found.
std::set<std::string> row_mappings(Graph graph, bool wide, bool fixed = true) {
  graph.constraints.batch_invariant = fixed;
  const auto found = explore_space(graph, kernel::test::RoughScorer(), {.keep = 1000, .wide = wide});
  EXPECT_TRUE(found.ok()) << (found ? "" : found.error().message);
  std::set<std::string> all;
  if (!found) return all;
  for (const StitchCandidate& candidate : found->candidates) {
    for (const kernel::PhaseProgram& phase : candidate.program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) {
        EXPECT_TRUE(!fixed || keeps_rows_fixed(group.structure, group.mapping));
        for (const kernel::Anchor& anchor : group.structure.anchors) {
          if (!fixed_row_elements(anchor, graph)) continue;
          all.insert(text_of(group.mapping.axes[*anchor.reduced.begin()]));
        }
      }
    }
  }
  return all;
}

// However many rows there are, and whatever else the kernel computes.
TEST(FixedRow, IsTheOnlyMappingThatIsSearched) {
  const std::set<std::string> wanted = {"vector 4, lane 32, register 6"};
  for (const std::int64_t rows : {1, 7, 64, 513, 8192}) {
    EXPECT_EQ(row_mappings(kernel::test::softmax(rows, 768), false), wanted) << rows;
    EXPECT_EQ(row_mappings(kernel::test::layer_norm(rows, 768), true), wanted) << rows;
  }
  EXPECT_EQ(row_mappings(kernel::test::layer_norm_backward(4096, 768), false), wanted);
  EXPECT_GT(row_mappings(kernel::test::softmax(64, 768), false, false).size(), 4U) << "where nobody asks";
}

TEST(FixedRow, IsThereForEveryLength) {
  for (const std::int64_t columns : {2, 3, 5, 31, 33, 100, 257, 1000, 4097, 20000, 50257, 131072, 262144}) {
    Builder b;
    const auto x = b.parameter(DType::f32, {3, columns});
    const auto mappings = row_mappings(kernel::test::finished(b, {b.reduce(ReduceKind::sum, x, {1})}), false);
    EXPECT_EQ(mappings, std::set{text_of(fixed_row(columns, 4))}) << columns;
  }
}

}  // namespace
}  // namespace stitch::search
