#include "graph/passes/common_subexpressions.h"

#include <algorithm>
#include <unordered_map>

#include "graph/attribute_hash.h"
#include "graph/canonical.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

std::vector<Value> sorted_operands(const Node& node) {
  std::vector<Value> operands = node.operands;
  if (is_commutative(node)) std::sort(operands.begin(), operands.end());
  return operands;
}

class Merger {
 public:
  Replacement operator()(Rewriter& graph, const Node& node) {
    if (node.op == Op::parameter || node.op == Op::opaque) return {};
    // The node will be the next one of the new graph, unless an equal one is there already.
    const Value next{graph.size(), 0};
    const auto [begin, end] = nodes_.equal_range(hash(node));
    for (auto found = begin; found != end; ++found) {
      if (equal(graph.node(found->second), node)) return all_results(node, found->second);
    }
    nodes_.emplace(hash(node), next);
    return {};
  }

 private:
  static Replacement all_results(const Node& node, Value first) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      values.push_back({first.node, static_cast<std::int32_t>(i)});
    }
    return values;
  }

  std::uint64_t hash(const Node& node) {
    Hasher hasher;
    hasher.integer(static_cast<std::uint64_t>(node.op));
    hash_attributes(hasher, node.attributes);
    for (const Value& operand : sorted_operands(node)) {
      hasher.integer(static_cast<std::uint64_t>(operand.node)).integer(static_cast<std::uint64_t>(operand.result));
    }
    for (const auto& region : node.regions) hasher.hash(key(region));
    return hasher.finish().low;
  }

  bool equal(const Node& a, const Node& b) {
    return a.op == b.op && a.attributes == b.attributes && sorted_operands(a) == sorted_operands(b) &&
           std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                      [&](const auto& x, const auto& y) { return key(x) == key(y); });
  }

  const Hash128& key(const std::shared_ptr<const Graph>& region) {
    const auto found = keys_.find(region.get());
    if (found != keys_.end()) return found->second;
    return keys_.emplace(region.get(), region_key(*region)).first->second;
  }

  std::unordered_multimap<std::uint64_t, Value> nodes_;
  std::unordered_map<const Graph*, Hash128> keys_;
};

}  // namespace

Result<int> merge_common_subexpressions(Graph& graph, const PassContext&) {
  Merger merger;
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) { return merger(rewriter, node); });
}

}  // namespace stitch::graph
