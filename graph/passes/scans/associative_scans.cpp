#include "graph/passes/scans/associative_scans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/passes/dead_code.h"
#include "graph/passes/scans/scan_combiner.h"
#include "graph/passes/scans/scan_gradients.h"
#include "graph/passes/scans/scan_site.h"

namespace stitch::graph {
namespace {

/// A scan to be written in place of values.
struct FoundScan {
  std::vector<Value> operands;
  std::int64_t dimension = 0;
  bool reverse = false;
  std::shared_ptr<const Graph> combiner;
  std::map<Value, int> scans;  ///< component of the values that it replaces
  std::set<NodeId> replaced;   ///< all nodes that compute them from the components, and those of the gradient
  std::optional<ScanGradient> gradient;
  std::optional<Graph> gradient_formula;
};

class ScanSearch {
 public:
  explicit ScanSearch(const Graph& graph) : graph_(graph), users_(users(graph)), is_result_(is_result(graph)) {}

  Result<std::vector<FoundScan>> all() {
    std::vector<FoundScan> found;
    std::set<NodeId> replaced;
    for (const Neighbours& site : find_neighbours(graph_)) {
      if (std::ranges::any_of(site.operators, [&](NodeId id) { return replaced.contains(id); })) continue;
      STITCH_ASSIGN(std::optional<FoundScan> scan, at(site));
      if (!scan) continue;
      replaced.insert(scan->replaced.begin(), scan->replaced.end());
      found.push_back(std::move(*scan));
    }
    return found;
  }

 private:
  /// What the next level combines of the neighbours: the combined components, in an order that is not known.
  [[nodiscard]] std::vector<Value> combined_of(const Neighbours& site) const {
    const std::set<NodeId> inside(site.operators.begin(), site.operators.end());
    std::vector<Value> combined, sliced;
    for (const NodeId id : site.operators) {
      const bool leaves = std::ranges::any_of(users_[id], [&](NodeId user) { return !inside.contains(user); });
      if (leaves || is_result_[id]) combined.push_back({id, 0});
      const bool cut = std::ranges::any_of(users_[id], [&](NodeId user) { return graph_.node(user).op == Op::slice; });
      if (cut) sliced.push_back({id, 0});
    }
    // Derivatives of the combiner leave too, and are not sliced.
    return combined.size() > site.components.size() ? sliced : combined;
  }

  Result<std::optional<FoundScan>> at(const Neighbours& site) const {
    const std::vector<Value> combined = combined_of(site);
    if (combined.size() != site.components.size()) return std::optional<FoundScan>();
    std::vector<std::size_t> order(combined.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      std::vector<Value> results;
      for (const std::size_t i : order) results.push_back(combined[i]);
      STITCH_ASSIGN(std::optional<FoundScan> scan, with(site, results));
      if (scan) return scan;
    } while (std::ranges::next_permutation(order).found);
    return std::optional<FoundScan>();
  }

  /// `results`: by component the combined neighbours.
  Result<std::optional<FoundScan>> with(const Neighbours& site, const std::vector<Value>& results) const {
    std::vector<DType> dtypes;
    for (std::size_t i = 0; i < results.size(); ++i) {
      dtypes.push_back(graph_.type(site.components[i]).dtype);
      if (graph_.type(results[i]).dtype != dtypes.back()) return std::optional<FoundScan>();
    }
    const auto combiner = ScanCombiner::read(graph_, results, site.leaves);
    if (!combiner) return std::optional<FoundScan>();
    FoundScan found;
    RangeWalk walk(graph_, site, *combiner);
    found.scans = walk.scans();
    const auto inside = replace_all(site, found);
    if (!inside) return std::optional<FoundScan>();
    STITCH_ASSIGN(found.combiner, combiner->region(dtypes));
    STITCH_ASSIGN(const bool associative, is_associative(*found.combiner));
    if (!associative) return std::optional<FoundScan>();
    found.operands = site.components;
    found.dimension = static_cast<std::int64_t>(site.dimension);
    turn_around(found);
    const bool alone = leaves_nothing(found, *inside);
    const WrittenScan written{graph_, site, *found.combiner, found.scans, *inside};
    // Nothing of a sum's recursion is used by its gradient, which is one all the same.
    if (!alone || kind_of(*found.combiner) == ReduceKind::sum) {
      STITCH_ASSIGN(found.gradient, find_scan_gradient(written, walk));
      if (!alone && !found.gradient) return std::optional<FoundScan>();
    }
    if (found.gradient) {
      STITCH_ASSIGN(found.gradient_formula, found.gradient->formula(written, walk, found.reverse));
      found.replaced.insert(found.gradient->replaced.begin(), found.gradient->replaced.end());
    }
    return std::optional(std::move(found));
  }

