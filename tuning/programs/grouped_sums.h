#pragma once

#include <set>
#include <vector>

#include "base/result.h"
#include "graph/cut_graph.h"
#include "graph/graph.h"
#include "kernel/contraction/column_sums.h"

// Sums over rows in two steps, of which the kernel of a product makes the first: the gradient of a bias adds up all
// rows of what a product leaves, that of a norm's scale what is made of it. A block has a tile of the rows, so that it
// leaves the sums of groups of them (kernel/contraction/column_sums.h), and another kernel adds those up:
//
//     bf16[3072] Σ over {0,1} of bf16[8,512,3072]
//     f32[64,3072] Σ over {1} of what is reshaped to f32[64,64,3072];  bf16[3072] Σ over {0} of that
//
// A graph is written so before it is cut. Where no product's kernel takes the first step (row_groups.h), the fragment
// is again what it was.

namespace stitch::tuning {

/// A graph whose sums over leading rows are made in two steps.
struct GroupedSums {
  graph::Graph graph;
  std::vector<graph::NodeId> origin;  ///< by node: which one it is of the graph that it was made of; −1: none
  std::set<graph::Value> groups;      ///< what the first steps leave

  /// Whether a fragment reads nothing else.
  [[nodiscard]] bool adds_up(const graph::FragmentSite& site) const;
};

/// Rows of a group: what every tile of tensor cores is a multiple of, or a part of that where there are not so many.
inline constexpr std::int64_t most_rows_of_group = 64, least_rows_of_group = kernel::least_column_group;

/// With sums over at least two groups of all leading dimensions but the last ones, of floating-point types of at most
/// 32 bits. Error: internal (types that cannot be inferred again).
Result<GroupedSums> with_grouped_sums(const graph::Graph& graph);

/// A fragment's part behind the first steps: these of its results, made of `groups` and of what else it reads. Error:
/// internal (they are made of more).
Result<graph::FragmentSite> behind_groups(const GroupedSums& sums, const graph::FragmentSite& site,
                                          const std::vector<graph::Value>& groups, std::vector<graph::Value> results);

/// A cut of the graph that `sums` was made of, as one of its graph: its values and nodes there. Fragments' graphs stay
/// what they are, with sums in one step.
graph::CutGraph in_two_steps(const GroupedSums& sums, graph::CutGraph cut);

/// What two fragments compute as one of them: its level is the higher one's. Error: internal.
Result<graph::FragmentSite> together(const graph::Graph& graph, const graph::FragmentSite& one,
                                     const graph::FragmentSite& other);

/// The graph of a fragment whose arguments, results and operators are these, with its sums in one step, as they are in
/// `before`, of which `sums` was made; in two where one of the steps is another's. Error: internal.
Result<graph::Graph> in_one_step(const GroupedSums& sums, const graph::Graph& before, const graph::FragmentSite& site);

}  // namespace stitch::tuning
