#include "kernel/structure/structure_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/in_place.h"
#include "kernel/structure/group_builder.h"
#include "kernel/structure/slab_separation.h"
#include "kernel/structure/walk_order.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Sharing a load smaller than this is no reason for two anchors to share a mapping.
constexpr std::int64_t shared_load_elements = 1024;

constexpr std::int64_t sector_bytes = 32;

/// Buffers that the groups of a kernel name, each group its own: with twice as many as a device passes as parameters
/// (kernel/program/legality), a structure is not worth completing.
constexpr std::size_t most_buffers = 1 << 13;

bool is_reduction(Op op) { return op == Op::reduce || op == Op::arg_reduce; }

/// Whether a reduction is over more than the axes that lie within one tile.
bool leaves_tile(const AxisAnalysis& analysis, NodeId id, const std::set<int>& tile_axes) {
  return std::ranges::any_of(analysis.reduced(id), [&](int axis) { return !tile_axes.contains(axis); });
}

/// Per node, whether it is a reduction that StructureOptions::gathered makes end in one tile.
std::vector<bool> gathered_reductions(const Graph& graph, const AxisAnalysis& analysis,
                                      const StructureOptions& options) {
  std::vector<bool> gathered(graph.size(), false), of_many_tiles = gathered;
  for (NodeId id = 0; options.gathered > 0 && id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::size_t i = id;
    of_many_tiles[i] = std::ranges::any_of(node.operands, [&](Value operand) { return of_many_tiles[operand.node]; });
    if (!is_reduction(node.op)) continue;
    const bool few = graph.type(node.operands[0]).elements() <= options.gathered;
    gathered[i] = few && of_many_tiles[i] && leaves_tile(analysis, id, options.tile_axes);
    of_many_tiles[i] = of_many_tiles[i] || !few;
  }
  return gathered;
}