  /// Records the nodes between the components and the scans as replaced. Those of them that nothing else may need:
  /// without slices of the components. Nothing when what they compute is no function of the components.
  [[nodiscard]] std::optional<std::set<NodeId>> replace_all(const Neighbours& site, FoundScan& found) const {
    if (found.scans.empty()) return std::nullopt;
    const std::set<Value> components(site.components.begin(), site.components.end());
    std::vector<NodeId> open;
    for (const auto& [scan, component] : found.scans) open.push_back(scan.node);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!found.replaced.insert(id).second) continue;
      for (const Value operand : graph_.node(id).operands) {
        const bool constant =
            graph_.node(operand.node).operands.empty() && graph_.node(operand.node).op == Op::constant;
        if (!components.contains(operand) && !constant) open.push_back(operand.node);
      }
    }
    const NodeId last = site.components.back().node;
    std::set<NodeId> inside;
    for (const NodeId id : found.replaced) {
      const Node& node = graph_.node(id);
      // What the walk has not followed from the components cannot be told from a value of its own.
      if (node.op == Op::parameter) return std::nullopt;
      if (found.scans.contains({id, 0})) {
        if (id <= last) return std::nullopt;
        continue;
      }
      const bool of_components =
          std::ranges::all_of(node.operands, [&](Value operand) { return components.contains(operand); });
      if (!of_components && node.op != Op::broadcast) inside.insert(id);
    }
    return inside;
  }

  /// Whether the scan leaves none of these nodes with users.
  [[nodiscard]] bool leaves_nothing(const FoundScan& found, const std::set<NodeId>& inside) const {
    return std::ranges::all_of(inside, [&](NodeId id) {
      const bool used = std::ranges::any_of(users_[id], [&](NodeId user) { return !found.replaced.contains(user); });
      return !used && !is_result_[id];
    });
  }

  /// Scans of what has been reversed begin at the end.
  void turn_around(FoundScan& found) const {
    std::vector<Value> turned;
    for (const Value operand : found.operands) {
      const Node& node = graph_.node(operand.node);
      if (node.op != Op::reverse || node.as<ReverseAttributes>().dimensions != Dims{found.dimension}) return;
      turned.push_back(node.operands[0]);
    }
    found.operands = std::move(turned);
    found.reverse = true;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> users_;
  const std::vector<bool> is_result_;
};

/// The graph with the scans in place of what they replace, which is left without users.
class ScanWriter {
 public:
  ScanWriter(const Graph& graph, const std::vector<FoundScan>& scans)
      : from_(graph), scans_(scans), copies_(graph.size(), -1) {
    for (const FoundScan& scan : scans_) {
      for (const auto& [value, component] : scan.scans) replaced_[value.node] = &scan;
      if (!scan.gradient) continue;
      for (const Value value : scan.gradient->gradients) replaced_[value.node] = &scan;
    }
  }

  /// Nothing when no order of the nodes has what each needs before it.
  Result<std::optional<Graph>> write() {
    const std::vector<NodeId> order = this->order();
    if (std::ssize(order) != from_.size()) return std::optional<Graph>();
    Graph to;
    to.name = from_.name;
    to.constraints = from_.constraints;
    for (const NodeId id : order) {
      const auto replaced = replaced_.find(id);
      if (replaced != replaced_.end()) {
        const FoundScan& scan = *replaced->second;
        if (!made_.contains(&scan)) STITCH_TRY(write_scan(to, scan));
        if (!scan.scans.contains({id, 0})) STITCH_TRY(write_gradient(to, scan, {id, 0}));
        continue;
      }
      Node node = from_.node(id);
      for (Value& operand : node.operands) operand = copy_of(operand);
      copies_[id] = to.add_unchecked(std::move(node)).node;
    }
    for (const Value result : from_.results()) to.add_result(copy_of(result));
    return std::optional(std::move(to));
  }

 private:
  /// What a node is computed from when scans have taken their places.
  [[nodiscard]] std::vector<Value> needs(NodeId id) const {
    const auto replaced = replaced_.find(id);
    if (replaced == replaced_.end()) return from_.node(id).operands;
    const FoundScan& scan = *replaced->second;
    std::vector<Value> needed = scan.operands;
    if (scan.scans.contains({id, 0})) return needed;
    const ScanGradient& gradient = *scan.gradient;
    needed.push_back(gradient.cotangent);
    const auto here = std::ranges::find(gradient.gradients, id, &Value::node) - gradient.gradients.begin();
    needed.insert(needed.end(), gradient.addends[here].begin(), gradient.addends[here].end());
    return needed;
  }

  /// As it was, as far as that goes: a gradient may stand before the scan that it needs now.
  [[nodiscard]] std::vector<NodeId> order() const {
    std::vector<std::vector<NodeId>> users(from_.size());
    std::vector<std::size_t> missing(from_.size());
    std::set<NodeId> ready;
    for (NodeId id = 0; id < from_.size(); ++id) {
      const std::vector<Value> needed = needs(id);
      for (const Value value : needed) users[value.node].push_back(id);
      missing[id] = needed.size();
      if (needed.empty()) ready.insert(id);
    }
    std::vector<NodeId> order;
    while (!ready.empty()) {
      const NodeId id = ready.extract(ready.begin()).value();
      order.push_back(id);
      for (const NodeId user : users[id]) {
        if (--missing[user] == 0) ready.insert(user);
      }
    }
    return order;
  }

