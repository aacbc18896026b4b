#pragma once

#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"

// Which graphs are equal. Two models, or two layers of one, print the same computation with other names, another order
// of nodes and arguments; their canonical forms and keys are the same:
//
//     f(a, b) = exp(a) + b        f(y, x) = y + exp(x)        one key; parameter_order is {0, 1} and {1, 0}
//
// The key is what plans are stored and looked up by (db/, daemon/), computed for every fragment that cut() leaves;
// kernels are made for the canonical graph, and the orders say which argument goes where. Keys are stored: whatever
// changes one raises canonical_version.

namespace stitch::graph {

/// Part of every key; raised when the same graph would get another key than before.
inline constexpr int canonical_version = 1;

/// A graph in canonical form and what leads back to the original.
struct CanonicalForm {
  /// Parameters first, then the other nodes in a canonical topological order; no names, no lines, the constraints that
  /// are relevant. Operands of
  /// commutative operators are in ascending order. Regions are canonical too, their parameters and results (which the
  /// operands of their node fix) in the original order.
  Graph graph;
  /// Equal keys: isomorphic graphs under the same constraints (up to collisions of 128 bits). Independent of node
  /// order, names, argument order, result order and operand order of commutative operators.
  Hash128 key;
  /// The same without extents: ranks, operators, dtypes, attributes as HashDetail::family sees them, and constraints.
  Hash128 family_key;
  std::vector<int> parameter_order;  ///< parameter i of `graph` is parameter parameter_order[i] of the original
  std::vector<int> result_order;     ///< result i of `graph` is result result_order[i] of the original
  std::vector<NodeId> node_order;    ///< node i of `graph` is node node_order[i] of the original
  /// False for a graph so symmetric that the search gave up: the keys are sound (equal keys still mean isomorphic), but
  /// a renumbered copy may get others.
  bool exact = true;
};

/// Canonical form by canonical_order (graph/canonical_order.h) of nodes coloured with operator, attributes, types and
/// regions. Parameters and results are unordered and all nodes count, dead ones too (simplify first).
/// Time: a few sweeps over the edges; 10,000 nodes take some tens of milliseconds. Error: invalid_argument when nodes
/// are not in topological order.
Result<CanonicalForm> canonicalise(const Graph& graph);

/// Key of a graph whose parameters and results are told apart by their position, as those of a region are.
Hash128 region_key(const Graph& region);

/// Whether two graphs in canonical form are the same, name for name of what keys cover. Keys are no cryptographic
/// hashes: where graphs of strangers meet under a key, this is asked as well.
bool same_form(const Graph& a, const Graph& b);

/// Whether the node means the same with its two operands exchanged.
bool is_commutative(const Node& node);

}  // namespace stitch::graph
