#include "graph/graph.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stitch::graph {

Result<Value> Graph::add(Op op, std::vector<Value> operands, Attributes attributes, std::string node_name,
                         std::int32_t line, std::vector<std::shared_ptr<const Graph>> regions) {
  const auto located = [&](const Error& error) {
    std::string place = node_name.empty() ? fmt::format("{} #{}", to_string(op), size())
                                          : fmt::format("{} '{}'", to_string(op), node_name);
    if (line > 0) place += fmt::format(" (line {})", line);
    return error.within(place);
  };
  std::vector<TensorType> operand_types;
  operand_types.reserve(operands.size());
  for (const Value& operand : operands) {
    if (operand.node < 0 || operand.node >= size() || operand.result < 0 ||
        operand.result >= std::ssize(node(operand.node).results)) {
      return located(make_error(ErrorKind::invalid_argument, "operand {} does not exist", operand_types.size()));
    }
    operand_types.push_back(type(operand));
  }
  Result<std::vector<TensorType>> inferred = infer(op, operand_types, attributes, region_types(regions));
  if (!inferred) return located(inferred.error());
  return add_unchecked({op, std::move(operands), std::move(attributes), std::move(*inferred), std::move(regions),
                        std::move(node_name), line});
}

Value Graph::add_unchecked(Node node) {
  const NodeId id = size();
  if (node.op == Op::parameter) parameters_.push_back(id);
  nodes_.push_back(std::move(node));
  return {id, 0};
}

std::vector<Node> Graph::release_nodes() {
  parameters_.clear();
  results_.clear();
  return std::exchange(nodes_, {});
}

void Graph::adopt_nodes(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  parameters_.clear();
  results_.clear();
  for (NodeId id = 0; id < size(); ++id) {
    if (node(id).op == Op::parameter) parameters_.push_back(id);
  }
}

namespace {

RegionTypes types_of(const Graph& region) {
  RegionTypes types;
  for (const NodeId parameter : region.parameters()) types.parameters.push_back(region.node(parameter).type());
  for (const Value& value : region.results()) {
    const bool exists = value.node >= 0 && value.node < region.size() && value.result >= 0 &&
                        value.result < std::ssize(region.node(value.node).results);
    if (!exists) {
      types.fault = fmt::format("result {}.{} does not exist", value.node, value.result);
      break;
    }
    types.results.push_back(region.type(value));
  }
  return types;
}

}  // namespace

std::vector<RegionTypes> region_types(std::span<const std::shared_ptr<const Graph>> regions) {
  std::vector<RegionTypes> types;
  for (const auto& region : regions)
    types.push_back(region == nullptr ? RegionTypes{true, {}, {}, {}} : types_of(*region));
  return types;
}

std::optional<Dims> reduced_dimensions(const Node& node) {
  switch (node.op) {
    case Op::reduce: return node.as<ReduceAttributes>().dimensions;
    case Op::arg_reduce: return Dims{node.as<ArgReduceAttributes>().dimension};
    case Op::max_exp_sum: return node.as<MaxExpSumAttributes>().dimensions;
    default: return std::nullopt;
  }
}

std::vector<std::vector<NodeId>> users(const Graph& graph) {
  std::vector<std::vector<NodeId>> lists(graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (const Value& operand : graph.node(id).operands) {
      auto& list = lists[operand.node];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return lists;
}

std::vector<bool> is_result(const Graph& graph) {
  std::vector<bool> flags(graph.size(), false);
  for (const Value& value : graph.results()) flags[value.node] = true;
  return flags;
}

namespace {

/// a × b for counts ≥ 0; the largest integer when that is too much (loops around loops without a real bound).
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

void visit_regions(const RegionSite& site, const std::function<void(const RegionSite&)>& visit,
                   const std::function<bool(const Graph&, NodeId)>& enters) {
  visit(site);
  for (NodeId id = 0; id < site.graph.size(); ++id) {
    const Node& node = site.graph.node(id);
    // A combiner is part of its operator: nothing in it runs by itself.
    if (node.regions.empty() || node.op == Op::associative_scan || (enters && !enters(site.graph, id))) continue;
    for (std::size_t i = 0; i < node.regions.size(); ++i) {
      const bool is_body = node.op == Op::loop && i == 0;
      std::int64_t times = 1;
      if (node.op == Op::loop && node.as<LoopAttributes>().trip_count >= 0)
        times = is_body ? node.as<LoopAttributes>().trip_count : 0;  // nobody asks the condition of a counted loop
      visit_regions({*node.regions[i], saturating_product(site.occurrences, times),
                     fmt::format("{}/{}.{}", site.path, node.name, i), is_body},
                    visit, enters);
    }
  }
}

}  // namespace

void for_each_region(const Graph& graph, const std::function<void(const RegionSite&)>& visit,
                     const std::function<bool(const Graph&, NodeId)>& enters) {
  visit_regions({graph, 1, {}, false}, visit, enters);
}

std::int64_t operator_count(const Graph& graph) {
  std::int64_t count = 0;
  for_each_region(graph, [&](const RegionSite& region) {
    for (const Node& node : region.graph.nodes()) count += node.op != Op::parameter && node.op != Op::constant;
  });
  return count;
}

}  // namespace stitch::graph
