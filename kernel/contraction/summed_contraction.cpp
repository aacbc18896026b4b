#include "kernel/contraction/summed_contraction.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/subgraph.h"
#include "kernel/contraction/contraction_sides.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::StridedView;
using graph::Value;

template <class... Arguments>
Error unsummable(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

ContractionExtents extents_of(const ContractionSides& sides) { return {sides.batch, sides.rows, sides.columns}; }

/// Whether both show the same element of a product everywhere.
bool show_the_same(const StridedView& a, const StridedView& b) {
  const auto same = [](const std::vector<StridedView::Digit>& x, const std::vector<StridedView::Digit>& y) {
    return graph::collapsed(x) == graph::collapsed(y);
  };
  return a.offset == b.offset && std::ranges::equal(a.dims, b.dims, same);
}

bool moves_sums(Op op) { return op == Op::transpose || op == Op::reshape; }

/// Follows every dot but the first to where it is added to what is made of that one, and takes it out there.
class Summing {
 public:
  Summing(const Graph& graph, std::vector<NodeId> roots, std::vector<ContractionSides> sides)
      : graph_(graph),
        roots_(std::move(roots)),
        sides_(std::move(sides)),
        turned_(roots_.size(), false),
        found_(roots_.size(), false),
        ways_(graph.size()),
        readers_(graph.size(), 0) {
    const std::vector<bool> needed = graph::needed_for(graph, graph.results());
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (!needed[id]) continue;
      for (const Value operand : graph.node(id).operands) ++readers_[operand.node];
    }
    for (const Value result : graph.results()) ++readers_[result.node];
    found_[0] = true;
  }

  /// By node, what takes its place.
  Result<std::vector<NodeId>> follow() {
    std::vector<NodeId> instead(graph_.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      instead[id] = id;
      STITCH_TRY(follow(id, instead));
    }
    for (std::size_t t = 0; t < roots_.size(); ++t) {
      if (!found_[t]) return unsummable("'{}' is not added to the others", graph_.node(roots_[t]).name);
    }
    for (NodeId id = 0; id < last_; ++id) {
      if (ways_[id].first && readers_[id] != 1)
        return unsummable("'{}' is read before all is added", graph_.node(id).name);
    }
    return instead;
  }
  /// Whether a dot's left operand has the first one's columns.
  [[nodiscard]] bool is_turned(std::size_t term) const { return turned_[term]; }

 private:
  /// What a value is the sum of.
  struct Way {
    std::optional<StridedView> first;           ///< the first product, as it lies here
    std::map<std::size_t, StridedView> others;  ///< by number: they are to be added elsewhere
    bool nothing_else = false;                  ///< the others, and nothing but them
  };

  Status follow(NodeId id, std::vector<NodeId>& instead) {
    const Node& node = graph_.node(id);
    Way& way = ways_[id];
    if (const auto root = std::ranges::find(roots_, id); root != roots_.end()) {
      const std::size_t term = root - roots_.begin();
      if (term == 0) {
        way.first = sides_[0].sums;
      } else {
        way.others.emplace(term, sides_[term].sums);
        way.nothing_else = true;
      }
      return {};
    }
    if (node.op == Op::add) return add(id, instead);
    if (node.operands.size() != 1 || !(moves_sums(node.op) || is_conversion(node))) {
      for (const Value operand : node.operands) {
        if (!ways_[operand.node].others.empty()) return unsummable("{} '{}' of a term", to_string(node.op), node.name);
      }
      return {};
    }
    const Way& before = ways_[node.operands[0].node];
    STITCH_TRY(check_alone(node.operands[0].node));
    way = before;
    if (moves_sums(node.op)) {
      if (way.first) way.first = graph::apply_layout(*way.first, node);
      for (auto& [term, view] : way.others) {
        const std::optional<StridedView> next = graph::apply_layout(view, node);
        if (!next) return unsummable("a layout of '{}' that strides do not say", node.name);
        view = *next;
      }
    }
    return {};
  }

  [[nodiscard]] bool is_conversion(const Node& node) const {
    return node.op == Op::convert && graph::is_floating(node.type().dtype) &&
           graph::is_floating(graph_.type(node.operands[0]).dtype);
  }
  /// What is taken out of a value is missing for whoever else reads it.
  [[nodiscard]] Status check_alone(NodeId id) const {
    if (ways_[id].others.empty() || readers_[id] == 1) return {};
    return unsummable("'{}' is read by others", graph_.node(id).name);
  }

  Status add(NodeId id, std::vector<NodeId>& instead) {
    const Node& node = graph_.node(id);
    const NodeId a = node.operands[0].node, b = node.operands[1].node;
    Way& way = ways_[id];
    for (const NodeId operand : {a, b}) {
      STITCH_TRY(check_alone(operand));
      if (ways_[operand].first) way.first = ways_[operand].first;
      way.others.insert(ways_[operand].others.begin(), ways_[operand].others.end());
    }
    if (ways_[a].nothing_else && ways_[b].nothing_else) {
      way.nothing_else = true;
    } else if (ways_[a].nothing_else || ways_[b].nothing_else) {
      instead[id] = instead[ways_[a].nothing_else ? b : a];
    }
    if (!way.first) return {};
    for (const auto& [term, view] : way.others) {
      const ContractionExtents extents = extents_of(sides_[term]), first = extents_of(sides_[0]);
      const bool same = extents.rows == first.rows && extents.columns == first.columns;
      const bool across = extents.rows == first.columns && extents.columns == first.rows;
      if (extents.batch != first.batch) return unsummable("'{}' has another batch", graph_.node(roots_[term]).name);
      if (same && show_the_same(view, *way.first)) {
        turned_[term] = false;
      } else if (across && show_the_same(turned(view, extents), *way.first)) {
        turned_[term] = true;
      } else {
        return unsummable("'{}' lies otherwise than what it is added to", graph_.node(roots_[term]).name);
      }
      found_[term] = true;
    }
    if (!way.others.empty()) last_ = id;
    way.others.clear();
    return {};
  }

  const Graph& graph_;
  std::vector<NodeId> roots_;
  std::vector<ContractionSides> sides_;
  std::vector<bool> turned_, found_;  ///< by term
  std::vector<Way> ways_;             ///< by node
  std::vector<int> readers_;
  NodeId last_ = 0;  ///< where the last one was added
};

