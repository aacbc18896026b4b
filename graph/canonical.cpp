#include "graph/canonical.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "graph/attribute_hash.h"
#include "graph/canonical_order.h"
#include "graph/f32_products.h"

namespace stitch::graph {
namespace {

/// Whether parameters and results are told apart by their position (regions) or by their use alone (whole graphs).
enum class Interface : std::uint8_t { ordered, unordered };

struct Form {
  std::vector<NodeId> nodes;    // canonical position → node
  std::vector<int> parameters;  // likewise
  std::vector<int> results;
  Hash128 key;
  bool exact = true;
};

/// Canonical forms of one graph and its regions at one level of detail.
class Canonicaliser {
 public:
  explicit Canonicaliser(HashDetail detail) : detail_(detail) {}

  Form form(const Graph& graph, Interface interface) {
    std::vector<Hash128> regions;  // in order of nodes
    for (const Node& node : graph.nodes()) {
      for (const auto& region : node.regions) regions.push_back(region_key(*region));
    }
    const CanonicalOrder order = canonical_order(coloured(graph, interface, regions));
    Form result;
    result.exact = order.exact && regions_exact_;
    result.nodes = topological(graph, interface, order.order);
    std::vector<int> position(graph.size());
    for (std::size_t i = 0; i < result.nodes.size(); ++i) position[result.nodes[i]] = i;
    order_interface(graph, interface, position, result);
    result.key = serialise(graph, interface, position, regions, result);
    return result;
  }

  const Form& region_form(const Graph& region) {
    const auto found = forms_.find(&region);
    if (found != forms_.end()) return found->second;
    Form made = form(region, Interface::ordered);
    regions_exact_ = regions_exact_ && made.exact;
    return forms_.emplace(&region, std::move(made)).first->second;
  }

 private:
  Hash128 region_key(const Graph& region) { return region_form(region).key; }

  void hash_node(Hasher& hasher, const Node& node, const Hash128* regions) const {
    hasher.text(to_string(node.op));
    hash_attributes(hasher, node.attributes, detail_);
    hasher.integer(node.results.size());
    for (const TensorType& type : node.results) hash_type(hasher, type, detail_);
    hasher.integer(node.regions.size());
    for (std::size_t i = 0; i < node.regions.size(); ++i) hasher.hash(regions[i]);
  }

  /// What WL refinement starts from. An edge is labelled with the operand's place (none in commutative operators)
  /// and the result it takes.
  ColouredGraph coloured(const Graph& graph, Interface interface, const std::vector<Hash128>& regions) const {
    ColouredGraph result;
    const Hash128* next_region = regions.data();
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      Hasher hasher;
      hash_node(hasher, node, next_region);
      next_region += node.regions.size();
      result.colours.push_back(hasher.finish().low);
      const bool commutative = is_commutative(node);
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const auto& [producer, output] = node.operands[i];
        result.edges.push_back({producer, id, mix(commutative ? 0 : i + 1, static_cast<std::uint64_t>(output))});
      }
    }
    for (std::size_t i = 0; i < graph.results().size(); ++i) {
      const auto& [producer, output] = graph.results()[i];
      const std::uint64_t mark = mix(interface == Interface::ordered ? i + 1 : 0, static_cast<std::uint64_t>(output));
      result.colours[producer] += mix(mark, 0x7e5);  // a multiset: the same value may be returned twice
    }
    for (std::size_t i = 0; i < graph.parameters().size() && interface == Interface::ordered; ++i) {
      auto& colour = result.colours[graph.parameters()[i]];
      colour = mix(colour, i);
    }
    return result;
  }

  /// Parameters first, then whatever is ready, by canonical order.
  static std::vector<NodeId> topological(const Graph& graph, Interface interface, const std::vector<int>& order) {
    std::vector<int> rank(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
    std::vector<NodeId> result(graph.parameters().begin(), graph.parameters().end());
    const auto by_rank = [&](NodeId a, NodeId b) { return rank[a] < rank[b]; };
    if (interface == Interface::unordered) std::sort(result.begin(), result.end(), by_rank);

    const std::vector<std::vector<NodeId>> uses = users(graph);
    std::vector<int> missing(order.size(), 0);
    for (const auto& list : uses) {
      for (const NodeId user : list) ++missing[user];
    }
    const auto later = [&](NodeId a, NodeId b) { return by_rank(b, a); };
    std::priority_queue<NodeId, std::vector<NodeId>, decltype(later)> ready(later);
    const auto place = [&](NodeId id) {
      for (const NodeId user : uses[id]) {
        if (--missing[user] == 0) ready.push(user);
      }
    };
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (missing[id] == 0 && graph.node(id).op != Op::parameter) ready.push(id);
    }
    for (const NodeId parameter : graph.parameters()) place(parameter);
    while (!ready.empty()) {
      const NodeId next = ready.top();
      ready.pop();
      result.push_back(next);
      place(next);
    }
    return result;
  }

  static void order_interface(const Graph& graph, Interface interface, const std::vector<int>& position, Form& form) {
    for (std::size_t i = 0; i < graph.parameters().size(); ++i) form.parameters.push_back(i);
    for (std::size_t i = 0; i < graph.results().size(); ++i) form.results.push_back(i);
    if (interface == Interface::ordered) return;
    const auto parameter_position = [&](int i) { return position[graph.parameters()[i]]; };
    std::sort(form.parameters.begin(), form.parameters.end(),
              [&](int a, int b) { return parameter_position(a) < parameter_position(b); });
    const auto result_position = [&](int i) {
      const Value& value = graph.results()[i];
      return std::tuple(position[value.node], value.result, i);
    };
    std::sort(form.results.begin(), form.results.end(),
              [&](int a, int b) { return result_position(a) < result_position(b); });
  }

