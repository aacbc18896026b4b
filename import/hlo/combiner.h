#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

/// What the small computations inside reduce, reduce-window, scatter and select-and-scatter do. A combiner of n values
/// has parameters accumulator 0 … n-1, element 0 … n-1 and n results.
namespace stitch::import::hlo {

/// n results that do not look at each other, each a plain combination of its accumulator and its element, in either
/// order, possibly computed in a wider type; one kind per result. `replace`: the element itself.
std::optional<std::vector<graph::ReduceKind>> independent_kinds(const graph::Graph& combiner);

/// (value, position) pairs: the greater or smaller value wins and takes its position along.
struct ArgCombiner {
  graph::ReduceKind kind = graph::ReduceKind::max;  ///< max or min
  bool last = false;                                ///< among equals the higher position, else the lower
};

/// Recognised by trying every order that two values (NaN included) and two positions can have, which proves it for a
/// computation that only compares and selects. Where a combiner leaves a choice, because its result would depend on the
/// order of the reduction (NaN that may get lost, ties that go to whichever comes first), Op::arg_reduce's answer is
/// one of those it allows, and it is taken.
std::optional<ArgCombiner> arg_combiner(const graph::Graph& combiner);

/// select-and-scatter's choice between the selected element and a candidate: max when it keeps the selected one
/// exactly if that is ≥, min exactly if ≤.
std::optional<graph::ReduceKind> selection_kind(const graph::Graph& selection);

/// Combining a value twice is combining it once: max, min, and, or.
bool is_idempotent(graph::ReduceKind kind);

}  // namespace stitch::import::hlo
