#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/pass.h"

namespace stitch::graph {

/// One named pass of the list; its header under graph/passes/ says what it expects, guarantees, and why it stands
/// where it does.
struct SimplificationPass {
  std::string_view name;
  Result<int> (*run)(Graph& graph, const PassContext& context);
  std::string_view summary;
};

/// The whole list, in the order in which it runs (docs/passes.md).
std::span<const SimplificationPass> simplification_passes();

struct SimplifyOptions {
  /// Allows changes of rounding beyond one operator; docs/passes.md lists the rules that ask for it. Not of a graph
  /// under `eager_precision`.
  bool reassociate = true;
  /// Verifies the graph after every pass that changed it (always on in tests).
  bool verify = false;
  /// The list is repeated until nothing changes, at most this often.
  int most_rounds = 24;
  /// Names of passes to leave out.
  std::vector<std::string> without = {};
  std::stop_token stop = {};  ///< looked at before each pass over each region
};

/// What one pass did, regions included.
struct PassReport {
  std::string_view name;
  int runs = 0;
  std::int64_t changes = 0;        ///< nodes replaced
  std::int64_t nodes_removed = 0;  ///< net; negative where a pass adds nodes for a later one
  double seconds = 0;
};

struct SimplifyReport {
  std::vector<PassReport> passes;  ///< in the order of the list
  int rounds = 0;                  ///< of the outermost graph
  bool settled = true;             ///< false: most_rounds was reached before nothing changed any more
  std::int64_t nodes_before = 0;   ///< all nodes, regions included
  std::int64_t nodes_after = 0;
  double seconds = 0;
};

/// Rewrites the graph and, first, the regions of its nodes to what a person would have written: same parameters, same
/// results, same values up to rounding where a pass says so. Idempotent once settled.
///
/// Errors: invalid_argument (an unknown name in `without`), internal (a pass failed or, with `verify`, built a wrong
/// graph; names the pass), cancelled. The graph is unchanged then.
Result<SimplifyReport> simplify(Graph& graph, const SimplifyOptions& options = {});

}  // namespace stitch::graph
