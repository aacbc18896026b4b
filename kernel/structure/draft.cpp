#include "kernel/structure/draft.h"

#include <algorithm>
#include <utility>

#include "graph/in_place.h"
#include "graph/strided_view.h"
#include "graph/subgraph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

constexpr std::int64_t sector_bytes = 32;

class Drafter {
 public:
  Drafter(const Graph& graph, const AxisAnalysis& analysis, const PhaseAssignment& phases,
          const std::set<Value>& materialised, const std::map<int, int>& earliest_output)
      : graph_(graph),
        analysis_(analysis),
        phases_(phases),
        materialised_(materialised),
        earliest_output_(earliest_output) {
    for (std::size_t i = 0; i < graph.results().size(); ++i) outputs_[stored_as(graph.results()[i])].push_back(i);
  }

  std::vector<Draft> all() {
    const std::vector<bool> needed = needed_nodes();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[id]) continue;
      const Node& node = graph_.node(id);
      if (is_reduction(node.op)) draft_reduction(id);
      if (is_stored_only(node.op)) {
        draft_stored_only(id);
        continue;
      }
      for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
        const Value value{id, r};
        if (stored_by_scatter(value)) continue;
        if (materialised_.contains(value)) draft_keep(value);
        for (const int output : outputs_of(value)) draft_output(value, output);
      }
    }
    return std::move(drafts_);
  }

 private:
  /// Whether it is what a scatter's draft stores.
  [[nodiscard]] bool stored_by_scatter(Value value) const {
    const Node& node = graph_.node(value.node);
    if (node.op != Op::convert) return false;
    const NodeId from = node.operands[0].node;
    return graph_.node(from).op == Op::scatter && stored_of_scatter(graph_, from) == value;
  }

  [[nodiscard]] std::vector<bool> needed_nodes() {
    std::vector<bool> needed = graph::needed_for(graph_, graph_.results());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (needed[id]) used_.insert(graph_.node(id).operands.begin(), graph_.node(id).operands.end());
    }
    return needed;
  }

  /// Of a result that a scan's or sort's is, through reshapes: that of the scan, which has the same elements in the
  /// same order. A scan is only ever stored, and would be stored twice.
  [[nodiscard]] Value stored_as(Value result) const {
    const Value value = graph::without_reshapes(graph_, result);
    return walks_lines(graph_.node(value.node).op) ? value : result;
  }

  /// The kernel's results that a value is.
  [[nodiscard]] std::vector<int> outputs_of(Value value) const {
    const auto found = outputs_.find(value);
    return found == outputs_.end() ? std::vector<int>{} : found->second;
  }

  void draft_reduction(NodeId id) {
    Draft draft;
    draft.kind = Draft::Kind::reduce;
    draft.node = id;
    draft.value = graph_.node(id).operands[0];
    draft.phase = phases_.of(id);
    draft.axes = analysis_.of(draft.value);
    draft.global = phases_.is_global(id);
    drafts_.push_back(draft);
    if (!draft.global) return;
    Draft finish;
    finish.kind = Draft::Kind::finish;
    finish.node = id;
    finish.value = {id, 0};
    finish.phase = phases_.of(id) + 1;
    finish.axes = analysis_.of(finish.value);
    drafts_.push_back(finish);
  }

  /// One draft for all results of a scan or sort that something needs.
  void draft_lines(NodeId id) {
    Draft draft;
    const bool sorts = graph_.node(id).op == Op::sort;
    draft.kind = sorts ? Draft::Kind::sort : Draft::Kind::scan;
    draft.node = id;
    draft.phase = phases_.of(id);
    for (std::int32_t r = 0; r < std::ssize(graph_.node(id).results); ++r) {
      const std::vector<int> outputs = outputs_of({id, r});
      if (outputs.empty() && !used_.contains({id, r})) continue;
      draft.stored.emplace_back(r, outputs.empty() ? -1 : outputs.front());
    }
    draft.value = {id, draft.stored.front().first};
    // All of a line is sorted, of which the results may have a part.
    draft.axes = analysis_.of(sorts ? graph_.node(id).operands[0] : draft.value);
    drafts_.push_back(draft);
    for (const auto& [result, first] : draft.stored) {
      for (const int output : outputs_of({id, result})) {
        if (output != first) draft_output(graph_.results()[output], output);
      }
    }
  }

  void draft_stored_only(NodeId id) {
    if (walks_lines(graph_.node(id).op)) return draft_lines(id);
    Draft draft;
    draft.kind = Draft::Kind::scatter;
    draft.node = id;
    draft.value = stored_of_scatter(graph_, id);
    draft.phase = phases_.of(id);
    draft.axes = analysis_.of(Value{id, 0});
    const std::vector<int> outputs = outputs_of(draft.value);
    draft.output = outputs.empty() ? -1 : outputs.front();
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
    for (const int output : outputs) {
      if (output != draft.output) draft_output(draft.value, output);
    }
  }

  void draft_keep(Value value) {
    Draft draft;
    draft.kind = Draft::Kind::keep;
    draft.node = value.node;
    draft.value = value;
    draft.phase = phases_.finished(value.node);
    draft.axes = analysis_.of(value);
    drafts_.push_back(draft);
  }

  void draft_output(Value value, int output) {
    Draft draft;
    draft.kind = Draft::Kind::output;
    draft.node = value.node;
    draft.value = value;
    draft.output = output;
    draft.phase = phases_.finished(value.node);
    if (const auto found = earliest_output_.find(output); found != earliest_output_.end())
      draft.phase = std::max(draft.phase, found->second);
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
           std::ranges::all_of(node.operands, [&](Value operand) {
             return graph_.type(operand).dims == part.dims && !is_made_of_a_reduction(operand);
           });
  }

  /// Whether a value is a reduction's result, or a few operators on one: what has it stores it where it belongs, while
  /// together with others it would be read from memory in a later phase.
  [[nodiscard]] bool is_made_of_a_reduction(Value value, int depth = 0) const {
    constexpr int deepest = 6;
    const Node& node = graph_.node(value.node);
    if (is_reduction(node.op)) return true;
    const bool passes = graph::is_elementwise(node.op) || node.op == Op::reshape;
    return passes && depth < deepest && std::ranges::any_of(node.operands, [&](Value operand) {
             return is_made_of_a_reduction(operand, depth + 1);
           });
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
      part.phase = std::max(draft.phase, phases_.finished(operand.node));
      draft_pieces(part, at);
      at[dimension] += graph_.type(operand).dims[dimension];
    }
  }

  const Graph& graph_;
  const AxisAnalysis& analysis_;
  const PhaseAssignment& phases_;
  const std::set<Value>& materialised_;
  const std::map<int, int>& earliest_output_;
  std::map<Value, std::vector<int>> outputs_;  ///< the kernel's results that each value is
  std::set<Value> used_;                       ///< operands of needed nodes
  std::vector<Draft> drafts_;
};

}  // namespace

std::vector<Draft> make_drafts(const Graph& graph, const AxisAnalysis& analysis, const PhaseAssignment& phases,
                               const std::set<Value>& materialised, const std::map<int, int>& earliest_output) {
  return Drafter(graph, analysis, phases, materialised, earliest_output).all();
}

}  // namespace stitch::kernel