  Hash128 serialise(const Graph& graph, Interface interface, const std::vector<int>& position,
                    const std::vector<Hash128>& regions, const Form& form) const {
    std::vector<std::size_t> first_region(graph.size() + 1, 0);
    for (NodeId id = 0; id < graph.size(); ++id) {
      first_region[id + 1] = first_region[id] + graph.node(id).regions.size();
    }
    Hasher hasher;
    hasher.text("stitch-canonical").integer(canonical_version);
    hasher.integer(detail_ == HashDetail::exact ? 0 : 1).integer(interface == Interface::ordered ? 0 : 1);
    // Keys of graphs without constraints are what they were before there were any.
    if (const Constraints asked = relevant_constraints(graph); asked.any()) hasher.text(to_string(asked));
    hasher.integer(form.nodes.size());
    for (const NodeId id : form.nodes) {
      hash_node(hasher, graph.node(id), regions.data() + first_region[id]);
      hasher.integer(graph.node(id).operands.size());
      for (const Value& operand : canonical_operands(graph.node(id), position)) hash_value(hasher, operand);
    }
    hasher.integer(form.results.size());
    for (const int i : form.results) {
      const Value& value = graph.results()[i];
      hash_value(hasher, {position[value.node], value.result});
    }
    return hasher.finish();
  }

  static void hash_value(Hasher& hasher, const Value& value) {
    hasher.integer(static_cast<std::uint64_t>(value.node)).integer(static_cast<std::uint64_t>(value.result));
  }

 public:
  /// The node's operands by canonical position, ascending when their order means nothing.
  static std::vector<Value> canonical_operands(const Node& node, const std::vector<int>& position) {
    std::vector<Value> operands;
    for (const Value& operand : node.operands) operands.push_back({position[operand.node], operand.result});
    if (is_commutative(node)) std::sort(operands.begin(), operands.end());
    return operands;
  }

  /// The graph in the order of its form.
  Graph rebuild(const Graph& graph, const Form& form) {
    std::vector<int> position(graph.size());
    for (std::size_t i = 0; i < form.nodes.size(); ++i) position[form.nodes[i]] = i;
    Graph result;
    result.constraints = relevant_constraints(graph);
    for (const NodeId id : form.nodes) {
      const Node& from = graph.node(id);
      Node node{from.op, canonical_operands(from, position), from.attributes, from.results, {}, {}, 0};
      for (const auto& region : from.regions) node.regions.push_back(canonical_region(region));
      result.add_unchecked(std::move(node));
    }
    for (const int i : form.results) {
      const Value& value = graph.results()[i];
      result.add_result({position[value.node], value.result});
    }
    return result;
  }

 private:
  std::shared_ptr<const Graph> canonical_region(const std::shared_ptr<const Graph>& region) {
    auto& made = rebuilt_[region.get()];
    if (!made) made = std::make_shared<const Graph>(rebuild(*region, region_form(*region)));
    return made;
  }

  HashDetail detail_;
  bool regions_exact_ = true;
  std::unordered_map<const Graph*, Form> forms_;  // regions are shared: each is done once
  std::unordered_map<const Graph*, std::shared_ptr<const Graph>> rebuilt_;
};

}  // namespace

bool is_commutative(const Node& node) {
  if (node.op != Op::compare) return info(node.op).commutative;
  const Comparison direction = node.as<CompareAttributes>().direction;
  return direction == Comparison::eq || direction == Comparison::ne;
}

bool same_form(const Graph& a, const Graph& b) {
  if (a.constraints != b.constraints) return false;
  if (a.size() != b.size() || !std::ranges::equal(a.results(), b.results())) return false;
  for (NodeId id = 0; id < a.size(); ++id) {
    const Node &one = a.node(id), &other = b.node(id);
    if (one.op != other.op || one.operands != other.operands || one.results != other.results) return false;
    if (one.attributes != other.attributes || one.regions.size() != other.regions.size()) return false;
    for (std::size_t i = 0; i < one.regions.size(); ++i) {
      if (one.regions[i] != other.regions[i] && !same_form(*one.regions[i], *other.regions[i])) return false;
    }
  }
  return true;
}

Hash128 region_key(const Graph& region) {
  return Canonicaliser(HashDetail::exact).form(region, Interface::ordered).key;
}

Result<CanonicalForm> canonicalise(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (const Value& operand : graph.node(id).operands) {
      if (operand.node >= 0 && operand.node < id) continue;
      return make_error(ErrorKind::invalid_argument, "node {} ({} '{}') uses node {}, which does not come before it",
                        id, to_string(graph.node(id).op), graph.node(id).name, operand.node);
    }
  }
  Canonicaliser exact(HashDetail::exact), family(HashDetail::family);
  Form form = exact.form(graph, Interface::unordered);
  const Form family_form = family.form(graph, Interface::unordered);
  return CanonicalForm{exact.rebuild(graph, form),
                       form.key,
                       family_form.key,
                       std::move(form.parameters),
                       std::move(form.results),
                       std::move(form.nodes),
                       form.exact && family_form.exact};
}

}  // namespace stitch::graph