bool subset(const std::vector<int>& a, const std::vector<int>& b) {
  return std::all_of(a.begin(), a.end(), [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

class StructureBuilder {
 public:
  StructureBuilder(const Graph& graph, const AxisAnalysis& analysis, StructureOptions options)
      : graph_(graph), analysis_(analysis), options_(std::move(options)) {
    options_.materialised.insert(options_.stored_first.begin(), options_.stored_first.end());
    gathered_ = gathered_reductions(graph, analysis, options_);
  }

  Result<KernelStructure> build() {
    for (int attempt = 0; attempt < 200; ++attempt) {
      retry_ = false;
      STITCH_ASSIGN(KernelStructure structure, try_build());
      if (retry_) continue;
      if (analysis_.slab_axis() >= 0) STITCH_TRY(separate_slabs(structure, analysis_.slab_axis()));
      choose_walks(graph_, structure);
      return structure;
    }
    return make_error(ErrorKind::constraint, "no order of phases computes this kernel");
  }

 private:
  Result<KernelStructure> try_build() {
    assign_phases();
    make_drafts();
    KernelStructure structure;
    group_of_reduction_.clear();
    GroupBuilder builder(graph_, analysis_, structure);
    int last = 0;
    for (const Draft& draft : drafts_) last = std::max(last, draft.phase);
    for (int phase = 0; phase <= last; ++phase) {
      std::vector<Draft*> drafts;
      for (Draft& draft : drafts_) {
        if (draft.phase == phase) drafts.push_back(&draft);
      }
      structure.phases.emplace_back();
      for (Draft* draft : drafts) find_needs(*draft, builder);
      if (retry_) return structure;
      const std::vector<std::vector<Draft*>> groups = form_groups(drafts);
      if (retry_) return structure;
      // All that is blocked in this phase is found at once: packed kernels have hundreds of groups.
      for (const std::vector<Draft*>& members : groups) {
        Result<GroupStructure> group = builder.build(members);
        if (!group && !builder.blocked()) return group.error();
        if (!group) block(*builder.blocked()->draft, builder.blocked()->node);
        if (!retry_) {
          group->lasting_inputs = options_.lasting_inputs;
          structure.phases.back().groups.push_back(std::move(*group));
        }
        number_reductions(members);
        if (builder.buffers() > most_buffers)
          return make_error(ErrorKind::constraint, "more than {} parameters", most_buffers);
      }
      if (retry_) return structure;
      builder.record_stored(drafts);
    }
    drop_empty_phases(structure);
    return structure;
  }

  // ---- phases -----------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_global(NodeId id) const {
    return !gathered_[id] && leaves_tile(analysis_, id, options_.tile_axes);
  }

  /// Whether a node is computed by many tiles.
  [[nodiscard]] bool is_large(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto beyond = [&](std::int64_t elements) { return elements > options_.gathered; };
    return node.op != Op::parameter && node.op != Op::constant &&
           (std::ranges::any_of(node.results, [&](const graph::TensorType& t) { return beyond(t.elements()); }) ||
            std::ranges::any_of(node.operands, [&](Value v) { return beyond(graph_.type(v).elements()); }));
  }

  void assign_phases() {
    const std::size_t count = graph_.size();
    phase_.assign(count, 0);
    const bool gathers = std::ranges::count(gathered_, true) > 0;
    // The last phases in which something large and something gathered went into a node.
    std::vector<int> large(gathers ? count : 0, -1), small(gathers ? count : 0, -1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      int phase = 0;
      for (const Value operand : graph_.node(id).operands) {
        const int stored = options_.stored_first.contains(operand) ? 1 : 0;
        phase = std::max(phase, phase_[operand.node] + finishing_delay(operand.node) + stored);
      }
      if (const auto found = earliest_node_.find(id); found != earliest_node_.end())
        phase = std::max(phase, found->second);
      const std::size_t i = id;
      if (gathers) {
        // One tile waits for all that it reads, and everybody for what that tile gathers.
        for (const Value operand : graph_.node(id).operands) {
          large[i] = std::max(large[i], large[operand.node]);
          small[i] = std::max(small[i], small[operand.node]);
        }
        if (gathered_[i]) small[i] = phase = std::max(phase, large[i] + 1);
        if (is_large(id)) large[i] = phase = std::max(phase, small[i] + 1);
      }
      phase_[i] = phase;
    }
  }

  [[nodiscard]] int phase_of(NodeId id) const { return phase_[id]; }

  // ---- drafts -----------------------------------------------------------------------------------------------

  void make_drafts() {
    drafts_.clear();
    std::vector<bool> needed(graph_.size(), false);
    for (const Value result : graph_.results()) needed[result.node] = true;
    for (NodeId id = graph_.size(); id-- > 0;) {
      if (!needed[id]) continue;
      for (const Value operand : graph_.node(id).operands) needed[operand.node] = true;
    }
    std::map<Value, std::vector<int>> outputs;
    for (std::size_t i = 0; i < graph_.results().size(); ++i) outputs[graph_.results()[i]].push_back(i);

    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[id]) continue;
      const Node& node = graph_.node(id);
      if (is_reduction(node.op)) draft_reduction(id);
      if (is_stored_only(node.op)) draft_stored_only(id, outputs);
      for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
        const Value value{id, r};
        if (options_.materialised.contains(value) && !is_stored_only(node.op)) draft_keep(value);
        if (is_stored_only(node.op)) continue;
        for (const int output : outputs.contains(value) ? outputs.at(value) : std::vector<int>{})
          draft_output(value, output);
      }
    }
  }

  void draft_reduction(NodeId id) {
    Draft draft;
    draft.kind = Draft::Kind::reduce;
    draft.node = id;
    draft.value = graph_.node(id).operands[0];
    draft.phase = phase_of(id);
    draft.axes = analysis_.of(draft.value);
    draft.global = is_global(id);
    drafts_.push_back(draft);
    if (!draft.global) return;
    Draft finish;
    finish.kind = Draft::Kind::finish;
    finish.node = id;
    finish.value = {id, 0};
    finish.phase = phase_of(id) + 1;
    finish.axes = analysis_.of(finish.value);
    drafts_.push_back(finish);
  }

  void draft_stored_only(NodeId id, const std::map<Value, std::vector<int>>& outputs) {
    Draft draft;
    draft.kind = graph_.node(id).op == Op::scan ? Draft::Kind::scan : Draft::Kind::scatter;
    draft.node = id;
    draft.value = {id, 0};
    draft.phase = phase_of(id);
    draft.axes = analysis_.of(draft.value);
    const auto found = outputs.find(draft.value);
    draft.output = found == outputs.end() ? -1 : found->second.front();
    if (adds_atomically(graph_, id)) {
      // 16-bit values are summed in f32, in scratch memory; whoever wants them rounds them.
      if (accumulator_of(graph_, draft.value) != graph_.type(draft.value).dtype) draft.output = -1;
      draft.kind = Draft::Kind::fill;
      drafts_.push_back(draft);
      draft.kind = Draft::Kind::add_updates;
      ++draft.phase;
      draft.axes = analysis_.of(graph_.node(id).operands[2]);
    }
    drafts_.push_back(draft);
    for (const int output : found == outputs.end() ? std::vector<int>{} : found->second) {
      if (output != draft.output) draft_output(draft.value, output);
    }
  }

  void draft_keep(Value value) {
    Draft draft;
    draft.kind = Draft::Kind::keep;
    draft.node = value.node;
    draft.value = value;
    draft.phase = phase_of(value.node) + finishing_delay(value.node);
    draft.axes = analysis_.of(value);
    drafts_.push_back(draft);
  }

  [[nodiscard]] int finishing_delay(NodeId id) const {
    const Op op = graph_.node(id).op;
    if (is_stored_only(op)) return adds_atomically(graph_, id) ? 2 : 1;
    return is_reduction(op) && is_global(id) ? 1 : 0;
  }

  void draft_output(Value value, int output) {
    Draft draft;
    draft.kind = Draft::Kind::output;
    draft.node = value.node;
    draft.value = value;
    draft.output = output;
    draft.phase = phase_of(value.node) + finishing_delay(value.node);
    if (const auto found = earliest_output_.find(output); found != earliest_output_.end()) {
      draft.phase = std::max(draft.phase, found->second);
    }
    if (graph::updated_parameter(graph_, value)) {
      draft.kind = Draft::Kind::update;
      draft.axes = analysis_.of(graph_.node(value.node).operands[1]);
      drafts_.push_back(std::move(draft));
      return;
    }
    draft_pieces(draft, std::vector<std::int64_t>(graph_.type(value).dims.size(), 0));
  }

  /// Whether equal parts of a concatenation take turns within a sector of memory, as real and imaginary parts do.
  [[nodiscard]] bool is_interleaved(const Node& node) const {
    const graph::TensorType& part = graph_.type(node.operands.front());
    std::int64_t run = graph::byte_size(part.dtype);
    for (std::size_t d = node.as<graph::ConcatenateAttributes>().dimension; d < part.dims.size(); ++d)
      run *= part.dims[d];
    return node.operands.size() <= most_interleaved && run < sector_bytes &&
           std::ranges::all_of(node.operands, [&](Value operand) { return graph_.type(operand).dims == part.dims; });
  }

  /// A concatenation that is stored needs no selects: every part is written where it belongs. Interleaved parts stay
  /// together: by themselves each would write every sector, a few bytes at a time.
  void draft_pieces(Draft draft, const std::vector<std::int64_t>& offset) {
    const Node& node = graph_.node(draft.value.node);
    if (node.op != Op::concatenate || node.operands.size() > 64 || is_interleaved(node)) {
      draft.offset = offset;
      draft.axes = analysis_.of(draft.value);
      if (draft.value != graph_.results()[draft.output]) draft.kind = Draft::Kind::piece;
      drafts_.push_back(std::move(draft));
      return;
    }
    const std::size_t dimension = node.as<graph::ConcatenateAttributes>().dimension;
    std::vector<std::int64_t> at = offset;
    for (const Value operand : node.operands) {
      Draft part = draft;
      part.value = operand;
      part.node = operand.node;
      part.phase = std::max(draft.phase, phase_of(operand.node) + finishing_delay(operand.node));
      draft_pieces(part, at);
      at[dimension] += graph_.type(operand).dims[dimension];
    }
  }

  // ---- groups -----------------------------------------------------------------------------------------------

  /// Walks from an anchor down to what it reads, noting the reductions of this phase and the loads on the way.
  void find_needs(Draft& draft, const GroupBuilder& builder) {
    ++walk_;
    walked_.resize(graph_.size(), 0);
    std::vector<Value> open = draft_roots(draft);
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      const Node& node = graph_.node(value.node);
      if (node.op == Op::parameter || builder.is_stored(value)) {
        if (graph_.type(value).elements() >= shared_load_elements) draft.loads.insert(value.node);
        continue;
      }
      if (std::exchange(walked_[value.node], walk_) == walk_) continue;
      // Random bits take longer to compute than most values to load.
      if (node.op == Op::threefry2x32 && graph_.type(value).elements() >= shared_load_elements)
        draft.loads.insert(value.node);
      if (is_stored_only(node.op)) {
        block(draft, value.node);
        continue;
      }
      if (is_reduction(node.op)) {
        if (phase_of(value.node) + (is_global(value.node) ? 1 : 0) == draft.phase) {
          (is_global(value.node) ? draft.finished : draft.local_reductions).insert(value.node);
          continue;
        }
        // Of an earlier phase and not stored (or a foreign index will show): item construction decides.
        block(draft, value.node);
        continue;
      }
      for (const Value operand : node.operands) open.push_back(operand);
    }
    if (draft.kind == Draft::Kind::finish) draft.finished.insert(draft.node);
  }

  [[nodiscard]] std::vector<Value> draft_roots(const Draft& draft) const {
    const std::vector<Value>& operands = graph_.node(draft.node).operands;
    switch (draft.kind) {
      case Draft::Kind::finish: return {};
      case Draft::Kind::reduce:
      case Draft::Kind::scan:
      case Draft::Kind::scatter: return operands;
      case Draft::Kind::fill: return {operands[0]};
      case Draft::Kind::update:
      case Draft::Kind::add_updates: return {operands.begin() + 1, operands.end()};
      case Draft::Kind::output:
      case Draft::Kind::piece:
      case Draft::Kind::keep: break;
    }
    return {draft.value};
  }

  /// `draft` needs `node` where it is not at hand: store it, and come back when it is in memory.
  void block(const Draft& draft, NodeId node) {
    retry_ = true;
    const Op op = graph_.node(node).op;
    if (!is_stored_only(op)) {
      for (std::int32_t r = 0; r < static_cast<std::int32_t>(graph_.node(node).results.size()); ++r) {
        options_.materialised.insert({node, r});
      }
    }
    const int ready = phase_of(node) + finishing_delay(node) + (is_stored_only(op) ? 0 : 1);
    if (draft.output >= 0 && !is_stored_only(graph_.node(draft.node).op)) {
      int& earliest = earliest_output_[draft.output];
      earliest = std::max(earliest, ready);
    } else {
      int& earliest = earliest_node_[draft.node];
      earliest = std::max(earliest, ready);
    }
  }

  std::vector<std::vector<Draft*>> form_groups(const std::vector<Draft*>& drafts) {
    std::vector<std::size_t> parent(drafts.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto find = [&](std::size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    std::vector<std::vector<int>> axes;
    for (const Draft* draft : drafts) axes.push_back(draft->axes);
    std::vector<std::set<int>> sources(drafts.size());  // of the partial results that a group finishes
    const auto join = [&](std::size_t a, std::size_t b) {
      a = find(a);
      b = find(b);
      if (a == b) return true;
      if (!subset(axes[a], axes[b]) && !subset(axes[b], axes[a])) return false;
      if (subset(axes[a], axes[b])) axes[a] = axes[b];
      parent[b] = a;
      sources[a].insert(sources[b].begin(), sources[b].end());
      return true;
    };
    std::map<NodeId, std::size_t> reduction_at, finish_at;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i]->kind == Draft::Kind::reduce && !drafts[i]->global) reduction_at[drafts[i]->node] = i;
      if (drafts[i]->kind == Draft::Kind::finish) finish_at[drafts[i]->node] = i;
    }
    const std::map<NodeId, int> source_of = sources_of(finish_at);
    for (const auto& [node, at] : finish_at) sources[at].insert(source_of.at(node));
    join_finishes(finish_at, source_of, join);
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (is_special(*drafts[i])) {
        // It walks its axis in its own way and holds no reduction on the side.
        for (const auto* needed : {&drafts[i]->local_reductions, &drafts[i]->finished}) {
          for (const NodeId reduction : *needed) block(*drafts[i], reduction);
        }
        continue;
      }
      for (const NodeId reduction : drafts[i]->local_reductions) {
        if (!join(i, reduction_at.at(reduction))) block(*drafts[i], reduction);
      }
      for (const NodeId finished : drafts[i]->finished) {
        // A finished reduction is complete in its own group only; whoever spans more axes reads it from memory.
        const std::size_t at = finish_at.at(finished);
        if (find(i) == find(at)) continue;
        const std::set<int>& own = sources[find(i)];
        const bool same = own.empty() || (own.size() == 1 && source_of.at(finished) != no_source &&
                                          *own.begin() == source_of.at(finished));
        if (!subset(drafts[i]->axes, analysis_.of(Value{finished, 0})) || !same || !join(at, i)) {
          block(*drafts[i], finished);
        }
      }
    }
    if (retry_) return {};
    // Anchors that read the same large values share a mapping, so that each value is read once (dominant merging).
    std::map<NodeId, std::vector<std::size_t>> readers;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (!is_special(*drafts[i])) {
        for (const NodeId load : drafts[i]->loads) readers[load].push_back(i);
      }
    }
    for (const auto& [load, list] : readers) {
      for (std::size_t i = 1; i < list.size(); ++i) {
        if (drafts[list[i]]->finished.empty() == drafts[list[0]]->finished.empty()) join(list[0], list[i]);
      }
    }
    std::map<std::size_t, std::vector<Draft*>> groups;
    for (std::size_t i = 0; i < drafts.size(); ++i) groups[find(i)].push_back(drafts[i]);
    std::vector<std::vector<Draft*>> ordered;
    for (auto& [root, members] : groups) ordered.push_back(std::move(members));
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a[0]->node < b[0]->node; });
    return ordered;
  }

  /// Which reductions leave their partial results side by side.
  void number_reductions(const std::vector<Draft*>& group) {
    for (const Draft* draft : group) {
      if (draft->kind == Draft::Kind::reduce) group_of_reduction_[draft->node] = next_group_;
    }
    ++next_group_;
  }

  static bool is_special(const Draft& draft) {
    return draft.kind == Draft::Kind::scan || draft.kind == Draft::Kind::scatter;
  }

  static constexpr int no_source = -1;

  /// Finishing two reductions in one group needs one axis over their partials: they must come from the same group of
  /// the phase before and reduce the same axes there. Those that may be together have the same number; no_source: none
  /// other.
  [[nodiscard]] std::map<NodeId, int> sources_of(const std::map<NodeId, std::size_t>& finish_at) const {
    std::map<std::tuple<int, std::vector<int>, std::vector<int>>, int> numbers;
    std::map<NodeId, int> source_of;
    for (const auto& [node, at] : finish_at) {
      const auto group = group_of_reduction_.find(node);
      source_of[node] = group == group_of_reduction_.end()
                            ? no_source
                            : numbers
                                  .try_emplace({group->second, analysis_.reduced(node), analysis_.of(Value{node, 0})},
                                               static_cast<int>(numbers.size()))
                                  .first->second;
    }
    return source_of;
  }

  template <class Join>
  static void join_finishes(const std::map<NodeId, std::size_t>& finish_at, const std::map<NodeId, int>& source_of,
                            const Join& join) {
    std::map<int, std::size_t> first;
    for (const auto& [node, at] : finish_at) {
      if (source_of.at(node) != no_source) join(first.try_emplace(source_of.at(node), at).first->second, at);
    }
  }

  static void drop_empty_phases(KernelStructure& structure) {
    std::erase_if(structure.phases, [](const PhaseStructure& phase) { return phase.groups.empty(); });
  }

  const Graph& graph_;
  const AxisAnalysis& analysis_;
  StructureOptions options_;
  std::vector<bool> gathered_;  ///< per node
  std::vector<int> phase_;
  std::vector<Draft> drafts_;
  std::map<NodeId, int> group_of_reduction_;
  std::map<int, int> earliest_output_;
  std::map<NodeId, int> earliest_node_;
  std::vector<int> walked_;  ///< per node: the last walk that met it
  int walk_ = 0;
  int next_group_ = 0;
  bool retry_ = false;
};

}  // namespace

bool gathers_any(const graph::Graph& graph, const AxisAnalysis& analysis, const StructureOptions& options) {
  return std::ranges::count(gathered_reductions(graph, analysis, options), true) > 0;
}

Result<KernelStructure> derive_structure(const Graph& graph, const AxisAnalysis& analysis,
                                         const StructureOptions& options) {
  return StructureBuilder(graph, analysis, options).build();
}

}  // namespace stitch::kernel