  [[nodiscard]] Value copy_of(Value value) const {
    const auto replaced = written_.find(value);
    return replaced != written_.end() ? replaced->second : Value{copies_[value.node], value.result};
  }

  Status write_scan(Graph& to, const FoundScan& scan) {
    std::vector<Value> operands;
    for (const Value operand : scan.operands) operands.push_back(copy_of(operand));
    const Node& named = from_.node(scan.scans.begin()->first.node);
    Value made;
    if (const auto kind = kind_of(*scan.combiner)) {
      STITCH_ASSIGN(made, to.add(Op::scan, operands, ScanAttributes{*kind, scan.dimension, scan.reverse, false},
                                 named.name, named.line));
    } else {
      STITCH_ASSIGN(made,
                    to.add(Op::associative_scan, operands, AssociativeScanAttributes{scan.dimension, scan.reverse},
                           named.name, named.line, {scan.combiner}));
    }
    made_[&scan] = made.node;
    for (const auto& [value, component] : scan.scans) {
      Value result{made.node, component};
      if (scan.reverse) {
        STITCH_ASSIGN(result, to.add(Op::reverse, {result}, ReverseAttributes{{scan.dimension}}));
      }
      written_[value] = result;
    }
    return {};
  }

  /// All gradients with the first of them; each is summed with what the graph adds to it.
  Status write_gradient(Graph& to, const FoundScan& scan, Value value) {
    const ScanGradient& gradient = *scan.gradient;
    if (!gradients_.contains(value)) STITCH_TRY(write_formula(to, scan));
    const Node& named = from_.node(value.node);
    Value sum = gradients_.at(value);
    for (const Value addend :
         gradient.addends[std::ranges::find(gradient.gradients, value) - gradient.gradients.begin()]) {
      STITCH_ASSIGN(sum, to.add(Op::add, {copy_of(addend), sum}, {}, named.name, named.line));
    }
    written_[value] = sum;
    return {};
  }

  Status write_formula(Graph& to, const FoundScan& scan) {
    const ScanGradient& gradient = *scan.gradient;
    const Node& named = from_.node(gradient.gradients.front().node);
    const auto turned = [&](Value value) -> Result<Value> {
      if (!scan.reverse) return value;
      return to.add(Op::reverse, {value}, ReverseAttributes{{scan.dimension}}, named.name, named.line);
    };
    std::vector<Value> arguments;
    for (std::int32_t i = 0; i < std::ssize(scan.operands); ++i) arguments.push_back({made_.at(&scan), i});
    for (const Value operand : scan.operands) arguments.push_back(copy_of(operand));
    STITCH_ASSIGN(const Value cotangent, turned(copy_of(gradient.cotangent)));
    arguments.push_back(cotangent);
    std::vector<Value> copies;
    std::size_t next = 0;
    for (const Node& node : scan.gradient_formula->nodes()) {
      if (node.op == Op::parameter) {
        copies.push_back(arguments[next++]);
        continue;
      }
      std::vector<Value> operands;
      for (const Value operand : node.operands) {
        const Value copy = copies[operand.node];
        operands.push_back({copy.node, copy.result + operand.result});
      }
      STITCH_ASSIGN(const Value copy,
                    to.add(node.op, std::move(operands), node.attributes, named.name, named.line, node.regions));
      copies.push_back(copy);
    }
    for (std::size_t i = 0; i < gradient.gradients.size(); ++i) {
      const Value result = scan.gradient_formula->results()[i], copy = copies[result.node];
      STITCH_ASSIGN(gradients_[gradient.gradients[i]], turned({copy.node, copy.result + result.result}));
    }
    return {};
  }

  const Graph& from_;
  const std::vector<FoundScan>& scans_;
  std::map<NodeId, const FoundScan*> replaced_;
  std::vector<NodeId> copies_;
  std::map<Value, Value> written_;           ///< in place of what is replaced
  std::map<Value, Value> gradients_;         ///< before anything is added to them
  std::map<const FoundScan*, NodeId> made_;  ///< the scan in its place
};

}  // namespace

Result<int> recognise_associative_scans(Graph& graph, const PassContext& context) {
  if (!context.reassociate) return 0;
  STITCH_ASSIGN(const std::vector<FoundScan> scans, ScanSearch(graph).all());
  if (scans.empty()) return 0;
  STITCH_ASSIGN(std::optional<Graph> written, ScanWriter(graph, scans).write());
  if (!written) return 0;
  graph = std::move(*written);
  STITCH_TRY(remove_dead_code(graph, context));
  return static_cast<int>(scans.size());
}

}  // namespace stitch::graph
