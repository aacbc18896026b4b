#include "graph/passes/scans/scan_combiner.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "graph/builder.h"
#include "graph/fill.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr std::size_t most_steps = 256;
constexpr std::int64_t triples = 768;
constexpr std::uint32_t seed = 26;

/// The scalar that fills a value: a constant, or broadcasts and reshapes of one.
std::optional<ConstantAttributes> splat_of(const Graph& graph, Value value) {
  const auto bits = fill_bits(graph, value);
  if (!bits) return std::nullopt;
  return scalar_of(graph.type(value).dtype, *bits);
}

}  // namespace

std::optional<ScanCombiner> ScanCombiner::read(const Graph& graph, const std::vector<Value>& results,
                                               const std::map<Value, int>& leaves) {
  std::set<NodeId> members;
  std::vector<Value> open = results;
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (leaves.contains(value) || members.contains(value.node)) continue;
    const Node& node = graph.node(value.node);
    const bool splat = splat_of(graph, value).has_value();
    if (!splat && (!is_elementwise(node.op) || node.results.size() != 1)) return std::nullopt;
    members.insert(value.node);
    if (members.size() > most_steps) return std::nullopt;
    if (!splat) open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  ScanCombiner combiner;
  combiner.results_.resize(results.size());
  std::map<NodeId, int> numbers;
  const auto number_of = [&](Value value) {
    const auto leaf = leaves.find(value);
    return leaf != leaves.end() ? leaf->second : numbers.at(value.node);
  };
  for (const NodeId id : members) {
    const Node& node = graph.node(id);
    Step step{node.op, node.attributes, {}};
    if (auto constant = splat_of(graph, {id, 0})) {
      step = {Op::constant, std::move(*constant), {}};
    } else {
      for (const Value operand : node.operands) step.operands.push_back(number_of(operand));
    }
    numbers[id] = combiner.leaf_count() + static_cast<int>(combiner.steps_.size());
    combiner.steps_.push_back(std::move(step));
  }
  for (std::size_t i = 0; i < results.size(); ++i) combiner.results_[i] = number_of(results[i]);
  return combiner;
}

std::optional<std::vector<Value>> ScanCombiner::match(const Graph& graph, int component, Value root) const {
  std::vector<Value> bound(leaf_count() + steps_.size());
  std::vector<std::pair<int, Value>> open = {{results_[component], root}};
  while (!open.empty()) {
    const auto [number, value] = open.back();
    open.pop_back();
    if (bound[number].node >= 0) {
      if (bound[number] != value) return std::nullopt;
      continue;
    }
    bound[number] = value;
    if (number < leaf_count()) continue;
    const Step& step = steps_[number - leaf_count()];
    const Node& node = graph.node(value.node);
    if (step.op == Op::constant) {
      if (splat_of(graph, value) != std::get<ConstantAttributes>(step.attributes)) return std::nullopt;
      bound[number] = {};  // equal constants may be several nodes
      continue;
    }
    if (node.op != step.op || node.attributes != step.attributes || node.operands.size() != step.operands.size())
      return std::nullopt;
    for (std::size_t i = 0; i < step.operands.size(); ++i) open.emplace_back(step.operands[i], node.operands[i]);
  }
  bound.resize(leaf_count());
  return bound;
}

Result<std::shared_ptr<const Graph>> ScanCombiner::region(const std::vector<DType>& dtypes) const {
  Builder b("combiner");
  std::vector<Value> values;
  for (const char* side : {"left", "right"}) {
    for (std::size_t i = 0; i < dtypes.size(); ++i)
      values.push_back(b.parameter(dtypes[i], {}, fmt::format("{}{}", side, i)));
  }
  for (const Step& step : steps_) {
    std::vector<Value> operands;
    for (const int operand : step.operands) operands.push_back(values[operand]);
    values.push_back(b.add(step.op, std::move(operands), step.attributes));
  }
  std::vector<Value> results;
  for (const int result : results_) results.push_back(values[result]);
  STITCH_ASSIGN(Graph graph, b.finish(std::move(results)));
  return std::make_shared<const Graph>(std::move(graph));
}

