#include "graph/passes/scans/associative_scans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/literal.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/scans/scan_combiner.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t fewest_elements = 4;  // below, not every component has a combined value
constexpr std::int64_t most_elements_followed = std::int64_t{1} << 20;
constexpr std::size_t most_components = 4;

/// A slice of one dimension, all of the others.
struct LineSlice {
  std::size_t dimension;
  std::int64_t start, stride, count;
};
std::optional<LineSlice> line_slice(const Graph& graph, const Node& node) {
  if (node.op != Op::slice) return std::nullopt;
  const auto& a = node.as<SliceAttributes>();
  const Dims& dims = graph.type(node.operands[0]).dims;
  std::optional<LineSlice> found;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (node.type().dims[d] == dims[d]) continue;
    if (found) return std::nullopt;
    found = LineSlice{d, a.starts[d], a.strides[d], node.type().dims[d]};
  }
  return found;
}

bool fills_with_zero(const Graph& graph, Value scalar) {
  const Node& node = graph.node(scalar.node);
  if (node.op != Op::constant) return false;
  return element(node.as<ConstantAttributes>(), 0) == 0;
}

/// Values of one shape whose neighbours along a dimension are combined with one another.
struct Neighbours {
  std::size_t dimension = 0;
  std::vector<Value> components;  ///< in order of their nodes
  std::map<Value, int> leaves;    ///< slices of even elements by component, of odd ones behind them
  std::vector<NodeId> operators;  ///< element-wise ones on nothing but the leaves and splats
  [[nodiscard]] std::int64_t length(const Graph& graph) const { return graph.type(components[0]).dims[dimension]; }
};

/// Finds all neighbours that a graph combines, the longest lines first.
class NeighbourSearch {
 public:
  explicit NeighbourSearch(const Graph& graph) : graph_(graph), line_of_(graph.size(), -1) {}

  std::vector<Neighbours> all() {
    for (NodeId id = 0; id < graph_.size(); ++id) find_slice(id);
    if (lines_.empty()) return {};
    parent_.resize(lines_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    for (NodeId id = 0; id < graph_.size(); ++id) find_operator(id);
    return grouped();
  }

 private:
  struct Line {
    Value value;
    std::size_t dimension;
    std::vector<NodeId> even, odd;
  };

  int root(int line) {
    while (parent_[line] != line) line = parent_[line] = parent_[parent_[line]];
    return line;
  }

  void find_slice(NodeId id) {
    const Node& node = graph_.node(id);
    const auto slice = line_slice(graph_, node);
    if (!slice || slice->stride != 2 || slice->start > 1) return;
    const std::int64_t length = graph_.type(node.operands[0]).dims[slice->dimension];
    const bool fits = length >= fewest_elements && length <= most_elements_followed && slice->count == length / 2;
    if (!fits) return;
    const auto [at, fresh] = index_.try_emplace({node.operands[0], slice->dimension}, static_cast<int>(lines_.size()));
    if (fresh) lines_.push_back({node.operands[0], slice->dimension, {}, {}});
    Line& line = lines_[at->second];
    (slice->start == 0 ? line.even : line.odd).push_back(id);
    line_of_[id] = at->second;
  }

  [[nodiscard]] bool has_no_operands(Value value) const {
    const Node* node = &graph_.node(value.node);
    while (node->op == Op::broadcast || node->op == Op::reshape) node = &graph_.node(node->operands[0].node);
    return node->op == Op::constant;
  }

  /// An operator on leaves, on such operators and on constants joins their lines.
  void find_operator(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_elementwise(node.op) || node.results.size() != 1) return;
    int line = -1;
    for (const Value operand : node.operands) {
      const int other = line_of_[operand.node];
      if (other < 0 && !has_no_operands(operand)) return;
      if (other < 0) continue;
      const bool alike = line < 0 || (lines_[line].dimension == lines_[other].dimension &&
                                      graph_.type(lines_[line].value).dims == graph_.type(lines_[other].value).dims);
      if (!alike) return;
      line = other;
    }
    if (line < 0) return;
    for (const Value operand : node.operands) {
      if (line_of_[operand.node] >= 0) parent_[root(line_of_[operand.node])] = root(line);
    }
    line_of_[id] = line;
    operators_.push_back(id);
  }

