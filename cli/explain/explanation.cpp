#include "cli/explain/explanation.h"

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/uncertainty.h"
#include "graph/print.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/kernel_graph.h"
#include "search/partition/vertex_graph.h"
#include "tuning/plans/plan_builder.h"

namespace stitch::cli {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;
using kernel::GroupProgram;
using kernel::Level;

// ---- schemes ----------------------------------------------------------------------------------------------------

std::string describe_axis(const GroupProgram& group, std::size_t axis) {
  std::string text = fmt::format("{}:", group.extents[axis]);
  bool any = false;
  for (std::size_t level = 0; level < kernel::level_count; ++level) {
    const std::int64_t extent = group.mapping.axes[axis].extent[level];
    if (extent == 1) continue;
    text += fmt::format("{} {} {}", any ? "," : "", kernel::to_string(static_cast<Level>(level)), extent);
    any = true;
  }
  if (group.mapping.axes[axis].interleaved) text += "; blocks walk together";
  if (group.is_shifted(axis)) text += "; vectors aligned in memory";
  return any ? text : text + " one element";
}

std::string describe_anchor(const Graph& graph, const kernel::Anchor& anchor) {
  switch (anchor.kind) {
    case kernel::Anchor::Kind::store: break;
    case kernel::Anchor::Kind::reduce: return "reduce " + graph::to_text(graph, anchor.node);
    case kernel::Anchor::Kind::partial: return "part of " + graph::to_text(graph, anchor.node);
    case kernel::Anchor::Kind::scan: return "scan " + graph::to_text(graph, anchor.node);
    case kernel::Anchor::Kind::sort: return "sort " + graph::to_text(graph, anchor.node);
    case kernel::Anchor::Kind::scatter: return "scatter " + graph::to_text(graph, anchor.node);
    case kernel::Anchor::Kind::atomic: return "updates of " + graph::to_text(graph, anchor.node);
  }
  std::string places;
  for (const kernel::Buffer& buffer : anchor.buffers) {
    const bool output = buffer.kind == kernel::Buffer::Kind::output;
    places += fmt::format("{}{} {}", places.empty() ? "" : ", ", output ? "result" : "scratch", buffer.number);
  }
  return "store " + places;
}

/// The lowest level that holds everything a value travels over.
AnchorExplanation explain_anchor(const Graph& graph, const GroupProgram& group, int position) {
  const kernel::Anchor& anchor = group.structure.anchors[position];
  AnchorExplanation text{describe_anchor(graph, anchor), "thread", {}};
  const auto add = [&](const std::string& piece) { text.how += (text.how.empty() ? "" : ", ") + piece; };
  for (const kernel::ReductionPlan& plan : group.reductions) {
    if (plan.anchor != position) continue;
    if (plan.kept_per_thread > 1) add(fmt::format("{} accumulators a thread", plan.kept_per_thread));
    if (!plan.shuffles.empty()) {
      text.scheme = "warp";
      add(fmt::format("{} shuffles", plan.shuffles.size()));
    }
    if (plan.exchange > 1) {
      text.scheme = "block";
      add(fmt::format("{} partial results through shared memory ({} bytes)", plan.exchange, plan.shared_bytes));
    }
    if (plan.cluster > 1) {
      text.scheme = "cluster";
      add(fmt::format("{} blocks through distributed shared memory", plan.cluster));
    }
    if (plan.partials > 1) {
      text.scheme = "grid";
      add(fmt::format("{} tiles leave partial results in scratch", plan.partials));
    }
  }
  return text;
}

/// Loads that are on their way while the turns before them compute: into registers, and into shared memory.
std::string describe_ahead(const GroupProgram& group) {
  std::size_t loads = group.ahead.loads.size(), staged = group.ahead.staged.size();
  std::int64_t bytes = group.ahead.shared_bytes();
  for (const kernel::Sweep& sweep : group.sweeps) {
    loads += sweep.ahead.loads.size();
    staged += sweep.ahead.staged.size();
    bytes = std::max(bytes, sweep.ahead.shared_bytes());
  }
  const auto counted = [](std::size_t number) { return fmt::format("{} load{}", number, number == 1 ? "" : "s"); };
  std::string text = loads == 0 ? "" : counted(loads) + " a turn ahead";
  if (staged == 0) return text;
  return fmt::format("{}{}{} ahead in {} stages of shared memory{}, {} bytes a block", text, text.empty() ? "" : ", ",
                     counted(staged), group.mapping.stages, group.ahead.bulk ? " by bulk copies of warps" : "", bytes);
}

GroupExplanation explain_group(const Graph& graph, const GroupProgram& group, int phase) {
  GroupExplanation text;
  text.phase = phase;
  text.threads = group.threads;
  text.tiles = group.tiles;
  text.sweeps = std::ssize(group.sweeps);
  for (std::size_t axis = 0; axis < group.mapping.axes.size(); ++axis) text.axes.push_back(describe_axis(group, axis));
  std::map<std::string, int> held;
  for (const kernel::HeldItem& item : group.held) {
    ++held[fmt::format("from sweep {} to {} in {}", item.from, item.until, to_string(item.place))];
  }
  for (const auto& [where, count] : held) {
    text.held.push_back(fmt::format("{} value{} {}", count, count == 1 ? "" : "s", where));
  }
  text.ahead = describe_ahead(group);
  for (const kernel::RetainedLoad& load : group.retained) {
    text.retained.push_back(fmt::format("{:.1f} % of parameter {} {} shared memory, {} bytes a block", 100 * load.share,
                                        group.structure.program->at(load.item).buffer.number,
                                        load.fills ? "for later phases in" : "from", load.rounds * load.round_bytes));
  }
  for (int a = 0; a < std::ssize(group.structure.anchors); ++a) {
    text.anchors.push_back(explain_anchor(graph, group, a));
  }
  return text;
}

KernelExplanation explain_kernel(const search::PlannedKernel& planned, const search::Scorer& scorer) {
  const Graph& graph = planned.kernel->graph;
  const kernel::KernelProgram& program = planned.kernel->candidates.front().program;
  KernelExplanation text;
  text.name = "kernel " + planned.kernel->key.hex().substr(0, 12);
  text.description = tuning::describe_kernel(graph, program);
  text.nodes = planned.nodes;
  text.blocks = program.blocks;
  text.threads = program.schedule.threads;
  text.cluster = program.schedule.cluster;
  text.registers = program.registers;
  text.shared_bytes = program.shared_bytes;
  text.bytes = kernel::scheduled_bytes(graph, program);
  text.slabs = program.schedule.slabs.count;
  for (const kernel::Sync sync : program.schedule.syncs) text.syncs.emplace_back(to_string(sync));
  for (int phase = 0; phase < std::ssize(program.phases); ++phase) {
    for (const GroupProgram& group : program.phases[phase].groups) {
      text.groups.push_back(explain_group(program.computes(graph), group, phase));
    }
  }
  text.score = scorer.explain(graph, program);
  text.kind = costmodel::to_string(costmodel::kind_of(program));
  text.uncertainty_us = costmodel::uncertainty_us(program, text.score.us);
  return text;
}

// ---- boundaries -------------------------------------------------------------------------------------------------

/// The kernels of a plan as a graph of their own.
class KernelDag {
 public:
  KernelDag(const Graph& fragment, const search::FusionPlan& plan) : bytes_(plan.kernels.size()) {
    std::map<Value, int> writer;
    for (int k = 0; k < size(); ++k) {
      for (const Value value : plan.kernels[k].results) writer.emplace(value, k);
    }
    for (int k = 0; k < size(); ++k) {
      for (const Value value : plan.kernels[k].arguments) {
        const auto found = writer.find(value);
        if (found != writer.end() && found->second != k) bytes_[k][found->second] += fragment.type(value).bytes();
      }
    }
  }

