#include "graph/calls/matmul_calls.h"

#include <algorithm>

#include "graph/calls/find_calls.h"
#include "graph/calls/strided_matmul.h"
#include "graph/subgraph.h"

namespace stitch::graph {

bool are_matmuls(const Graph& call) {
  const std::vector<LibraryCall> calls = find_library_calls(call);
  const bool whole = calls.size() == 1 && call.results().size() == 1 && calls[0].result == call.results()[0];
  if (whole) return describe_matmul(call).ok();
  return std::ranges::all_of(calls, [&](const LibraryCall& each) {
    const auto alone = subgraph(call, call.node(each.root).operands, {{each.root, 0}});
    return alone.ok() && describe_matmul(*alone).ok();
  });
}

}  // namespace stitch::graph