  std::vector<Neighbours> grouped() {
    std::map<int, Neighbours> groups;
    std::map<int, std::vector<int>> members;
    for (int line = 0; line < std::ssize(lines_); ++line) members[root(line)].push_back(line);
    std::vector<Neighbours> found;
    for (auto& [representative, lines] : members) {
      Neighbours group;
      group.dimension = lines_[representative].dimension;
      std::ranges::sort(lines, {}, [&](int line) { return lines_[line].value; });
      const int count = static_cast<int>(lines.size());
      for (int i = 0; i < count; ++i) {
        const Line& line = lines_[lines[i]];
        group.components.push_back(line.value);
        for (const NodeId id : line.even) group.leaves[{id, 0}] = i;
        for (const NodeId id : line.odd) group.leaves[{id, 0}] = count + i;
      }
      for (const NodeId id : operators_) {
        if (root(line_of_[id]) == representative) group.operators.push_back(id);
      }
      if (!group.operators.empty() && lines.size() <= most_components) found.push_back(std::move(group));
    }
    std::ranges::stable_sort(found, std::greater(), [&](const Neighbours& n) { return n.length(graph_); });
    return found;
  }

  const Graph& graph_;
  std::map<std::pair<Value, std::size_t>, int> index_;
  std::vector<Line> lines_;
  std::vector<int> line_of_;  ///< by node: the line of a leaf, one of an operator's
  std::vector<int> parent_;
  std::vector<NodeId> operators_;
};

/// The scanned elements, first to last, of which one element of a value is the combination; first -1: the zero of a
/// pad.
struct Range {
  std::int32_t first, last;
  bool operator==(const Range&) const = default;
};
struct Followed {
  int component;
  std::vector<Range> ranges;  ///< along the scanned dimension
};

/// Follows the elements of the components through the graph.
class RangeWalk {
 public:
  RangeWalk(const Graph& graph, const Neighbours& site, const ScanCombiner& combiner)
      : graph_(graph), site_(site), combiner_(combiner) {}

  /// The values that are the scan, by component.
  std::map<Value, int> scans() {
    const auto length = static_cast<std::int32_t>(site_.length(graph_));
    std::vector<Range> single;
    for (std::int32_t i = 0; i < length; ++i) single.push_back({i, i});
    for (int i = 0; i < std::ssize(site_.components); ++i) followed_[site_.components[i]] = {i, single};
    std::map<Value, int> found;
    for (NodeId id = site_.components.front().node + 1; id < graph_.size(); ++id) {
      if (graph_.node(id).results.size() != 1) continue;
      std::optional<Followed> made = follow(id);
      if (!made) continue;
      bool prefix = std::ssize(made->ranges) == length;
      for (std::int32_t i = 0; prefix && i < length; ++i) prefix = made->ranges[i] == Range{0, i};
      if (prefix) found[{id, 0}] = made->component;
      followed_[{id, 0}] = std::move(*made);
    }
    return found;
  }