  [[nodiscard]] int size() const { return std::ssize(bytes_); }
  /// Bytes that `to` reads of what `from` writes.
  [[nodiscard]] std::int64_t bytes(int from, int to) const {
    const auto found = bytes_[to].find(from);
    return found == bytes_[to].end() ? 0 : found->second;
  }
  /// A kernel on a way from `from` to `to`, or -1: one that would have to run in the middle of the merged kernel.
  [[nodiscard]] int between(int from, int to) const {
    std::set<int> reached = {from};
    for (int k = from + 1; k < to; ++k) {
      if (reads_any(k, reached)) reached.insert(k);
    }
    for (const auto& [producer, bytes] : bytes_[to]) {
      if (producer != from && reached.contains(producer)) return producer;
    }
    return -1;
  }

 private:
  [[nodiscard]] bool reads_any(int k, const std::set<int>& producers) const {
    return std::any_of(bytes_[k].begin(), bytes_[k].end(),
                       [&](const auto& read) { return producers.contains(read.first); });
  }
  std::vector<std::map<int, std::int64_t>> bytes_;  ///< per kernel: producer → bytes
};

BoundaryExplanation explain_boundary(const search::FusionPlan& plan, const search::VertexGraph& vertices,
                                     const KernelDag& dag, int from, int to, search::KernelCache& cache) {
  BoundaryExplanation text{from, to, dag.bytes(from, to), {}, 0, {}};
  if (const int middle = dag.between(from, to); middle >= 0) {
    text.why = fmt::format("kernel {} must run after {} and before {}", middle, from, to);
    return text;
  }
  search::VertexSet both(vertices.size());
  double apart_us = 0;
  for (const int k : {from, to}) {
    const search::PlannedKernel& kernel = plan.kernels[k];
    apart_us += kernel.kernel->predicted_us();
    for (const NodeId node : kernel.nodes) {
      if (vertices.vertex_of(node) >= 0) both.insert(vertices.vertex_of(node));
    }
  }
  const kernel::KernelGraph merged =
      kernel::extract_kernel(vertices.fragment(), vertices.attached(), vertices.uses(), vertices.nodes_of(both));
  const auto explored = cache.explore(merged.graph);
  if (!explored || !explored->kernel->feasible()) {
    text.why =
        fmt::format("no kernel can do both: {}", explored ? explored->kernel->why.message : explored.error().message);
    return text;
  }
  text.merged_us = explored->kernel->predicted_us();
  text.gain_us = apart_us - *text.merged_us;
  text.why = fmt::format(
      "{:.2f} us apart, {:.2f} us as one: {}", apart_us, *text.merged_us,
      text.gain_us > 0 ? "merging would gain, but another plan was better when it was decided" : "merging would lose");
  return text;
}

void explain_boundaries(const search::FusionPlan& plan, const tuning::Tuner& tuner, int most_pairs,
                        FragmentExplanation& text) {
  const search::VertexGraph vertices(text.graph);
  const KernelDag dag(text.graph, plan);
  search::KernelCache cache(tuner.scorer(), {});
  struct Pair {
    int from, to;
    std::int64_t bytes;
  };
  std::vector<Pair> pairs;
  for (int to = 0; to < dag.size(); ++to) {
    for (int from = 0; from < to; ++from) {
      const std::int64_t bytes = dag.bytes(from, to);
      if (bytes > 0 || from + 1 == to) pairs.push_back({from, to, bytes});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.bytes > b.bytes; });
  const std::ptrdiff_t examined = std::min<std::ptrdiff_t>(std::ssize(pairs), most_pairs);
  for (std::ptrdiff_t i = 0; i < examined; ++i) {
    text.boundaries.push_back(explain_boundary(plan, vertices, dag, pairs[i].from, pairs[i].to, cache));
  }
  text.boundaries_left_out = std::ssize(pairs) - examined;
}

}  // namespace

