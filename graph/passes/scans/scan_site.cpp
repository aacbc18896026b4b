#include "graph/passes/scans/scan_site.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "graph/literal.h"

namespace stitch::graph {

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

namespace {

constexpr std::int64_t fewest_elements = 4;  // below, not every component has a combined value
constexpr std::int64_t most_elements_followed = std::int64_t{1} << 20;
constexpr std::size_t most_components = 4;

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

}  // namespace

std::vector<bool> still_needed(const Graph& graph, const std::map<Value, std::vector<Value>>& replaced) {
  std::vector<bool> needed(graph.size());
  std::set<Value> seen;
  std::vector<Value> open(graph.results().begin(), graph.results().end());
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    const auto other = replaced.find(value);
    const std::vector<Value>& from = other != replaced.end() ? other->second : graph.node(value.node).operands;
    if (other == replaced.end()) needed[value.node] = true;
    open.insert(open.end(), from.begin(), from.end());
  }
  return needed;
}

std::vector<Neighbours> find_neighbours(const Graph& graph) { return NeighbourSearch(graph).all(); }

std::map<Value, int> RangeWalk::scans() {
  const auto length = static_cast<std::int32_t>(site_.length(graph_));
  for (int i = 0; i < std::ssize(site_.components); ++i) followed_[site_.components[i]] = whole(i);
  std::map<Value, int> found;
  for (NodeId id = site_.components.front().node + 1; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (node.results.size() != 1) continue;
    std::optional<Followed> made = moved(node);
    if (!made) made = combined(id);
    if (!made) continue;
    bool prefix = std::ssize(made->ranges) == length;
    for (std::int32_t i = 0; prefix && i < length; ++i) prefix = made->ranges[i] == Range{0, i};
    if (prefix) found[{id, 0}] = made->component;
    followed_[{id, 0}] = std::move(*made);
  }
  return found;
}

void RangeWalk::follow(Value other) {
  std::erase_if(followed_, [&](const auto& each) { return each.second.component == components(); });
  followed_[other] = whole(components());
  for (NodeId id = other.node + 1; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (node.results.size() != 1 || followed_.contains({id, 0})) continue;
    std::optional<Followed> made = moved(node);
    if (made && made->component == components()) followed_[{id, 0}] = std::move(*made);
  }
}

const Followed* RangeWalk::of(Value value) const {
  const auto found = followed_.find(value);
  return found == followed_.end() ? nullptr : &found->second;
}

Followed RangeWalk::whole(int component) const {
  Followed all{component, {}};
  const auto length = static_cast<std::int32_t>(site_.length(graph_));
  for (std::int32_t i = 0; i < length; ++i) all.ranges.push_back({i, i});
  return all;
}

/// By operators that compute nothing.
std::optional<Followed> RangeWalk::moved(const Node& node) const {
  switch (node.op) {
    case Op::slice: return slice(node);
    case Op::concatenate: return concatenate(node);
    case Op::pad: return pad(node);
    case Op::add:
    case Op::bit_or: return interleave(node);
    default: return std::nullopt;
  }
}

std::optional<Followed> RangeWalk::combined(NodeId id) const {
  if (!is_elementwise(graph_.node(id).op)) return std::nullopt;
  for (int component = 0; component < combiner_.components(); ++component) {
    if (auto joined = join(component, {id, 0})) return joined;
  }
  return std::nullopt;
}

std::optional<Followed> RangeWalk::slice(const Node& node) const {
  const Followed* from = of(node.operands[0]);
  if (from != nullptr && node.type() == graph_.type(node.operands[0])) return *from;
  const auto line = line_slice(graph_, node);
  if (from == nullptr || !line || line->dimension != site_.dimension) return std::nullopt;
  Followed to{from->component, {}};
  for (std::int64_t i = 0; i < line->count; ++i) to.ranges.push_back(from->ranges[line->start + i * line->stride]);
  return to;
}

std::optional<Followed> RangeWalk::concatenate(const Node& node) const {
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

std::optional<Followed> RangeWalk::pad(const Node& node) const {
  const Followed* from = of(node.operands[0]);
  if (from == nullptr || !fills_with_zero(graph_, node.operands[1])) return std::nullopt;
  const auto& a = node.as<PadAttributes>();
  for (std::size_t d = 0; d < a.low.size(); ++d) {
    const bool moves = a.low[d] != 0 || a.high[d] != 0 || a.interior[d] != 0;
    if (d != site_.dimension && moves) return std::nullopt;
  }
  Followed to{from->component, {}};
  to.ranges.assign(node.type().dims[site_.dimension], Range{-1, -1});
  std::int64_t at = a.low[site_.dimension];
  for (const Range range : from->ranges) {
    if (at >= 0 && at < std::ssize(to.ranges)) to.ranges[at] = range;  // negative padding cuts off
    at += a.interior[site_.dimension] + 1;
  }
  return to;
}

/// Two values of which one is zero wherever the other is not.
std::optional<Followed> RangeWalk::interleave(const Node& node) const {
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
std::optional<Followed> RangeWalk::join(int component, Value root) const {
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

}  // namespace stitch::graph