 private:
  [[nodiscard]] const Followed* of(Value value) const {
    const auto found = followed_.find(value);
    return found == followed_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] std::optional<Followed> follow(NodeId id) const {
    const Node& node = graph_.node(id);
    switch (node.op) {
      case Op::slice: return slice(node);
      case Op::concatenate: return concatenate(node);
      case Op::pad: return pad(node);
      default: break;
    }
    if (!is_elementwise(node.op)) return std::nullopt;
    if (node.op == Op::add || node.op == Op::bit_or) {
      if (auto merged = interleave(node)) return merged;
    }
    for (int component = 0; component < combiner_.components(); ++component) {
      if (auto joined = join(component, {id, 0})) return joined;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Followed> slice(const Node& node) const {
    const Followed* from = of(node.operands[0]);
    const auto line = line_slice(graph_, node);
    if (from == nullptr || !line || line->dimension != site_.dimension) return std::nullopt;
    Followed to{from->component, {}};
    for (std::int64_t i = 0; i < line->count; ++i) to.ranges.push_back(from->ranges[line->start + i * line->stride]);
    return to;
  }

  [[nodiscard]] std::optional<Followed> concatenate(const Node& node) const {
    if (node.as<ConcatenateAttributes>().dimension != static_cast<std::int64_t>(site_.dimension)) return std::nullopt;
    std::optional<Followed> to;
    for (const Value operand : node.operands) {
      const Followed* from = of(operand);
      if (from == nullptr || (to && to->component != from->component)) return std::nullopt;
      if (!to) to = Followed{from->component, {}};
      to->ranges.insert(to->ranges.end(), from->ranges.begin(), from->ranges.end());
    }
    return to;
  }

  [[nodiscard]] std::optional<Followed> pad(const Node& node) const {
    const Followed* from = of(node.operands[0]);
    if (from == nullptr || !fills_with_zero(graph_, node.operands[1])) return std::nullopt;
    const auto& a = node.as<PadAttributes>();
    for (std::size_t d = 0; d < a.low.size(); ++d) {
      const bool moves = a.low[d] != 0 || a.high[d] != 0 || a.interior[d] != 0;
      if (d == site_.dimension ? a.low[d] < 0 || a.high[d] < 0 : moves) return std::nullopt;
    }
    Followed to{from->component, {}};
    to.ranges.assign(node.type().dims[site_.dimension], Range{-1, -1});
    for (std::size_t i = 0; i < from->ranges.size(); ++i)
      to.ranges[a.low[site_.dimension] + i * (a.interior[site_.dimension] + 1)] = from->ranges[i];
    return to;
  }

  /// Two values of which one is zero wherever the other is not.
  [[nodiscard]] std::optional<Followed> interleave(const Node& node) const {
    const Followed *x = of(node.operands[0]), *y = of(node.operands[1]);
    if (x == nullptr || y == nullptr || x->component != y->component) return std::nullopt;
    Followed to = *x;
    for (std::size_t i = 0; i < to.ranges.size(); ++i) {
      if (to.ranges[i].first >= 0 && y->ranges[i].first >= 0) return std::nullopt;
      if (to.ranges[i].first < 0) to.ranges[i] = y->ranges[i];
    }
    return to;
  }

  /// The combiner on a left and a right tuple whose ranges touch everywhere.
  [[nodiscard]] std::optional<Followed> join(int component, Value root) const {
    const auto leaves = combiner_.match(graph_, component, root);
    if (!leaves) return std::nullopt;
    const std::vector<Range>* sides[2] = {nullptr, nullptr};
    const int components = combiner_.components();
    for (int leaf = 0; leaf < std::ssize(*leaves); ++leaf) {
      if ((*leaves)[leaf].node < 0) continue;
      const Followed* from = of((*leaves)[leaf]);
      const std::vector<Range>*& side = sides[leaf / components];
      if (from == nullptr || from->component != leaf % components) return std::nullopt;
      if (side != nullptr && *side != from->ranges) return std::nullopt;
      side = &from->ranges;
    }
    // A component that one side decides alone (the last of several) would need the other's ranges to be told apart.
    if (sides[0] == nullptr || sides[1] == nullptr) return std::nullopt;
    Followed to{component, {}};
    for (std::size_t i = 0; i < sides[0]->size(); ++i) {
      const Range left = (*sides[0])[i], right = (*sides[1])[i];
      if (left.first < 0 || right.first < 0 || right.first != left.last + 1) return std::nullopt;
      to.ranges.push_back({left.first, right.last});
    }
    return to;
  }

  const Graph& graph_;
  const Neighbours& site_;
  const ScanCombiner& combiner_;
  std::map<Value, Followed> followed_;
};

/// A scan to be written in place of values.
struct FoundScan {
  std::vector<Value> operands;
  std::int64_t dimension = 0;
  bool reverse = false;
  std::shared_ptr<const Graph> combiner;
  std::map<Value, int> scans;  ///< component of the values that it replaces
  std::set<NodeId> replaced;   ///< all nodes that compute them from the components
};

class ScanSearch {
 public:
  explicit ScanSearch(const Graph& graph) : graph_(graph), users_(users(graph)), is_result_(is_result(graph)) {}

  Result<std::vector<FoundScan>> all() {
    std::vector<FoundScan> found;
    std::set<NodeId> replaced;
    for (const Neighbours& site : NeighbourSearch(graph_).all()) {
      if (std::ranges::any_of(site.operators, [&](NodeId id) { return replaced.contains(id); })) continue;
      STITCH_ASSIGN(std::optional<FoundScan> scan, at(site));
      if (!scan) continue;
      replaced.insert(scan->replaced.begin(), scan->replaced.end());
      found.push_back(std::move(*scan));
    }
    return found;
  }

 private:
  /// What leaves the operators on neighbours: the combined components, in an order that is not known.
  [[nodiscard]] std::vector<Value> combined_of(const Neighbours& site) const {
    const std::set<NodeId> inside(site.operators.begin(), site.operators.end());
    std::vector<Value> combined;
    for (const NodeId id : site.operators) {
      const bool leaves = std::ranges::any_of(users_[id], [&](NodeId user) { return !inside.contains(user); });
      if (leaves || is_result_[id]) combined.push_back({id, 0});
    }
    return combined;
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
    found.scans = RangeWalk(graph_, site, *combiner).scans();
    if (found.scans.empty() || !replaces_all(site, found)) return std::optional<FoundScan>();
    STITCH_ASSIGN(found.combiner, combiner->region(dtypes));
    STITCH_ASSIGN(const bool associative, is_associative(*found.combiner));
    if (!associative) return std::optional<FoundScan>();
    found.operands = site.components;
    found.dimension = static_cast<std::int64_t>(site.dimension);
    turn_around(found);
    return std::optional(std::move(found));
  }

  /// Whether nothing of the recursion is left once the scan takes its place: then it is recorded in `replaced`.
  [[nodiscard]] bool replaces_all(const Neighbours& site, FoundScan& found) const {
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
    for (const NodeId id : found.replaced) {
      const Node& node = graph_.node(id);
      // What the walk has not followed from the components cannot be told from a value of its own.
      if (node.op == Op::parameter) return false;
      if (found.scans.contains({id, 0})) {
        if (id <= last) return false;
        continue;
      }
      const bool of_components = std::ranges::all_of(
          node.operands, [&](Value operand) { return components.contains(operand) || node.operands.empty(); });
      if (of_components || node.op == Op::broadcast) continue;
      const bool used = std::ranges::any_of(users_[id], [&](NodeId user) { return !found.replaced.contains(user); });
      if (used || is_result_[id]) return false;
    }
    return true;
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
  ScanWriter(const Graph& graph, const std::vector<FoundScan>& scans) : from_(graph), scans_(scans) {}

  Result<Graph> write() {
    Graph to;
    to.name = from_.name;
    for (NodeId id = 0; id < from_.size(); ++id) {
      Node node = from_.node(id);
      for (Value& operand : node.operands) operand = copy_of(operand);
      copies_.push_back(to.add_unchecked(std::move(node)).node);
      for (const FoundScan& scan : scans_) {
        if (std::ranges::max(scan.operands).node == id) STITCH_TRY(write_scan(to, scan));
      }
    }
    for (const Value result : from_.results()) to.add_result(copy_of(result));
    return to;
  }

 private:
  [[nodiscard]] Value copy_of(Value value) const {
    const auto replaced = scanned_.find(value);
    return replaced != scanned_.end() ? replaced->second : Value{copies_[value.node], value.result};
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
    for (const auto& [value, component] : scan.scans) {
      Value result{made.node, component};
      if (scan.reverse) {
        STITCH_ASSIGN(result, to.add(Op::reverse, {result}, ReverseAttributes{{scan.dimension}}));
      }
      scanned_[value] = result;
    }
    return {};
  }

  const Graph& from_;
  const std::vector<FoundScan>& scans_;
  std::vector<NodeId> copies_;
  std::map<Value, Value> scanned_;
};

}  // namespace

Result<int> recognise_associative_scans(Graph& graph, const PassContext& context) {
  if (!context.reassociate) return 0;
  STITCH_ASSIGN(const std::vector<FoundScan> scans, ScanSearch(graph).all());
  if (scans.empty()) return 0;
  STITCH_ASSIGN(graph, ScanWriter(graph, scans).write());
  STITCH_TRY(remove_dead_code(graph, context));
  return static_cast<int>(scans.size());
}

}  // namespace stitch::graph