/// The graph with nodes in the place of others, and all of its parameters.
Result<Graph> replaced(const Graph& graph, const std::vector<NodeId>& instead) {
  const auto now = [&](Value value) { return Value{instead[value.node], value.result}; };
  Graph copy = graph;
  std::vector<Value> results, parameters;
  for (const Value result : graph.results()) results.push_back(now(result));
  for (const NodeId id : graph.parameters()) parameters.push_back({id, 0});
  std::vector<Node> nodes = copy.release_nodes();
  for (Node& node : nodes) std::ranges::transform(node.operands, node.operands.begin(), now);
  copy.adopt_nodes(std::move(nodes));
  copy.set_results(results);
  return graph::subgraph(copy, parameters, results);
}

/// What is in the way of one loop for both; empty: nothing.
std::string difference(const ContractionTerm& first, const ContractionTerm& other) {
  if (!other.left.windows.empty() || !other.right.windows.empty()) return "windows";
  if (other.contracted == 0) return "nothing to add";
  return read_alike(first.left, other.left) && read_alike(first.right, other.right) ? ""
                                                                                    : "operands that lie otherwise";
}

}  // namespace

Result<ContractionProblem> derive_summed(Graph graph) {
  const std::vector<NodeId> roots = contraction_roots(graph);
  if (roots.size() < 2 || roots.size() > most_terms) return unsummable("a sum of {} products", roots.size());
  std::vector<ContractionSides> sides;
  for (const NodeId root : roots) {
    if (graph.node(root).op != Op::dot) return unsummable("a sum with {}", to_string(graph.node(root).op));
    STITCH_ASSIGN(ContractionSides each, sides_of(graph, root));
    sides.push_back(std::move(each));
  }
  Summing summing(graph, roots, sides);
  STITCH_ASSIGN(const std::vector<NodeId> instead, summing.follow());
  STITCH_ASSIGN(Graph alone, replaced(graph, instead));
  STITCH_ASSIGN(ContractionProblem problem, derive_contraction(std::move(alone)));
  // Seen from the other side where it has rows there.
  const bool other_side = !(problem.left == sides[0].left);
  problem.contracted = 0;
  for (std::size_t t = 0; t < roots.size(); ++t) {
    ContractionTerm term{sides[t].contracted, std::move(sides[t].left), std::move(sides[t].right)};
    if (summing.is_turned(t) != other_side) std::swap(term.left, term.right);
    problem.terms.push_back(std::move(term));
    const std::string unlike = difference(problem.terms[0], problem.terms[t]);
    if (!unlike.empty()) return unsummable("'{}': {}", graph.node(roots[t]).name, unlike);
    if (graph::is_floating(graph.node(roots[t]).type().dtype) != graph::is_floating(problem.accumulator) ||
        graph::byte_size(graph.node(roots[t]).type().dtype) > graph::byte_size(problem.accumulator))
      return unsummable("'{}': sums of {}", graph.node(roots[t]).name, to_string(graph.node(roots[t]).type().dtype));
    problem.contracted += problem.terms[t].contracted;
  }
  problem.summed = std::make_shared<const Graph>(std::move(graph));
  return problem;
}

ContractionProblem without_other_terms(ContractionProblem problem) {
  problem.contracted = problem.terms[0].contracted;
  problem.terms.clear();
  problem.summed.reset();
  return problem;
}

std::vector<NodeId> other_roots(const ContractionProblem& problem) {
  std::vector<NodeId> roots = contraction_roots(*problem.summed);
  roots.erase(roots.begin());
  return roots;
}

}  // namespace stitch::kernel
