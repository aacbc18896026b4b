#include "graph/simplify.h"

#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "graph/passes/arithmetic.h"
#include "graph/passes/choices.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/conditionals.h"
#include "graph/passes/contractions.h"
#include "graph/passes/conversions.h"
#include "graph/passes/convolutions.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/expansions.h"
#include "graph/passes/fold_constants.h"
#include "graph/passes/functions.h"
#include "graph/passes/indexing.h"
#include "graph/passes/integer_ranges.h"
#include "graph/passes/layout_chains.h"
#include "graph/passes/loops/loop_fission.h"
#include "graph/passes/loops/loops.h"
#include "graph/passes/reductions.h"
#include "graph/passes/scans/associative_scans.h"
#include "graph/passes/scans/sorts.h"
#include "graph/passes/sink_broadcasts.h"
#include "graph/passes/sink_layouts.h"
#include "graph/passes/slices.h"
#include "graph/passes/unit_dimensions.h"
#include "graph/passes/unrolled/roll_loops.h"
#include "graph/passes/windows.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

constexpr SimplificationPass passes[] = {
    {"dead-code", remove_dead_code, "drops what no result needs"},
    {"associative-scans", recognise_associative_scans, "scans that are written out as a recursion of slices"},
    {"loop-fission", split_loops, "computes over all turns of a loop what need not be computed turn by turn"},
    {"roll-loops", roll_loops, "recurrences that are written out turn by turn"},
    {"unit-dimensions", drop_unit_dimensions, "takes extents of 1 out of the operators"},
    {"layout-chains", merge_layout_chains, "merges reshapes, transposes and broadcasts"},
    {"sink-broadcasts", sink_broadcasts, "computes on the small side of broadcasts"},
    {"fold-constants", fold_constants, "evaluates what depends on constants alone"},
    {"expansions", recognise_expansions, "special functions that are written out"},
    {"sink-layouts", sink_layouts, "changes layouts once, below element-wise operators"},
    {"convolutions", simplify_convolutions, "writes out convolutions that are no matrix products"},
    {"windows", simplify_windows, "splits large windows; max-pooling's gradient selects once per window"},
    {"slices", simplify_slices, "slices, pads, concatenations"},
    {"sorts", simplify_sorts, "sorts whose lines are read in part become top-k"},
    {"indexing", simplify_indexing, "gather, scatter, dynamic slices"},
    {"conversions", simplify_conversions, "shortens chains of conversions"},
    {"integer-ranges", apply_integer_ranges, "drops tests and words that ranges decide"},
    {"choices", simplify_choices, "select, compare, clamp, maximum, minimum, bit operators"},
    {"functions", simplify_functions, "powers, roots, logistic"},
    {"arithmetic", simplify_arithmetic, "add, subtract, multiply, divide, negate"},
    {"contractions", simplify_contractions, "dots take over the transposes next to them"},
    {"reductions", simplify_reductions, "makes reductions fewer, smaller and independent"},
    {"common-subexpressions", merge_common_subexpressions, "computes equal things once"},
    {"loops", simplify_loops, "loops carry what changes and is needed; invariants leave them"},
    {"conditionals", simplify_conditionals, "known branches take the place of conditionals"},
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
      enabled_.push_back(std::find(options.without.begin(), options.without.end(), pass.name) == options.without.end());
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
    if (options_.stop.stop_requested())
      return make_error(ErrorKind::cancelled, "stopped while the graph was simplified");
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

  /// Regions are shared and immutable: each is simplified once for what is known of its parameters.
  Status simplify_regions(Graph& graph) {
    std::vector<std::vector<std::shared_ptr<const Graph>>> made;
    for (const Node& node : graph.nodes()) {
      if (node.regions.empty()) continue;
      made.emplace_back();
      for (const auto& region : node.regions) {
        const bool is_body = node.op == Op::loop && region == node.regions[0];
        STITCH_ASSIGN(auto simple,
                      simplified(region, is_body ? carried_ranges(graph, node) : std::vector<ValueRange>()));
        made.back().push_back(std::move(simple));
      }
    }
    if (made.empty()) return {};
    std::vector<Value> results(graph.results().begin(), graph.results().end());
    std::vector<Node> nodes = graph.release_nodes();
    auto next = made.begin();
    for (Node& node : nodes) {
      if (!node.regions.empty()) node.regions = std::move(*next++);
    }
    graph.adopt_nodes(std::move(nodes));
    graph.set_results(std::move(results));
    return {};
  }

  Result<std::shared_ptr<const Graph>> simplified(const std::shared_ptr<const Graph>& region,
                                                  std::vector<ValueRange> ranges) {
    for (const Done& done : regions_[region.get()]) {
      if (done.ranges == ranges) return done.region;
    }
    auto copy = std::make_shared<Graph>(*region);
    bool settled = true;
    STITCH_TRY(settle(*copy, {options_.reassociate, ranges, true}, settled));
    report_.settled = report_.settled && settled;
    kept_.push_back(region);
    regions_[region.get()].push_back({ranges, copy});
    regions_[copy.get()].push_back({std::move(ranges), copy});
    return std::shared_ptr<const Graph>(std::move(copy));
  }

  /// A region simplified with some knowledge of its parameters.
  struct Done {
    std::vector<ValueRange> ranges;
    std::shared_ptr<const Graph> region;
  };

  const SimplifyOptions& options_;
  SimplifyReport& report_;
  std::vector<bool> enabled_;
  std::unordered_map<const Graph*, std::vector<Done>> regions_;
  std::vector<std::shared_ptr<const Graph>> kept_;  // so that no address in regions_ is used again
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
  SimplifyOptions allowed = options;
  allowed.reassociate = options.reassociate && !graph.constraints.eager_precision;
  Result<int> rounds = Simplifier(allowed, report).settle(work, {allowed.reassociate, {}}, settled);
  if (!rounds) return rounds.error();
  graph = std::move(work);
  report.rounds = *rounds;
  report.settled = report.settled && settled;
  report.nodes_after = node_count(graph);
  report.seconds = watch.seconds();
  return report;
}

}  // namespace stitch::graph
