#include "tuning/programs/site_parts.h"

#include <algorithm>
#include <set>

#include "graph/subgraph.h"

namespace stitch::tuning {
namespace {

using graph::FragmentSite;
using graph::Graph;
using graph::NodeId;
using graph::Value;

/// The fragment with these results alone.
Result<FragmentSite> with_results(const Graph& graph, const FragmentSite& site, std::vector<Value> results,
                                  const std::set<NodeId>& nodes) {
  FragmentSite part;
  part.level = site.level;
  const auto is_read = [&](Value value) {
    const auto reads = [&](NodeId id) { return std::ranges::count(graph.node(id).operands, value) > 0; };
    return std::ranges::count(results, value) > 0 || std::ranges::any_of(nodes, reads);
  };
  std::ranges::copy_if(site.arguments, std::back_inserter(part.arguments), is_read);
  part.nodes.assign(nodes.begin(), nodes.end());
  part.results = std::move(results);
  STITCH_ASSIGN(part.graph, graph::subgraph(graph, part.arguments, part.results));
  part.graph.constraints = site.graph.constraints;
  return part;
}

class Parting {
 public:
  Parting(const Graph& graph, const FragmentSite& site)
      : graph_(graph), site_(site), inside_(site.nodes.begin(), site.nodes.end()) {
    for (const NodeId id : site.nodes) {  // ascending: operands first
      const auto connects = [&](Value operand) {
        return inside_.contains(operand.node) ? connecting_.contains(operand.node)
                                              : std::ranges::count(site.arguments, operand) > 0;
      };
      // A number (the place of an update) is computed once more at no cost.
      const bool is_number = graph.node(id).results.size() == 1 && graph.node(id).type().elements() == 1;
      if (!is_number && std::ranges::any_of(graph.node(id).operands, connects)) connecting_.insert(id);
    }
  }

  std::vector<FragmentSite> parts() {
    struct Group {
      std::vector<Value> results;
      std::set<NodeId> nodes;
    };
    std::vector<Group> groups;
    for (const Value result : site_.results) {
      Group own{{result}, needed_for(result)};
      for (std::size_t g = 0; g < groups.size();) {
        const auto shared = [&](NodeId id) { return connecting_.contains(id) && own.nodes.contains(id); };
        if (!std::ranges::any_of(groups[g].nodes, shared)) {
          ++g;
          continue;
        }
        own.results.insert(own.results.begin(), groups[g].results.begin(), groups[g].results.end());
        own.nodes.merge(groups[g].nodes);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
      }
      groups.push_back(std::move(own));
    }
    if (groups.size() < 2) return {site_};
    std::vector<FragmentSite> found;
    for (Group& group : groups) {
      std::ranges::sort(group.results, {}, [&](Value value) { return std::ranges::find(site_.results, value); });
      auto part = with_results(graph_, site_, std::move(group.results), group.nodes);
      if (!part || part->nodes.empty()) return {site_};
      found.push_back(*std::move(part));
    }
    return found;
  }

 private:
  [[nodiscard]] std::set<NodeId> needed_for(Value result) const {
    std::set<NodeId> needed;
    std::vector<NodeId> open = {result.node};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!inside_.contains(id) || !needed.insert(id).second) continue;
      for (const Value operand : graph_.node(id).operands) open.push_back(operand.node);
    }
    return needed;
  }

  const Graph& graph_;
  const FragmentSite& site_;
  const std::set<NodeId> inside_;
  std::set<NodeId> connecting_;  ///< tensors that depend on the fragment's arguments
};

}  // namespace

std::vector<FragmentSite> parts_of(const Graph& graph, const FragmentSite& site) {
  return Parting(graph, site).parts();
}

Result<FragmentSite> with_other_results(const Graph& graph, const FragmentSite& site, std::vector<Value> results) {
  const std::vector<bool> needed = graph::needed_for(graph, results);
  std::set<NodeId> nodes;
  for (const NodeId id : site.nodes) {
    if (needed[id]) nodes.insert(id);
  }
  return with_results(graph, site, std::move(results), nodes);
}

}  // namespace stitch::tuning
