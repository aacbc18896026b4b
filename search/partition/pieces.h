#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernel/structure/kernel_graph.h"
#include "search/partition/fusion_plan.h"

// Fragments of more operators than are explored together: cut in the order of the operators, so that no piece needs
// what a later one computes, and planned one by one.
namespace stitch::search {

/// The pieces, in an order in which they can run, each of about `most` operators; the fragment itself is the only one
/// where it has no more.
std::vector<kernel::KernelGraph> cut_in_pieces(const graph::Graph& fragment, int most);

/// How many operators there are that can be kernels.
int operators_of(const graph::Graph& fragment);

/// Appends a piece's plan to the fragment's, in the fragment's values.
void append_plan(const kernel::KernelGraph& piece, FusionPlan plan, FusionPlan& whole);

}  // namespace stitch::search