namespace {

Tensor sample(DType dtype, std::mt19937& random) {
  Tensor tensor = Tensor::zeros({dtype, {triples}});
  std::normal_distribution<double> normal(0, 1.5);
  for (std::int64_t i = 0; i < triples; ++i) {
    const bool small = i % 3 == 0;
    const int integer = static_cast<int>(random() % 7) - 3;
    if (is_floating(dtype)) {
      tensor.floats[i] = round_to(dtype, small ? integer : normal(random));
    } else if (dtype == DType::pred) {
      tensor.integers[i] = random() % 2;
    } else {
      const std::int64_t bits = small ? integer : static_cast<std::int64_t>(random()) * 2654435761 + random();
      std::byte memory[8];
      store_integer(dtype, bits, memory);
      tensor.integers[i] = load_integer(dtype, memory);
    }
  }
  return tensor;
}

/// The region's results on tensors of `triples` elements.
std::vector<Value> applied(Builder& b, const Graph& region, const std::vector<Value>& left,
                           const std::vector<Value>& right) {
  std::vector<Value> arguments = left, copies;
  arguments.insert(arguments.end(), right.begin(), right.end());
  std::size_t next = 0;
  for (const Node& node : region.nodes()) {
    if (node.op == Op::parameter) {
      copies.push_back(arguments[next++]);
      continue;
    }
    std::vector<Value> operands;
    for (const Value operand : node.operands) operands.push_back(copies[operand.node]);
    const Value copy = b.add(node.op, std::move(operands), node.attributes);
    copies.push_back(node.op == Op::constant ? b.broadcast(copy, {triples}, {}) : copy);
  }
  std::vector<Value> results;
  for (const Value result : region.results()) results.push_back(copies[result.node]);
  return results;
}

bool agree(const Tensor& one, const Tensor& other) {
  constexpr double tolerance = 1e-9;
  if (one.integers != other.integers) return false;
  for (std::size_t i = 0; i < one.floats.size(); ++i) {
    const double a = one.floats[i], b = other.floats[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)}))) return false;
  }
  return true;
}

}  // namespace

Result<bool> is_associative(const Graph& region) {
  const std::size_t components = region.results().size();
  Builder b;
  std::mt19937 random(seed);
  std::vector<std::vector<Value>> tuples(3);
  std::vector<Tensor> arguments;
  for (std::vector<Value>& tuple : tuples) {
    for (std::size_t i = 0; i < components; ++i) {
      const DType dtype = region.type(region.results()[i]).dtype;
      tuple.push_back(b.parameter(dtype, {triples}));
      arguments.push_back(sample(dtype, random));
    }
  }
  std::vector<Value> results = applied(b, region, applied(b, region, tuples[0], tuples[1]), tuples[2]);
  const std::vector<Value> other = applied(b, region, tuples[0], applied(b, region, tuples[1], tuples[2]));
  results.insert(results.end(), other.begin(), other.end());
  STITCH_ASSIGN(const Graph graph, b.finish(std::move(results)));
  STITCH_ASSIGN(const std::vector<Tensor> values, evaluate(graph, arguments));
  for (std::size_t i = 0; i < components; ++i) {
    if (!agree(values[i], values[components + i])) return false;
  }
  return true;
}

Result<bool> is_neutral(const Graph& region, const std::vector<ConstantAttributes>& initial) {
  Builder b;
  std::mt19937 random(seed);
  std::vector<Value> tuple, neutral;
  std::vector<Tensor> arguments;
  for (const ConstantAttributes& one : initial) {
    tuple.push_back(b.parameter(one.type.dtype, {triples}));
    arguments.push_back(sample(one.type.dtype, random));
    neutral.push_back(b.broadcast(b.constant(one), {triples}, {}));
  }
  std::vector<Value> results = applied(b, region, neutral, tuple);
  const std::vector<Value> other = applied(b, region, tuple, neutral);
  results.insert(results.end(), other.begin(), other.end());
  STITCH_ASSIGN(const Graph graph, b.finish(std::move(results)));
  STITCH_ASSIGN(const std::vector<Tensor> values, evaluate(graph, arguments));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!agree(values[i], arguments[i % initial.size()])) return false;
  }
  return true;
}

std::optional<ReduceKind> kind_of(const Graph& region) {
  if (region.results().size() != 1 || region.size() != 3) return std::nullopt;
  const Node& node = region.node(region.results()[0].node);
  if (node.operands != std::vector<Value>{{0, 0}, {1, 0}}) return std::nullopt;
  switch (node.op) {
    case Op::add: return ReduceKind::sum;
    case Op::multiply: return ReduceKind::product;
    case Op::maximum: return ReduceKind::max;
    case Op::minimum: return ReduceKind::min;
    case Op::bit_and: return ReduceKind::bit_and;
    case Op::bit_or: return ReduceKind::bit_or;
    case Op::bit_xor: return ReduceKind::bit_xor;
    default: return std::nullopt;
  }
}

}  // namespace stitch::graph