FragmentExplanation explain_fragment(const tuning::ModelFragments::Entry& entry, const tuning::Tuner& tuner, bool run,
                                     int most_pairs) {
  FragmentExplanation text;
  text.key = entry.key;
  text.name = entry.name;
  text.occurrences = entry.occurrences;
  text.graph = entry.graph;
  const Result<search::FusionPlan> plan = tuner.explore(entry.graph);
  if (!plan) {
    text.failure = plan.error().message;
    return text;
  }
  text.predicted_us = plan->predicted_us;
  text.dependent_saving_us = plan->dependent_saving_us;
  text.unwaited_saving_us = plan->unwaited_saving_us;
  if (plan->dependent_saving_us > 0) text.dependent_launches = plan->dependent_launches();
  if (entry.graph.constraints.any()) {
    graph::Graph free = entry.graph;
    free.constraints = {};
    if (const auto without = tuner.explore(free)) text.unconstrained_us = without->predicted_us;
  }
  if (const auto unfused = tuner.unfused(entry.graph)) {
    text.unfused_us = unfused->predicted_us();
    text.unfused_kernels = unfused->launches();
  }
  for (const search::PlannedKernel& kernel : plan->kernels) {
    text.kernels.push_back(explain_kernel(kernel, tuner.scorer()));
    text.uncertainty_us += text.kernels.back().uncertainty_us;
  }
  explain_boundaries(*plan, tuner, most_pairs, text);
  if (!run) return text;
  Result<tuning::TunedFragment> tuned = tuner.tune({.fragment = entry.graph, .name = entry.name, .plan = &*plan});
  if (!tuned) {
    text.failure = tuned.error().message;
    return text;
  }
  for (std::size_t k = 0; k < text.kernels.size(); ++k) text.kernels[k].report = std::move(tuned->kernels[k]);
  return text;
}

}  // namespace stitch::cli
