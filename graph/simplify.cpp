#include "graph/simplify.h"

#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "graph/passes/arithmetic.h"
#include "graph/passes/choices.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/conversions.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/functions.h"
#include "graph/passes/layout_chains.h"
#include "graph/passes/reductions.h"
#include "graph/passes/sink_broadcasts.h"
#include "graph/passes/sink_layouts.h"
#include "graph/passes/unit_dimensions.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

constexpr SimplificationPass passes[] = {
    {"dead-code", remove_dead_code, "drops what no result needs"},
    {"unit-dimensions", drop_unit_dimensions, "takes extents of 1 out of the operators"},
    {"layout-chains", merge_layout_chains, "merges reshapes, transposes and broadcasts"},
    {"sink-broadcasts", sink_broadcasts, "computes on the small side of broadcasts"},
    {"sink-layouts", sink_layouts, "changes layouts once, below element-wise operators"},
    {"conversions", simplify_conversions, "shortens chains of conversions"},
    {"choices", simplify_choices, "select, compare, clamp, maximum, minimum, bit operators"},
    {"functions", simplify_functions, "powers, roots, logistic"},
    {"arithmetic", simplify_arithmetic, "add, subtract, multiply, divide, negate"},
    {"reductions", simplify_reductions, "makes reductions fewer, smaller and independent"},
    {"common-subexpressions", merge_common_subexpressions, "computes equal things once"},
};

std::int64_t node_count(const Graph& graph) {
  std::int64_t count = graph.size();
  for (const Node& node : graph.nodes()) {
    for (const auto& region : node.regions) count += node_count(*region);
  }
  return count;
}

class Simplifier {
 public:
  Simplifier(const SimplifyOptions& options, SimplifyReport& report) : options_(options), report_(report) {
    for (const SimplificationPass& pass : passes) {
      report_.passes.push_back({pass.name, 0, 0, 0, 0});
      enabled_.push_back(std::find(options.without.begin(), options.without.end(), pass.name) ==
                         options.without.end());
    }
  }

  /// Repeats the list until no pass has changed the graph since its own last run.
  Result<int> settle(Graph& graph, const PassContext& context, bool& settled) {
    constexpr std::int64_t never = -1;
    std::vector<std::int64_t> clean(std::size(passes), never);  // version that the pass left as it was
    std::int64_t version = 0;
    int round = 0;
    settled = false;
    while (round < options_.most_rounds && !settled) {
      ++round;
      settled = true;
      STITCH_TRY(simplify_regions(graph));
      for (std::size_t i = 0; i < std::size(passes); ++i) {
        if (!enabled_[i] || clean[i] == version) continue;
        STITCH_ASSIGN(const int changes, run(i, graph, context));
        if (changes > 0) {
          ++version;
          settled = false;
        } else {
          clean[i] = version;
        }
      }
    }
    return round;
  }

 private:
  Result<int> run(std::size_t index, Graph& graph, const PassContext& context) {
    const SimplificationPass& pass = passes[index];
    PassReport& entry = report_.passes[index];
    const NodeId before = graph.size();
    const Stopwatch watch;
    Result<int> changes = pass.run(graph, context);
    if (!changes) return changes.error().within(fmt::format("pass {}", pass.name));
    entry.seconds += watch.seconds();
    ++entry.runs;
    entry.changes += *changes;
    entry.nodes_removed += before - graph.size();
    if (options_.verify && *changes > 0) {
      if (const Status status = verify(graph); !status) {
        return make_error(ErrorKind::internal, "pass {}: {}", pass.name, status.error().message);
      }
    }
    return changes;
  }

  /// Regions are shared and immutable: each is simplified once and its nodes get the new one.
  Status simplify_regions(Graph& graph) {
    const bool any =
        std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return !n.regions.empty(); });
    if (!any) return {};
    std::vector<Value> results(graph.results().begin(), graph.results().end());
    for (Node& node : graph.release_nodes()) {
      for (auto& region : node.regions) {
        STITCH_ASSIGN(region, simplified(region));
      }
      graph.add_unchecked(std::move(node));
    }
    graph.set_results(std::move(results));
    return {};
  }

  Result<std::shared_ptr<const Graph>> simplified(const std::shared_ptr<const Graph>& region) {
    const auto found = regions_.find(region);
    if (found != regions_.end()) return found->second;
    auto copy = std::make_shared<Graph>(*region);
    bool settled = true;
    STITCH_TRY(settle(*copy, {options_.reassociate, {}}, settled));
    report_.settled = report_.settled && settled;
    regions_[region] = copy;
    regions_[copy] = copy;
    return std::shared_ptr<const Graph>(std::move(copy));
  }

  const SimplifyOptions& options_;
  SimplifyReport& report_;
  std::vector<bool> enabled_;
  std::unordered_map<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>> regions_;
};

}  // namespace

std::span<const SimplificationPass> simplification_passes() { return passes; }

Result<SimplifyReport> simplify(Graph& graph, const SimplifyOptions& options) {
  for (const std::string& name : options.without) {
    const bool known = std::any_of(std::begin(passes), std::end(passes), [&](const auto& p) { return p.name == name; });
    if (!known) return make_error(ErrorKind::invalid_argument, "there is no simplification pass '{}'", name);
  }
  SimplifyReport report;
  const Stopwatch watch;
  report.nodes_before = node_count(graph);
  Graph work = graph;
  bool settled = true;
  Result<int> rounds = Simplifier(options, report).settle(work, {options.reassociate, {}}, settled);
  if (!rounds) return rounds.error();
  graph = std::move(work);
  report.rounds = *rounds;
  report.settled = report.settled && settled;
  report.nodes_after = node_count(graph);
  report.seconds = watch.seconds();
  return report;
}

}  // namespace stitch::graph
