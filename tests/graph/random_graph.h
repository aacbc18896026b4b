#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph::test {

/// What random_graph makes. Weights say how often a kind of operator is tried, 0 leaves it out.
struct RandomGraphOptions {
  std::uint64_t seed = 1;
  int parameters = 3;
  int operators = 16;  ///< at least; a step may add helpers (a broadcast, a constant)
  int results = 3;     ///< at least; values that nothing uses become results too
  int most_rank = 4;
  std::int64_t most_extent = 9;
  std::int64_t most_elements = 600;  ///< of any value
  /// Element types of parameters and conversions; pred comes from comparisons alone unless it is listed.
  std::vector<DType> dtypes = {DType::f32};

  int unary = 4;
  int binary = 6;
  int compare_select = 2;
  int convert = 1;
  int broadcast = 3;
  int reshape = 2;
  int transpose = 2;
  int slice = 2;
  int reverse = 1;
  int pad = 1;
  int concatenate = 1;
  int gather = 1;
  int dynamic_slice = 1;
  int iota = 1;
  int reduce = 4;
  int arg_reduce = 0;
  int max_exp_sum = 0;
  int scan = 0;
  int sort = 0;
  int reduce_window = 0;
  int scatter = 0;
  int dot = 0;
  int function = 0;  ///< any function of floats in the operator table
};

/// A valid graph, the same for the same options. Floating values stay within about ±1000 for the arguments that
/// random_arguments makes, divisors and arguments of logarithms and roots away from zero.
Graph random_graph(const RandomGraphOptions& options);

/// Arguments in [-2, 2] (integers in the range of their dtype around 0) rounded to their dtypes.
std::vector<Tensor> random_arguments(const Graph& graph, std::uint64_t seed);

/// The same element as random_arguments gives, one at a time.
double random_element(const TensorType& type, std::uint64_t seed, std::int64_t index);

}  // namespace stitch::graph::test
