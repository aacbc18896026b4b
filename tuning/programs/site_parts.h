#pragma once

#include <vector>

#include "graph/cut_graph.h"

// A fragment as those parts that no value connects: a cut packs what is on one level, such as the cells of both
// directions of a recurrent layer, of which each may belong to another product's kernel (row_groups.h).

namespace stitch::tuning {

/// The parts of a fragment that share no more than constants and single numbers, each as a fragment of its own, in the
/// order of their first results. One: the fragment itself, or a part of it whose graph cannot be made.
std::vector<graph::FragmentSite> parts_of(const graph::Graph& graph, const graph::FragmentSite& site);

/// The fragment with other results, which its nodes compute, and what these read. Error: internal (they are made of
/// more).
Result<graph::FragmentSite> with_other_results(const graph::Graph& graph, const graph::FragmentSite& site,
                                               std::vector<graph::Value> results);

}  // namespace stitch::tuning
