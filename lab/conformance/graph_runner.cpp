#include "lab/conformance/graph_runner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "graph/canonical.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "graph/subgraph.h"

namespace stitch::lab {
namespace {

using graph::ConstantAttributes;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

constexpr std::int64_t most_trips = std::int64_t{1} << 20;

void note(std::vector<std::string>& list, std::string_view op) {
  if (std::find(list.begin(), list.end(), op) == list.end()) list.emplace_back(op);
}

/// What must be in memory before a step, and the step.
struct Step {
  std::vector<Value> needs;
  std::function<Status()> go;
};

/// Runs the steps of a graph, each when what it needs is there. Errors: internal (none is ready), those of the steps.
Status run_steps(std::vector<Step> steps, const std::function<bool(const Step&)>& is_ready, std::string_view graph) {
  while (!steps.empty()) {
    const auto ready = std::find_if(steps.begin(), steps.end(), is_ready);
    if (ready == steps.end())
      return make_error(ErrorKind::internal, "the pieces of graph '{}' wait for each other", graph);
    const std::function<Status()> go = std::move(ready->go);
    steps.erase(ready);
    STITCH_TRY(go());
  }
  return {};
}

/// Truth or number of a scalar.
std::int64_t scalar(const ConstantAttributes& value) {
  return graph::load_integer(value.type.dtype, value.data.data());
}

}  // namespace

/// The values of one graph that are in memory.
class GraphRunner::Memory {
 public:
  explicit Memory(const Graph& graph) : graph_(graph) {}

  void put(Value value, ConstantAttributes contents) { contents_[value] = std::move(contents); }

  /// A reshape is its operand under another type.
  [[nodiscard]] const ConstantAttributes* find(Value value) const {
    for (;;) {
      const auto found = contents_.find(value);
      if (found != contents_.end()) return &found->second;
      if (graph_.node(value.node).op != Op::reshape) return nullptr;
      value = graph_.node(value.node).operands[0];
    }
  }
  [[nodiscard]] bool holds(const std::vector<Value>& values) const {
    return std::all_of(values.begin(), values.end(), [&](Value value) { return find(value) != nullptr; });
  }
  [[nodiscard]] std::vector<ConstantAttributes> get(const std::vector<Value>& values) const {
    std::vector<ConstantAttributes> contents;
    for (const Value value : values) contents.push_back({graph_.type(value), graph::expanded(*find(value))});
    return contents;
  }

  /// Computes `wanted` from `sources` on the reference evaluator.
  Status evaluate(const std::vector<Value>& sources, const std::vector<Value>& wanted) {
    STITCH_ASSIGN(const Graph part, graph::subgraph(graph_, sources, wanted));
    std::vector<graph::Tensor> arguments;
    for (const ConstantAttributes& argument : get(sources)) arguments.push_back(graph::tensor_from(argument));
    graph::EvaluateOptions options;
    options.round = true;
    STITCH_ASSIGN(const auto results, graph::evaluate(part, arguments, options));
    for (std::size_t i = 0; i < wanted.size(); ++i) put(wanted[i], graph::constant_from(results[i]));
    return {};
  }

 private:
  const Graph& graph_;
  std::map<Value, ConstantAttributes> contents_;
};

Result<GraphRunner::Loaded*> GraphRunner::load(const Graph& canonical, const Hash128& key) {
  if (const auto known = loaded_.find(key); known != loaded_.end()) return &known->second;
  Loaded loaded;
  STITCH_ASSIGN(loaded.tuned, tuner_.tune({.fragment = canonical, .name = canonical.name}));
  const auto artifact = [&](const Sha256& hash) -> Result<std::string> {
    for (const db::Artifact& candidate : loaded.tuned.bundle.artifacts) {
      if (candidate.hash == hash) return candidate.bytes;
    }
    return make_error(ErrorKind::internal, "the plan lacks artifact {}", hash.hex());
  };
  STITCH_ASSIGN(loaded.plan, executor_.load(loaded.tuned.plan, artifact));
  return &loaded_.emplace(key, std::move(loaded)).first->second;
}

Status GraphRunner::run_fragment(const graph::FragmentSite& site, Memory& memory, RunSummary& summary) {
  STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(site.graph));
  STITCH_ASSIGN(Loaded* const loaded, load(form.graph, form.key));
  const std::vector<ConstantAttributes> given = memory.get(site.arguments);
  std::vector<ConstantAttributes> made;
  for (const Value result : site.graph.results()) {
    const graph::TensorType& type = site.graph.type(result);
    made.push_back({type, std::vector<std::byte>(type.bytes())});
  }
  std::vector<std::span<const std::byte>> parameters;
  std::vector<std::span<std::byte>> results;
  for (const int from : form.parameter_order) parameters.emplace_back(given[from].data);
  for (const int to : form.result_order) results.emplace_back(made[to].data);
  STITCH_TRY(loaded->plan->run(parameters, results));
  ++summary.fragments;
  summary.launches += std::ssize(loaded->tuned.plan.launches);
  for (std::size_t i = 0; i < made.size(); ++i) memory.put(site.results[i], std::move(made[i]));
  return {};
}

