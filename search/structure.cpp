#include "search/structure.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/in_place.h"
#include "search/holding.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Extent given to the axis over partial results; the mapping of the phase before decides how many there are.
constexpr std::int64_t partial_extent = 1 << 20;

/// Sharing a load smaller than this is no reason for two anchors to share a mapping.
constexpr std::int64_t shared_load_elements = 1024;

constexpr std::int64_t sector_bytes = 32;

/// Buffers that the groups of a kernel name, each group its own: with twice as many as a device passes as parameters
/// (search/legality), a structure is not worth completing.
constexpr std::size_t most_buffers = 1 << 13;

bool is_reduction(Op op) { return op == Op::reduce || op == Op::arg_reduce; }

/// Results are only ever read from memory.
bool is_stored_only(Op op) { return op == Op::scan || op == Op::scatter; }

/// Updates that the elements of a scatter's result may look for themselves, in tests: fewer are not worth a phase.
constexpr std::int64_t max_scatter_tests = std::int64_t{1} << 20;

bool subset(const std::vector<int>& a, const std::vector<int>& b) {
  return std::all_of(a.begin(), a.end(), [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

/// An anchor before its items exist.
struct Draft {
  enum class Kind { output, piece, update, reduce, finish, keep, scan, scatter, fill, add_updates };
  Kind kind = Kind::output;
  NodeId node = -1;
  Value value;                       ///< the value whose elements the anchor ranges over
  int output = -1;                   ///< result index, for output and piece
  std::vector<std::int64_t> offset;  ///< piece: where it starts in the output
  int phase = 0;
  std::vector<int> axes;                        ///< outermost first
  std::set<NodeId> local_reductions, finished;  ///< reductions of this phase that it needs
  std::set<NodeId> loads;                       ///< nodes whose large values it reads from memory
  bool global = false;                          ///< reduce: leaves partials
};

class StructureBuilder {
 public:
  StructureBuilder(const Graph& graph, const AxisAnalysis& analysis, StructureOptions options)
      : graph_(graph), analysis_(analysis), options_(std::move(options)) {}

  Result<KernelStructure> build() {
    for (int attempt = 0; attempt < 200; ++attempt) {
      retry_ = false;
      STITCH_ASSIGN(KernelStructure structure, try_build());
      if (!retry_) return structure;
    }
    return make_error(ErrorKind::constraint, "no order of phases computes this kernel");
  }

 private:
  Result<KernelStructure> try_build() {
    assign_phases();
    make_drafts();
    KernelStructure structure;
    scratch_of_.clear(), partials_of_.clear(), group_of_reduction_.clear();
    buffers_ = 0;
    stored_ = std::make_shared<StoredValues>();
    int last = 0;
    for (const Draft& draft : drafts_) last = std::max(last, draft.phase);
    for (int phase = 0; phase <= last; ++phase) {
      std::vector<Draft*> drafts;
      for (Draft& draft : drafts_) {
        if (draft.phase == phase) drafts.push_back(&draft);
      }
      structure.phases.emplace_back();
      for (Draft* draft : drafts) find_needs(*draft);
      if (retry_) return structure;
      const std::vector<std::vector<Draft*>> groups = form_groups(drafts);
      if (retry_) return structure;
      // All that is blocked in this phase is found at once: packed kernels have hundreds of groups.
      for (const std::vector<Draft*>& members : groups) {
        Result<GroupStructure> group = build_group(members, phase, structure);
        if (!group) return group.error();
        if (!retry_) structure.phases.back().groups.push_back(std::move(*group));
        if (buffers_ > most_buffers) return make_error(ErrorKind::constraint, "more than {} parameters", most_buffers);
      }
      if (retry_) return structure;
      record_stored(phase);
    }
    drop_empty_phases(structure);
    return structure;
  }

  // ---- phases -----------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_global(NodeId id) const {
    const auto axes = analysis_.reduced(id);
    return std::any_of(axes.begin(), axes.end(), [&](int axis) { return !options_.tile_axes.contains(axis); });
  }

  void assign_phases() {
    phase_.assign(static_cast<std::size_t>(graph_.size()), 0);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      int phase = 0;
      for (const Value operand : graph_.node(id).operands) {
        phase = std::max(phase, phase_[static_cast<std::size_t>(operand.node)] + finishing_delay(operand.node));
      }
      if (const auto found = earliest_node_.find(id); found != earliest_node_.end())
        phase = std::max(phase, found->second);
      phase_[static_cast<std::size_t>(id)] = phase;
    }
  }

  [[nodiscard]] int phase_of(NodeId id) const { return phase_[static_cast<std::size_t>(id)]; }

  // ---- drafts -----------------------------------------------------------------------------------------------

  void make_drafts() {
    drafts_.clear();
    std::vector<bool> needed(static_cast<std::size_t>(graph_.size()), false);
    for (const Value result : graph_.results()) needed[static_cast<std::size_t>(result.node)] = true;
    for (NodeId id = graph_.size(); id-- > 0;) {
      if (!needed[static_cast<std::size_t>(id)]) continue;
      for (const Value operand : graph_.node(id).operands) needed[static_cast<std::size_t>(operand.node)] = true;
    }
    std::map<Value, std::vector<int>> outputs;
    for (std::size_t i = 0; i < graph_.results().size(); ++i)
      outputs[graph_.results()[i]].push_back(static_cast<int>(i));

    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[static_cast<std::size_t>(id)]) continue;
      const Node& node = graph_.node(id);
      if (is_reduction(node.op)) draft_reduction(id);
      if (is_stored_only(node.op)) draft_stored_only(id, outputs);
      for (std::int32_t r = 0; r < static_cast<std::int32_t>(node.results.size()); ++r) {
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
    draft.kind = Draft::Kind::reduce, draft.node = id, draft.value = graph_.node(id).operands[0];
    draft.phase = phase_of(id), draft.axes = analysis_.of(draft.value), draft.global = is_global(id);
    drafts_.push_back(draft);
    if (!draft.global) return;
    Draft finish;
    finish.kind = Draft::Kind::finish, finish.node = id, finish.value = {id, 0};
    finish.phase = phase_of(id) + 1, finish.axes = analysis_.of(finish.value);
    drafts_.push_back(finish);
  }

  void draft_stored_only(NodeId id, const std::map<Value, std::vector<int>>& outputs) {
    Draft draft;
    draft.kind = graph_.node(id).op == Op::scan ? Draft::Kind::scan : Draft::Kind::scatter;
    draft.node = id, draft.value = {id, 0}, draft.phase = phase_of(id), draft.axes = analysis_.of(draft.value);
    const auto found = outputs.find(draft.value);
    draft.output = found == outputs.end() ? -1 : found->second.front();
    if (adds_atomically(id)) {
      // 16-bit values are summed in f32, in scratch memory; whoever wants them rounds them.
      if (accumulator_of(draft.value) != graph_.type(draft.value).dtype) draft.output = -1;
      draft.kind = Draft::Kind::fill;
      drafts_.push_back(draft);
      draft.kind = Draft::Kind::add_updates, ++draft.phase;
      draft.axes = analysis_.of(graph_.node(id).operands[2]);
    }
    drafts_.push_back(draft);
    for (const int output : found == outputs.end() ? std::vector<int>{} : found->second) {
      if (output != draft.output) draft_output(draft.value, output);
    }
  }

  void draft_keep(Value value) {
    Draft draft;
    draft.kind = Draft::Kind::keep, draft.node = value.node, draft.value = value;
    draft.phase = phase_of(value.node) + finishing_delay(value.node), draft.axes = analysis_.of(value);
    drafts_.push_back(draft);
  }

  [[nodiscard]] int finishing_delay(NodeId id) const {
    const Op op = graph_.node(id).op;
    if (is_stored_only(op)) return adds_atomically(id) ? 2 : 1;
    return is_reduction(op) && is_global(id) ? 1 : 0;
  }

  /// Whether a scatter fills its result in one phase and adds the updates with atomics in the next. Where the order of
  /// the updates matters, and for few updates, every element collects its own.
  [[nodiscard]] bool adds_atomically(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::scatter) return false;
    const graph::ReduceKind kind = node.as<graph::ScatterAttributes>().combiner;
    const graph::DType dtype = node.type().dtype;
    const bool integer = dtype == graph::DType::s32 || dtype == graph::DType::u32 || dtype == graph::DType::s64;
    const bool sum = kind == graph::ReduceKind::sum && (integer || graph::is_floating(dtype));
    const bool extreme = (kind == graph::ReduceKind::max || kind == graph::ReduceKind::min) && integer;
    if (!sum && !extreme) return false;
    std::int64_t rows = node.type().elements();
    const graph::Dims& update = graph_.type(node.operands[2]).dims;
    for (const std::int64_t d : node.as<graph::ScatterAttributes>().update_window_dims)
      rows /= std::max<std::int64_t>(update[static_cast<std::size_t>(d)], 1);
    return rows * update_count(id) > max_scatter_tests;
  }

  void draft_output(Value value, int output) {
    Draft draft;
    draft.kind = Draft::Kind::output, draft.node = value.node, draft.value = value, draft.output = output;
    draft.phase = phase_of(value.node) + finishing_delay(value.node);
    if (const auto found = earliest_output_.find(output); found != earliest_output_.end()) {
      draft.phase = std::max(draft.phase, found->second);
    }
    if (graph::updated_parameter(graph_, value)) {
      draft.kind = Draft::Kind::update, draft.axes = analysis_.of(graph_.node(value.node).operands[1]);
      drafts_.push_back(std::move(draft));
      return;
    }
    draft_pieces(draft, std::vector<std::int64_t>(graph_.type(value).dims.size(), 0));
  }

  /// Whether equal parts of a concatenation take turns within a sector of memory, as real and imaginary parts do.
  [[nodiscard]] bool is_interleaved(const Node& node) const {
    const graph::TensorType& part = graph_.type(node.operands.front());
    std::int64_t run = graph::byte_size(part.dtype);
    for (auto d = static_cast<std::size_t>(node.as<graph::ConcatenateAttributes>().dimension); d < part.dims.size();
         ++d)
      run *= part.dims[d];
    return node.operands.size() <= most_interleaved && run < sector_bytes &&
           std::ranges::all_of(node.operands, [&](Value operand) { return graph_.type(operand).dims == part.dims; });
  }

  /// A concatenation that is stored needs no selects: every part is written where it belongs. Interleaved parts stay
  /// together: by themselves each would write every sector, a few bytes at a time.
  void draft_pieces(Draft draft, const std::vector<std::int64_t>& offset) {
    const Node& node = graph_.node(draft.value.node);
    if (node.op != Op::concatenate || node.operands.size() > 64 || is_interleaved(node)) {
      draft.offset = offset, draft.axes = analysis_.of(draft.value);
      if (draft.value != graph_.results()[static_cast<std::size_t>(draft.output)]) draft.kind = Draft::Kind::piece;
      drafts_.push_back(std::move(draft));
      return;
    }
    const auto dimension = static_cast<std::size_t>(node.as<graph::ConcatenateAttributes>().dimension);
    std::vector<std::int64_t> at = offset;
    for (const Value operand : node.operands) {
      Draft part = draft;
      part.value = operand, part.node = operand.node;
      part.phase = std::max(draft.phase, phase_of(operand.node) + finishing_delay(operand.node));
      draft_pieces(part, at);
      at[dimension] += graph_.type(operand).dims[dimension];
    }
  }

  // ---- groups -----------------------------------------------------------------------------------------------

  /// Walks from an anchor down to what it reads, noting the reductions of this phase and the loads on the way.
  void find_needs(Draft& draft) {
    ++walk_;
    walked_.resize(static_cast<std::size_t>(graph_.size()), 0);
    std::vector<Value> open = draft_roots(draft);
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      const Node& node = graph_.node(value.node);
      if (node.op == Op::parameter || (!stored_->empty() && stored_->contains(value))) {
        if (graph_.type(value).elements() >= shared_load_elements) draft.loads.insert(value.node);
        continue;
      }
      if (std::exchange(walked_[static_cast<std::size_t>(value.node)], walk_) == walk_) continue;
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
      a = find(a), b = find(b);
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

  // ---- items ------------------------------------------------------------------------------------------------

  Result<GroupStructure> build_group(const std::vector<Draft*>& members, int phase, KernelStructure& structure) {
    GroupStructure group;
    std::vector<int> axes;
    for (const Draft* draft : members) merge_axes(axes, draft->axes);
    std::vector<std::int64_t> extents;
    for (const int axis : axes) extents.push_back(analysis_.axes()[static_cast<std::size_t>(axis)].extent);
    const auto finish =
        std::find_if(members.begin(), members.end(), [](const Draft* d) { return d->kind == Draft::Kind::finish; });
    if (finish != members.end()) {
      group.partial_axis = 0, group.partial_of = (*finish)->node;
      axes.insert(axes.begin(), static_cast<int>(analysis_.axes().size()));
      extents.insert(extents.begin(), partial_extent);
    }
    const auto scatter =
        std::find_if(members.begin(), members.end(), [](const Draft* d) { return d->kind == Draft::Kind::scatter; });
    if (scatter != members.end()) {
      // The updates are one more axis, which every element of the result loops over.
      axes.push_back(static_cast<int>(analysis_.axes().size()));
      extents.push_back(update_count((*scatter)->node));
    }
    if (axes.size() > 60) return make_error(ErrorKind::constraint, "a group with {} axes", axes.size());
    group.program = std::make_shared<ScalarProgram>(graph_, axes, extents);
    group.program->set_stored(stored_);
    // Finishes come first, then everything in topological order of the nodes; a store follows its reductions.
    std::vector<Draft*> order = members;
    std::stable_sort(order.begin(), order.end(), [](const Draft* a, const Draft* b) {
      const auto rank = [](const Draft* d) {
        return std::tuple(d->kind != Draft::Kind::finish, d->node, d->kind != Draft::Kind::reduce);
      };
      return rank(a) < rank(b);
    });
    for (const Draft* draft : order) {
      Result<Anchor> anchor = build_anchor(*draft, group, structure);
      if (!anchor) {
        if (!group.program->blocking()) return anchor.error();
        block(*draft, *group.program->blocking());
        return group;
      }
      group.anchors.push_back(std::move(*anchor));
      if (draft->kind == Draft::Kind::reduce) group_of_reduction_[draft->node] = next_group_;
    }
    ++next_group_;
    (void)phase;
    assign_stages(group);
    count_buffers(group);
    return group;
  }

  void count_buffers(const GroupStructure& group) {
    std::set<Buffer> named;
    for (const Item& item : group.program->items()) {
      if (item.kind == Item::Kind::load && item.buffer.kind != Buffer::Kind::table) named.insert(item.buffer);
    }
    buffers_ += named.size();
  }

  /// Puts the axes of `more` into `axes`, keeping both orders where they agree.
  static void merge_axes(std::vector<int>& axes, const std::vector<int>& more) {
    std::size_t at = 0;
    for (const int axis : more) {
      const auto found = std::find(axes.begin(), axes.end(), axis);
      if (found != axes.end()) {
        at = static_cast<std::size_t>(found - axes.begin()) + 1;
      } else {
        axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), axis);
        ++at;
      }
    }
  }

  static std::uint64_t mask_of(const ScalarProgram& program, const std::vector<int>& axes) {
    std::uint64_t mask = 0;
    for (const int axis : axes) mask |= std::uint64_t{1} << program.position(axis);
    return mask;
  }

  Result<Anchor> build_anchor(const Draft& draft, GroupStructure& group, KernelStructure& structure) {
    ScalarProgram& program = *group.program;
    Anchor anchor;
    anchor.node = draft.node, anchor.value = draft.value, anchor.axes = mask_of(program, draft.axes);
    anchor.dtype = graph_.type(draft.value).dtype;
    switch (draft.kind) {
      case Draft::Kind::reduce: return build_reduce(draft, program, structure, std::move(anchor));
      case Draft::Kind::finish: return build_finish(draft, group, std::move(anchor));
      case Draft::Kind::scan:
      case Draft::Kind::scatter: return build_special(draft, program, structure, std::move(anchor));
      case Draft::Kind::fill:
        return build_whole(draft, graph_.node(draft.node).operands[0], program, structure, std::move(anchor));
      case Draft::Kind::keep: return build_whole(draft, draft.value, program, structure, std::move(anchor));
      case Draft::Kind::update:
      case Draft::Kind::add_updates: return build_update(draft, program, structure, std::move(anchor));
      case Draft::Kind::output:
      case Draft::Kind::piece: break;
    }
    const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
    STITCH_ASSIGN(const ItemId item, program.item(draft.value, indices));
    anchor.items = {item};
    std::vector<Index> moved;
    for (std::size_t d = 0; d < indices.size(); ++d)
      moved.push_back(program.pool().offset(indices[d], draft.offset[d]));
    const graph::Dims& dims = graph_.type(graph_.results()[static_cast<std::size_t>(draft.output)]).dims;
    anchor.buffers = {Buffer{Buffer::Kind::output, draft.output}};
    anchor.addresses = {program.pool().linear(moved, graph::row_major_strides(dims))};
    return anchor;
  }

  Result<Anchor> build_reduce(const Draft& draft, ScalarProgram& program, KernelStructure& structure, Anchor anchor) {
    const Value operand = graph_.node(draft.node).operands[0];
    const std::vector<Index> indices = program.canonical_indices(analysis_, operand);
    STITCH_ASSIGN(const ItemId item, program.item(operand, indices));
    anchor.items = {item}, anchor.value = {draft.node, 0};
    anchor.reduced = mask_of(program, analysis_.reduced(draft.node));
    const std::vector<Index> kept = program.canonical_indices(analysis_, {draft.node, 0});
    if (graph_.node(draft.node).op == Op::arg_reduce) {
      // The position along the reduced dimension takes part in the reduction.
      const auto along = static_cast<std::size_t>(graph_.node(draft.node).as<graph::ArgReduceAttributes>().dimension);
      anchor.addresses = {indices[along]};
    }
    if (!draft.global) {
      anchor.kind = Anchor::Kind::reduce;
      program.set_reduced(draft.node, kept);
      return anchor;
    }
    anchor.kind = Anchor::Kind::partial;
    anchor.dtype = partial_dtype(graph_.node(draft.node), 0);
    anchor.buffers = partials_for(draft.node, structure);
    anchor.addresses.push_back(
        program.pool().linear(kept, graph::row_major_strides(graph_.node(draft.node).type().dims)));
    return anchor;
  }

  /// The partial results of an earlier phase, reduced over their axis.
  Result<Anchor> build_finish(const Draft& draft, GroupStructure& group, Anchor anchor) {
    ScalarProgram& program = *group.program;
    const Node& node = graph_.node(draft.node);
    const std::vector<Index> kept = program.canonical_indices(analysis_, {draft.node, 0});
    const Index element = program.pool().linear(kept, graph::row_major_strides(node.type().dims));
    const Index partial = program.axes().variables[static_cast<std::size_t>(group.partial_axis)];
    const Index address =
        program.pool().add(program.pool().scale(partial, std::max<std::int64_t>(node.type().elements(), 1)), element);
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const Buffer buffer = partials_of_.at(draft.node)[r];
      const Value origin{draft.node, static_cast<std::int32_t>(r)};
      anchor.items.push_back(program.load(buffer, partial_dtype(node, r), address, origin));
    }
    anchor.kind = Anchor::Kind::reduce;
    anchor.axes |= std::uint64_t{1} << group.partial_axis;
    anchor.reduced = std::uint64_t{1} << group.partial_axis;
    program.set_reduced(draft.node, kept);
    return anchor;
  }

  /// All of the draft's value, where later phases find it; its elements are those of `source` (itself, or what a
  /// scatter's updates will be added to).
  Result<Anchor> build_whole(const Draft& draft, Value source, ScalarProgram& program, KernelStructure& structure,
                             Anchor anchor) {
    const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
    STITCH_ASSIGN(const ItemId item, program.item(source, indices));
    anchor.items = {item};
    anchor.dtype = accumulator_of(draft.value);
    anchor.buffers = {buffer_of(draft, structure)};
    anchor.addresses = {program.pool().linear(indices, graph::row_major_strides(graph_.type(draft.value).dims))};
    return anchor;
  }

  /// The elements of an update, stored (dynamic-update-slice in place) or added (scatter) where they belong.
  Result<Anchor> build_update(const Draft& draft, ScalarProgram& program, KernelStructure& structure, Anchor anchor) {
    const Node& node = graph_.node(draft.node);
    const bool adds = draft.kind == Draft::Kind::add_updates;
    const Value update = node.operands[adds ? 2 : 1];
    const std::vector<Index> indices = program.canonical_indices(analysis_, update);
    STITCH_ASSIGN(const ScalarProgram::Target target,
                  adds ? program.scatter_target(draft.node, indices) : program.update_target(draft.node, indices));
    STITCH_ASSIGN(const ItemId item, program.item(update, indices, target.guard));
    anchor.kind = adds ? Anchor::Kind::atomic : Anchor::Kind::store;
    anchor.dtype = accumulator_of(draft.value);
    anchor.items = {item};
    anchor.guard = target.guard;
    anchor.buffers = {buffer_of(draft, structure)};
    anchor.addresses = {program.pool().linear(target.indices, graph::row_major_strides(node.type().dims))};
    return anchor;
  }

  Buffer buffer_of(const Draft& draft, KernelStructure& structure) {
    return draft.output >= 0 ? Buffer{Buffer::Kind::output, draft.output} : scratch_for(draft.value, structure);
  }

  Result<Anchor> build_special(const Draft& draft, ScalarProgram& program, KernelStructure& structure, Anchor anchor) {
    const Node& node = graph_.node(draft.node);
    const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
    STITCH_ASSIGN(const ItemId item, program.item(node.operands[0], indices));
    anchor.kind = draft.kind == Draft::Kind::scan ? Anchor::Kind::scan : Anchor::Kind::scatter;
    anchor.items = {item};
    if (draft.kind == Draft::Kind::scan) {
      anchor.reduced = mask_of(program, analysis_.reduced(draft.node));
    } else {
      const std::size_t updates = program.axes().axes.size() - 1;
      STITCH_ASSIGN(const ScalarProgram::ScatterTerm term,
                    program.scatter_term(draft.node, indices, program.axes().variables[updates]));
      anchor.items.push_back(term.hits);
      anchor.items.push_back(term.update);
      anchor.reduced = std::uint64_t{1} << updates;
      anchor.axes |= anchor.reduced;
    }
    anchor.buffers = {buffer_of(draft, structure)};
    anchor.addresses = {program.pool().linear(indices, graph::row_major_strides(node.type().dims))};
    return anchor;
  }

  [[nodiscard]] std::int64_t update_count(NodeId id) const {
    const Node& node = graph_.node(id);
    const graph::Dims& dims = graph_.type(node.operands[2]).dims;
    std::int64_t count = graph::element_count(dims);
    for (const std::int64_t d : node.as<graph::ScatterAttributes>().update_window_dims)
      count /= std::max<std::int64_t>(dims[static_cast<std::size_t>(d)], 1);
    return count;
  }

  static graph::DType partial_dtype(const Node& node, std::size_t result) {
    const graph::DType dtype = node.results[result].dtype;
    return result == 0 ? graph::info(dtype).accumulator : dtype;
  }

  /// The type in which a value lies in scratch memory.
  [[nodiscard]] graph::DType accumulator_of(Value value) const {
    const graph::DType dtype = graph_.type(value).dtype;
    return adds_atomically(value.node) ? graph::info(dtype).accumulator : dtype;
  }

  Buffer scratch_for(Value value, KernelStructure& structure) {
    const auto [found, fresh] = scratch_of_.try_emplace(value, static_cast<int>(structure.scratch.size()));
    if (fresh) {
      const graph::TensorType& type = graph_.type(value);
      structure.scratch.push_back({Scratch::Kind::value, value, accumulator_of(value), type.elements()});
    }
    return {Buffer::Kind::scratch, found->second};
  }

  std::vector<Buffer> partials_for(NodeId id, KernelStructure& structure) {
    const Node& node = graph_.node(id);
    std::vector<Buffer>& buffers = partials_of_[id];
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      buffers.push_back({Buffer::Kind::scratch, static_cast<int>(structure.scratch.size())});
      structure.scratch.push_back({Scratch::Kind::partials,
                                   {id, static_cast<std::int32_t>(r)},
                                   partial_dtype(node, r),
                                   std::max<std::int64_t>(node.results[r].elements(), 1)});
    }
    return buffers;
  }

  void assign_stages(GroupStructure& group) const {
    const ScalarProgram& program = *group.program;
    std::map<NodeId, int> reduction_stage;
    group.item_stage.assign(program.items().size(), 0);
    std::size_t done = 0;
    const auto stage_items = [&](ItemId last) {
      for (; done <= static_cast<std::size_t>(last); ++done) {
        const Item& item = program.items()[done];
        int stage = 0;
        if (item.kind == Item::Kind::reduced) stage = reduction_stage.at(item.origin.node) + 1;
        for (const ItemId operand : item.operands)
          stage = std::max(stage, group.item_stage[static_cast<std::size_t>(operand)]);
        if (item.guard >= 0) stage = std::max(stage, group.item_stage[static_cast<std::size_t>(item.guard)]);
        if (item.index >= 0) {
          for (const ItemId needed : program.items_of(item.index))
            stage = std::max(stage, group.item_stage[static_cast<std::size_t>(needed)]);
        }
        group.item_stage[done] = stage;
      }
    };
    for (Anchor& anchor : group.anchors) {
      for (const ItemId item : roots_of(program, anchor)) {
        stage_items(item);
        anchor.stage = std::max(anchor.stage, group.item_stage[static_cast<std::size_t>(item)]);
      }
      if (anchor.kind == Anchor::Kind::reduce) reduction_stage[anchor.node] = anchor.stage;
      group.stages = std::max(group.stages, anchor.stage + 1);
    }
    if (!program.items().empty()) stage_items(static_cast<ItemId>(program.items().size()) - 1);
  }

  /// What the phase left in memory, for the phases after it.
  void record_stored(int phase) {
    // The programs of this phase keep what they know.
    const auto known = std::make_shared<StoredValues>(*stored_);
    StoredValues& stored = *known;
    for (const Draft& draft : drafts_) {
      if (draft.phase != phase) continue;
      const graph::TensorType& type = graph_.type(draft.value);
      const Buffer output{Buffer::Kind::output, draft.output};
      switch (draft.kind) {
        case Draft::Kind::output:
        case Draft::Kind::update: stored[draft.value] = {output, type.dims, type.dtype}; break;
        case Draft::Kind::keep: stored.try_emplace(draft.value, in_scratch(draft.value)); break;
        case Draft::Kind::scan:
        case Draft::Kind::scatter:
        case Draft::Kind::add_updates:
          stored[draft.value] =
              draft.output >= 0 ? StoredValue{output, type.dims, type.dtype} : in_scratch(draft.value);
          break;
        case Draft::Kind::piece:
        case Draft::Kind::reduce:
        case Draft::Kind::finish:
        case Draft::Kind::fill: break;
      }
    }
    stored_ = known;
  }

  [[nodiscard]] StoredValue in_scratch(Value value) const {
    return {{Buffer::Kind::scratch, scratch_of_.at(value)}, graph_.type(value).dims, accumulator_of(value)};
  }

  static void drop_empty_phases(KernelStructure& structure) {
    std::erase_if(structure.phases, [](const PhaseStructure& phase) { return phase.groups.empty(); });
  }

  const Graph& graph_;
  const AxisAnalysis& analysis_;
  StructureOptions options_;
  std::vector<int> phase_;
  std::vector<Draft> drafts_;
  std::shared_ptr<const StoredValues> stored_;
  std::map<Value, int> scratch_of_;
  std::map<NodeId, std::vector<Buffer>> partials_of_;
  std::map<NodeId, int> group_of_reduction_;
  std::map<int, int> earliest_output_;
  std::map<NodeId, int> earliest_node_;
  std::vector<int> walked_;  ///< per node: the last walk that met it
  int walk_ = 0;
  std::size_t buffers_ = 0;  ///< named by the groups so far
  int next_group_ = 0;
  bool retry_ = false;
};

}  // namespace

bool GroupStructure::has_partials() const {
  return std::any_of(anchors.begin(), anchors.end(), [](const Anchor& a) { return a.kind == Anchor::Kind::partial; });
}

Result<KernelStructure> derive_structure(const Graph& graph, const AxisAnalysis& analysis,
                                         const StructureOptions& options) {
  return StructureBuilder(graph, analysis, options).build();
}

}  // namespace stitch::search
