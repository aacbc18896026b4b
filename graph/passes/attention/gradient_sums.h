#pragma once

#include <vector>

#include "graph/calls/attention.h"
#include "graph/graph.h"
#include "graph/passes/attention/row_products.h"

namespace stitch::graph {

/// A sum over an attention's keys that the gradient of its softmax needs, and what it is without the keys (Dao et al.
/// 2022, appendix B.2): with the weights P, O = dot(P, V) and the gradient of the weights dP = dot(dO, V),
///
///     Σ_keys factor · P · dP  =  factor · Σ_width dO · O
///
/// also with a dropout of the weights, whose mask both P in O and dP have.
struct GradientSum {
  NodeId sum = -1;       ///< the reduction over the keys
  Attention attention;   ///< whose output O is
  NodeId gradient = -1;  ///< the dot dP
  Value output;          ///< O as it is in memory: with the transposition and the rounding that follow
  Value output_gradient;
  Dims turned;              ///< the order of the output's dimensions that is its gradient's
  std::int64_t width = -1;  ///< the dimension of the gradient that is summed
  Dims order;               ///< the order of what is left of the gradient's dimensions that is the reduction's
  RowProduct factor;        ///< without leaves
};

/// All of a graph, by their reductions. Of dots with one dimension of rows, of keys and of width each; the output is
/// computed before the sum.
std::vector<GradientSum> find_gradient_sums(const Graph& graph);

}  // namespace stitch::graph
