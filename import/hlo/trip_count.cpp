#include "import/hlo/trip_count.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "import/hlo/element_program.h"

namespace stitch::import::hlo {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using Input = ElementProgram::Input;

constexpr std::int64_t most_trips = std::int64_t{1} << 18;
constexpr std::size_t most_state = 64;

/// Scalars that are known although they are parameters of a region.
using Known = std::map<Input, Scalar>;

std::optional<Scalar> known_element(const Graph& graph, const Known& known, const Element& element) {
  const auto program = ElementProgram::compile(graph, {&element, 1});
  if (!program) return std::nullopt;
  std::vector<Scalar> inputs;
  for (const Input& input : program->inputs()) {
    const auto found = known.find(input);
    if (found == known.end()) return std::nullopt;
    inputs.push_back(found->second);
  }
  const auto result = program->run(inputs);
  if (!result) return std::nullopt;
  return (*result)[0];
}

/// The part of a loop that decides when it ends.
struct Counter {
  ElementProgram condition;
  ElementProgram body;       ///< next value of each element of the state, in its order
  std::vector<Input> state;  ///< elements of the carried values
};

/// The elements that the condition depends on, and those that these depend on in turn.
std::optional<Counter> counter_of(const Node& loop) {
  const Graph& body = *loop.regions[0];
  const Graph& condition = *loop.regions[1];
  const Element decision{condition.results()[0], 0};
  auto decide = ElementProgram::compile(condition, {&decision, 1});
  if (!decide) return std::nullopt;
  std::set<Input> state(decide->inputs().begin(), decide->inputs().end());
  for (;;) {
    std::vector<Element> next;
    for (const Input& input : state) {
      next.push_back({body.results()[input.parameter], input.index});
    }
    auto step = ElementProgram::compile(body, next);
    if (!step) return std::nullopt;
    const std::size_t before = state.size();
    std::vector<Input> ordered(state.begin(), state.end());
    state.insert(step->inputs().begin(), step->inputs().end());
    if (state.size() == before) return Counter{std::move(*decide), std::move(*step), std::move(ordered)};
    if (state.size() > most_state) return std::nullopt;
  }
}

std::vector<Scalar> pick(std::span<const Input> inputs, const std::vector<Input>& state,
                         const std::vector<Scalar>& values) {
  std::vector<Scalar> picked;
  for (const Input& input : inputs) {
    const auto at = std::lower_bound(state.begin(), state.end(), input) - state.begin();
    picked.push_back(values[at]);
  }
  return picked;
}

std::int64_t trips(const Graph& graph, const Known& known, const Node& loop) {
  const std::optional<Counter> counter = counter_of(loop);
  if (!counter) return -1;
  std::vector<Scalar> values;
  for (const Input& input : counter->state) {
    const Value start = loop.operands[input.parameter];
    const std::optional<Scalar> value = known_element(graph, known, {start, input.index});
    if (!value) return -1;
    values.push_back(*value);
  }
  for (std::int64_t trip = 0; trip <= most_trips; ++trip) {
    const auto decision = counter->condition.run(pick(counter->condition.inputs(), counter->state, values));
    if (!decision) return -1;
    if ((*decision)[0].integer == 0) return trip;
    auto next = counter->body.run(pick(counter->body.inputs(), counter->state, values));
    if (!next) return -1;
    values = std::move(*next);
  }
  return -1;
}

Graph with_trip_counts(const Graph& graph, const Known& known);

/// What is known inside a loop: scalars that start known and that the body hands on unchanged.
Known inside_loop(const Graph& graph, const Known& known, const Node& loop) {
  const Graph& body = *loop.regions[0];
  Known inside;
  for (std::size_t i = 0; i < loop.operands.size(); ++i) {
    const Value parameter{body.parameters()[i], 0};
    if (graph.type(loop.operands[i]).elements() != 1 || body.results()[i] != parameter) continue;
    if (const auto value = known_element(graph, known, {loop.operands[i], 0})) {
      inside[{static_cast<std::int64_t>(i), 0}] = *value;
    }
  }
  return inside;
}

Known inside_branches(const Graph& graph, const Known& known, const Node& conditional) {
  Known inside;
  for (std::size_t i = 1; i < conditional.operands.size(); ++i) {
    if (graph.type(conditional.operands[i]).elements() != 1) continue;
    if (const auto value = known_element(graph, known, {conditional.operands[i], 0})) {
      inside[{static_cast<std::int64_t>(i) - 1, 0}] = *value;
    }
  }
  return inside;
}

Graph with_trip_counts(const Graph& graph, const Known& known) {
  Graph result;
  result.name = graph.name;
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    if (node.op == Op::loop) {
      std::int64_t& count = std::get<graph::LoopAttributes>(copy.attributes).trip_count;
      if (count < 0) count = trips(graph, known, node);
    }
    if (!node.regions.empty()) {
      const Known inside = node.op == Op::loop ? inside_loop(graph, known, node) : inside_branches(graph, known, node);
      for (auto& region : copy.regions) region = std::make_shared<const Graph>(with_trip_counts(*region, inside));
    }
    result.add_unchecked(std::move(copy));
  }
  result.set_results({graph.results().begin(), graph.results().end()});
  return result;
}

bool has_regions(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return !node.regions.empty(); });
}

}  // namespace

Graph with_trip_counts(const Graph& graph) { return has_regions(graph) ? with_trip_counts(graph, Known{}) : graph; }

}  // namespace stitch::import::hlo
