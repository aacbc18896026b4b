#pragma once

#include <cstdint>
#include <limits>
#include <stop_token>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/evaluate_box.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph {

/// Only the elements of its operand within `boxes` take part in the reduction `node` (a reduce, arg_reduce or
/// max_exp_sum of the graph itself, not of a region): any set of indices of the reduced dimensions together. Verifies
/// kernels of which only some blocks were run. A node has at most one.
struct ReduceRestriction {
  NodeId node = -1;
  /// Of the operand; whole along dimensions that are not reduced. In row-major order of the dimensions along which not
  /// all of them are whole, each begins behind the end of the one before.
  std::vector<Box> boxes;
};

struct EvaluateOptions {
  /// Round every result to its dtype (constant folding, conformance suites). Off: floating values stay in double and
  /// only inputs and constants are what their dtype holds, because kernels may keep excess precision.
  bool round = false;
  /// Compute Tensor::bounds; see evaluate_error.h for the model.
  bool bounds = false;
  ErrorModel error_model;
  std::vector<ReduceRestriction> restrictions;
  std::int64_t most_trips = std::int64_t{1} << 20;     ///< of one loop; more is ErrorKind::resource_exhausted
  std::int64_t memory_limit = std::int64_t{16} << 30;  ///< bytes of values alive at once; likewise
  /// Elements of its operand that a reduction may have at once. One that reads more is evaluated in parts of its
  /// result, each with all that it depends on, so that a row's sum over a tensor of gigabytes needs some rows at a
  /// time.
  std::int64_t most_reduced = std::int64_t{1} << 24;
  /// Elements computed, times what each takes (terms of a reduction or contraction, operators of a chain), over all
  /// turns of loops; likewise. Counted, not timed: the same evaluation ends at the same place everywhere.
  std::int64_t work_limit = std::numeric_limits<std::int64_t>::max();
  /// Looked at before each operator and within those of many elements; error then: cancelled.
  std::stop_token stop = {};
};

}  // namespace stitch::graph
