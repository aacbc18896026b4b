#include "graph/passes/common_subexpressions.h"

#include <algorithm>
#include <type_traits>
#include <unordered_map>

#include "base/hash.h"
#include "graph/canonical.h"
#include "graph/passes/regions.h"

namespace stitch::graph {
namespace {

/// Hash of a node for one table: far cheaper than a Hash128 that names something for ever.
class TableHash {
 public:
  [[nodiscard]] std::uint64_t value() const { return value_; }

  void add(std::uint64_t word) { value_ = mix(value_, word); }
  void operator()(std::string_view, const auto& field) { add_field(field); }

 private:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void add_field(T field) { add(static_cast<std::uint64_t>(field)); }
  void add_field(const std::string& text) { add(std::hash<std::string>()(text)); }
  void add_field(const TensorType& type) {
    add_field(type.dtype);
    add_field(type.dims);
  }
  template <class T>
  void add_field(const std::vector<T>& list) {
    add(list.size());
    if constexpr (std::is_same_v<T, std::byte>) {
      add(hash_bytes(list).low);
    } else {
      for (const T& entry : list) add_field(entry);
    }
  }

  std::uint64_t value_ = 0;
};

bool same_operands(const Node& a, const Node& b) {
  if (a.operands == b.operands) return true;
  return is_commutative(a) && a.operands[0] == b.operands[1] && a.operands[1] == b.operands[0];
}

class Merger {
 public:
  Replacement operator()(Rewriter& graph, const Node& node) {
    if (node.op == Op::parameter || holds_opaque(node)) return {};
    // The node will be the next one of the new graph, unless an equal one is there already.
    const Value next{graph.size(), 0};
    const std::uint64_t slot = hash(node);
    const auto [begin, end] = nodes_.equal_range(slot);
    for (auto found = begin; found != end; ++found) {
      if (equal(graph.node(found->second), node)) return all_results(node, found->second);
    }
    nodes_.emplace(slot, next);
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
    TableHash hash;
    hash.add(static_cast<std::uint64_t>(node.op));
    std::visit([&]<class A>(const A& held) { A::fields(held, hash); }, node.attributes);
    const bool exchanged = is_commutative(node) && node.operands[1] < node.operands[0];
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value operand = node.operands[exchanged ? 1 - i : i];
      hash.add(static_cast<std::uint64_t>(operand.node) << 32 | static_cast<std::uint32_t>(operand.result));
    }
    for (const auto& region : node.regions) hash.add(key(region).low);
    return hash.value();
  }

  bool equal(const Node& a, const Node& b) {
    return a.op == b.op && same_operands(a, b) && a.attributes == b.attributes &&
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
