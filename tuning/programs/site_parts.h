#pragma once

#include <vector>

#include "graph/cut_graph.h"

// A fragment as those parts that no value connects: a cut packs what is on one level, such as the cells of both
// directions of a recurrent layer, of which each may belong to another product's kernel (row_groups.h).

namespace stitch::tuning {

/// The parts of a fragment that share no more than constants, each as a fragment of its own, in the order of their
/// first results. One: the fragment itself, or a part of it whose graph cannot be made.
std::vector<graph::FragmentSite> parts_of(const graph::Graph& graph, const graph::FragmentSite& site);

}  // namespace stitch::tuning
