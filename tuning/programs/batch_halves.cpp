#include "tuning/programs/batch_halves.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/subgraph.h"

namespace stitch::tuning {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// A part of a dimension.
struct BatchPart {
  std::int64_t first = 0, limit = 0;
  auto operator<=>(const BatchPart&) const = default;
};

/// A dimension of the operand that a dimension of a node's result is, element for element; nothing: it is none, or of
/// several operands.
std::optional<std::int64_t> dimension_below(const Graph& graph, const Node& node, std::int64_t d) {
  const Dims& dims = node.type().dims;
  const Dims& below = graph.type(node.operands[0]).dims;
  if (node.op == Op::transpose) return node.as<graph::TransposeAttributes>().permutation[d];
  if (node.op == Op::reduce) {
    const Dims& reduced = node.as<graph::ReduceAttributes>().dimensions;
    for (std::int64_t b = 0, at = 0; b < std::ssize(below); ++b) {
      if (std::ranges::count(reduced, b) > 0) continue;
      if (at++ == d) return b;
    }
    return std::nullopt;
  }
  // A reshape: the dimension of the same extent behind as many elements.
  std::int64_t before = 1, outside = 1;
  for (std::int64_t i = 0; i < d; ++i) before *= dims[i];
  for (std::int64_t b = 0; b < std::ssize(below); ++b) {
    if (outside == before && below[b] == dims[d]) return b;
    outside *= below[b];
  }
  return std::nullopt;
}

class BatchHalver {
 public:
  BatchHalver(const Graph& graph, NodeId product) : graph_(graph), product_(product), b_(graph.name) {
    const std::vector<std::vector<NodeId>> users = graph::users(graph);
    const std::vector<bool> results = graph::is_result(graph);
    halved_.assign(graph.size(), false);
    const auto is_its = [&](NodeId user) { return user == product || halved_[user]; };
    for (NodeId id = product - 1; id >= 0; --id) {
      halved_[id] = !results[id] && !users[id].empty() && std::ranges::all_of(users[id], is_its) && is_local(id);
    }
    const auto& a = graph.node(product).as<graph::DotAttributes>();
    find_whole(graph.node(product).operands[0], a.lhs_batch[0]);
    find_whole(graph.node(product).operands[1], a.rhs_batch[0]);
  }

  Result<Graph> halve() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (halved_[id] && !whole_.contains(id)) continue;
      if (id != product_) {
        graph::copy_node(graph_, id, b_, made_);
        continue;
      }
      const Node& node = graph_.node(id);
      b_.at(node.name, node.line);
      made_[{id, 0}] = halves(node);
    }
    return graph::finish_copy(graph_, b_, made_);
  }

 private:
  /// Whether a part of it needs no more than that part of its operands, and no library.
  [[nodiscard]] bool is_local(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.results.size() != 1 || !node.regions.empty()) return false;
    const bool layout = node.op == Op::reshape || node.op == Op::transpose || node.op == Op::broadcast;
    return layout || node.op == Op::reduce || (graph::is_elementwise(node.op) && !node.operands.empty());
  }

  /// Finds what has to be there whole for a part of a value.
  void find_whole(Value value, std::int64_t d) {
    if (!seen_.insert({value, d}).second) return;
    const auto from = sources(value, d);
    if (from.empty()) need_whole(value.node);
    for (const auto& [operand, along] : from) {
      if (along) {
        find_whole(operand, *along);
      } else {
        need_whole(operand.node);
      }
    }
  }
  void need_whole(NodeId id) {
    if (!halved_[id] || !whole_.insert(id).second) return;
    for (const Value operand : graph_.node(id).operands) need_whole(operand.node);
  }

  /// What a part of a value along a dimension is computed of: operands, with the dimension of which they are needed in
  /// part, or nothing, where they are needed whole. None: the value itself has to be there.
  [[nodiscard]] std::vector<std::pair<Value, std::optional<std::int64_t>>> sources(Value value, std::int64_t d) const {
    const Node& node = graph_.node(value.node);
    std::vector<std::pair<Value, std::optional<std::int64_t>>> found;
    if (!halved_[value.node]) return found;
    if (node.op == Op::broadcast) {
      const Dims& mapping = node.as<graph::BroadcastAttributes>().mapping;
      const auto from = std::ranges::find(mapping, d);
      found.emplace_back(node.operands[0], std::nullopt);
      if (from != mapping.end()) found[0].second = from - mapping.begin();
    } else if (graph::is_elementwise(node.op)) {
      for (const Value operand : node.operands) found.emplace_back(operand, d);
    } else if (const auto below = dimension_below(graph_, node, d)) {
      found.emplace_back(node.operands[0], *below);
    }
    return found;
  }

  /// A part of a value, in the new graph.
  Value part_of_value(Value value, std::int64_t d, BatchPart part) {
    const std::tuple key{value, d, part};
    if (const auto known = parts_.find(key); known != parts_.end()) return known->second;
    const Value made = make_part(value, d, part);
    return parts_[key] = made;
  }
  Value make_part(Value value, std::int64_t d, BatchPart part) {
    const Node& node = graph_.node(value.node);
    const auto from = sources(value, d);
    Dims dims = graph_.type(value).dims;
    if (from.empty()) {
      Dims starts(dims.size(), 0);
      starts[d] = part.first;
      dims[d] = part.limit;
      return b_.slice(made_.at(value), std::move(starts), std::move(dims));
    }
    std::vector<Value> operands;
    for (const auto& [operand, along] : from)
      operands.push_back(along ? part_of_value(operand, *along, part) : made_.at(operand));
    dims[d] = part.limit - part.first;
    if (node.op == Op::broadcast)
      return b_.broadcast(operands[0], std::move(dims), node.as<graph::BroadcastAttributes>().mapping);
    if (node.op == Op::reshape) return b_.reshape(operands[0], std::move(dims));
    return b_.add(node.op, std::move(operands), node.attributes);
  }

  Value halves(const Node& dot) {
    const auto& a = dot.as<graph::DotAttributes>();
    const std::int64_t batch = dot.type().dims[0], middle = (batch + 1) / 2;
    std::vector<Value> products;
    for (const BatchPart part : {BatchPart{0, middle}, BatchPart{middle, batch}}) {
      const Value left = part_of_value(dot.operands[0], a.lhs_batch[0], part);
      const Value right = part_of_value(dot.operands[1], a.rhs_batch[0], part);
      products.push_back(b_.dot(left, right, a));
    }
    return b_.concatenate(std::move(products), 0);
  }

  const Graph& graph_;
  const NodeId product_;
  graph::Builder b_;
  std::vector<bool> halved_;  ///< what nobody but the product needs, and of which it needs halves
  std::set<NodeId> whole_;    ///< those of them that are needed as they are, too
  std::set<std::pair<Value, std::int64_t>> seen_;
  std::map<Value, Value> made_;
  std::map<std::tuple<Value, std::int64_t, BatchPart>, Value> parts_;
};

}  // namespace

bool has_batch(const Node& product) {
  return product.op == Op::dot && !product.as<graph::DotAttributes>().lhs_batch.empty() && product.type().dims[0] > 1;
}

Result<Graph> halve_batch(const Graph& graph, NodeId product) {
  if (product < 0 || product >= graph.size() || !has_batch(graph.node(product)))
    return make_error(ErrorKind::invalid_argument, "node {} is no product over a batch", product);
  return BatchHalver(graph, product).halve();
}

}  // namespace stitch::tuning
