#include "graph/calls/call_layouts.h"

#include <algorithm>
#include <optional>

#include "graph/calls/call_leaves.h"
#include "graph/calls/strided_matmul.h"

namespace stitch::graph {
namespace {

/// Of a stream: from one small call of a library to the next (12 of a BERT's projection to heads took 88 µs on an H100,
/// bench/results/programs-h100.md), a kernel that copies beside its bytes, and bytes a µs there.
constexpr double call_us = 7, copy_launch_us = 2.5, bytes_of_us = 3e6;

/// Nothing: it is no matrix product of even strides.
std::optional<std::int64_t> calls_of(const Graph& graph, const LibraryCall& call) {
  const Result<Graph> own = own_graph(graph, call);
  const auto matmul = own ? describe_matmul(*own) : Result<StridedMatmul>(own.error());
  return matmul ? std::optional(matmul->calls()) : std::nullopt;
}

}  // namespace

LibraryCall with_quick_layouts(const Graph& graph, const std::function<LibraryCall(const CallLayouts&)>& make) {
  LibraryCall all = make({});
  const std::optional<std::int64_t> calls = calls_of(graph, all);
  if (calls.value_or(1) <= 1) return all;
  CallLayouts best;
  double best_us = static_cast<double>(*calls) * call_us;
  for (int choice = 1; choice < 8; ++choice) {
    const CallLayouts layouts = {(choice & 1) == 0, (choice & 2) == 0, (choice & 4) == 0};
    const LibraryCall call = make(layouts);
    const std::optional<std::int64_t> fewer = calls_of(graph, call);
    if (!fewer) continue;
    double us = static_cast<double>(*fewer) * call_us;
    const auto add_copy = [&](Value value) {
      us += copy_launch_us + 2 * static_cast<double>(graph.type(value).bytes()) / bytes_of_us;
    };
    const bool changes = (layouts.left || call.operands[0] != all.operands[0]) &&
                         (layouts.right || call.operands[1] != all.operands[1]) &&
                         (layouts.result || call.result != all.result);
    if (!changes) continue;  // there is nothing to refuse
    if (!layouts.left) add_copy(call.operands[0]);
    if (!layouts.right) add_copy(call.operands[1]);
    if (!layouts.result) add_copy(call.result);
    if (us >= best_us) continue;
    best = layouts;
    best_us = us;
  }
  return make(best);
}

}  // namespace stitch::graph