Result<std::vector<ConstantAttributes>> GraphRunner::run_loop(const Node& node, std::vector<ConstantAttributes> carried,
                                                              RunSummary& summary) {
  for (std::int64_t trip = 0; trip < most_trips; ++trip) {
    STITCH_ASSIGN(const auto go_on, run(*node.regions[1], carried, summary));
    if (scalar(go_on.front()) == 0) return carried;
    STITCH_ASSIGN(carried, run(*node.regions[0], std::move(carried), summary));
  }
  return make_error(ErrorKind::resource_exhausted, "loop '{}' runs more than {} times", node.name, most_trips);
}

Status GraphRunner::run_other(const Graph& graph, NodeId id, Memory& memory, RunSummary& summary) {
  const Node& node = graph.node(id);
  std::vector<ConstantAttributes> results;
  if (node.op == Op::loop) {
    STITCH_ASSIGN(results, run_loop(node, memory.get(node.operands), summary));
  } else if (node.op == Op::conditional) {
    std::vector<ConstantAttributes> arguments = memory.get(node.operands);
    const std::int64_t selector = scalar(arguments.front());
    const std::int64_t branches = node.regions.size();
    const bool boolean = arguments.front().type.dtype == graph::DType::pred;
    const std::int64_t chosen = boolean                                ? (selector != 0 ? 0 : 1)
                                : selector >= 0 && selector < branches ? selector
                                                                       : branches - 1;
    arguments.erase(arguments.begin());
    STITCH_ASSIGN(results, run(*node.regions[chosen], std::move(arguments), summary));
  } else {
    note(summary.evaluated, graph::to_string(node.op));
    std::vector<Value> wanted;
    for (int r = 0; r < std::ssize(node.results); ++r) wanted.push_back({id, r});
    std::vector<Value> sources = node.operands;
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    return memory.evaluate(sources, wanted);
  }
  for (int r = 0; r < std::ssize(results); ++r) memory.put({id, r}, std::move(results[r]));
  return {};
}

Result<std::vector<ConstantAttributes>> GraphRunner::run(const Graph& graph, std::vector<ConstantAttributes> arguments,
                                                         RunSummary& summary) {
  if (arguments.size() != graph.parameters().size()) {
    return make_error(ErrorKind::invalid_argument, "{} arguments for {} parameters", arguments.size(),
                      graph.parameters().size());
  }
  Memory memory(graph);
  for (std::size_t p = 0; p < arguments.size(); ++p) memory.put({graph.parameters()[p], 0}, std::move(arguments[p]));
  graph::CutOptions options;
  options.whole_loop = [&](const Graph& loop) { return tuner_.runs_in_one_kernel(loop); };
  const graph::CutGraph cut = graph::cut(graph, options);
  std::vector<Step> steps;
  for (const graph::FragmentSite& site : cut.fragments) {
    steps.push_back({site.arguments, [&] {
                       const Status status = run_fragment(site, memory, summary);
                       return status ? status : status.error().within(fmt::format("fragment at level {}", site.level));
                     }});
  }
  for (const graph::LibraryCall& call : cut.calls) {
    steps.push_back({call.operands, [&] {
                       note(summary.evaluated, graph::to_string(graph.node(call.root).op));
                       std::set<Value> sources(call.operands.begin(), call.operands.end());
                       return memory.evaluate({sources.begin(), sources.end()}, {call.result});
                     }});
  }
  for (const NodeId id : cut.others) {
    steps.push_back({graph.node(id).operands, [&, id] { return run_other(graph, id, memory, summary); }});
  }
  const auto is_ready = [&](const Step& step) { return memory.holds(step.needs); };
  STITCH_TRY(run_steps(std::move(steps), is_ready, graph.name));
  const std::vector<Value> results(graph.results().begin(), graph.results().end());
  if (!memory.holds(results))
    return make_error(ErrorKind::internal, "a result of graph '{}' is computed by no piece", graph.name);
  return memory.get(results);
}

}  // namespace stitch::lab
