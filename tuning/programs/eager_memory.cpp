#include "tuning/programs/eager_memory.h"

#include <algorithm>
#include <vector>

#include "api/program_document.h"

namespace stitch::tuning {
namespace {

using graph::NodeId;
using graph::Op;

bool is_view(Op op) { return op == Op::reshape || op == Op::transpose || op == Op::broadcast || op == Op::slice; }

}  // namespace

std::int64_t eager_peak_bytes(const graph::Graph& graph) {
  // Per node, the node whose memory it shows, and the last one that reads that memory.
  std::vector<NodeId> holder(graph.size()), last(graph.size(), -1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    holder[id] = is_view(node.op) ? holder[node.operands[0].node] : id;
    last[holder[id]] = std::max(last[holder[id]], id);
    for (const graph::Value operand : node.operands) last[holder[operand.node]] = id;
  }
  for (const graph::Value result : graph.results()) last[holder[result.node]] = graph.size();
  std::vector<std::vector<NodeId>> ends(graph.size());
  std::int64_t alive = 0, peak = 0;
  std::vector<std::int64_t> bytes(graph.size(), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    const bool takes = holder[id] == id && node.op != Op::parameter && node.op != Op::constant;
    if (takes) {
      for (const graph::TensorType& type : node.results) bytes[id] += api::arena_bytes_of(type.bytes());
    }
    std::int64_t inside = 0;
    for (const auto& region : node.regions) inside = std::max(inside, eager_peak_bytes(*region));
    alive += bytes[id];
    peak = std::max(peak, alive + inside);
    if (last[holder[id]] < graph.size()) ends[last[holder[id]]].push_back(holder[id]);
    for (const NodeId ended : ends[id]) {
      alive -= bytes[ended];
      bytes[ended] = 0;  // views of one holder list it again
    }
  }
  return peak;
}

}  // namespace stitch::tuning
