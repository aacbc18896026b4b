#include "graph/passes/loops/loop_rebuild.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "graph/infer_checks.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/regions.h"

namespace stitch::graph {
namespace {

/// The body of the changed loop, under construction.
class BodyCopy {
 public:
  BodyCopy(const Rewriter& graph, const LoopTurns& turns, const LoopEdit& edit)
      : graph_(graph), turns_(turns), edit_(edit), from_(turns.body()), to_(from_.name), copies_(from_.size()) {}

  std::shared_ptr<const Graph> made() {
    add_parameters();
    add_nodes();
    std::vector<Value> results;
    for (std::size_t i = 0; i < turns_.carried(); ++i) {
      if (!edit_.removed[i]) results.push_back(copied(from_.results()[i]));
    }
    results.insert(results.end(), tensors_.begin(), tensors_.end());
    for (std::size_t i = 0; i < edit_.stacks.size(); ++i) results.push_back(filled(i));
    Result<Graph> body = to_.finish(std::move(results));
    assert(body.ok() && "types follow from those of the old body");
    return std::make_shared<const Graph>(std::move(*body));
  }

 private:
  [[nodiscard]] Value copied(Value old) const {
    const Value first = copies_[old.node];
    return {first.node, first.result + old.result};
  }

  void add_parameters() {
    for (std::size_t i = 0; i < turns_.carried(); ++i) {
      const Node& old = from_.node(from_.parameters()[i]);
      parameters_.emplace_back();
      if (edit_.removed[i]) continue;
      parameters_.back() = to_.parameter(old.type().dtype, old.type().dims, old.name);
      copies_[from_.parameters()[i]] = parameters_.back();
    }
    for (const auto& slice : edit_.slices) {
      const TensorType& type = graph_.type(slice.tensor);
      tensors_.push_back(to_.parameter(type.dtype, type.dims, from_.node(slice.node).name));
    }
    for (const auto& stack : edit_.stacks) {
      const TensorType type = stack_type(turns_, stack.value);
      stacks_.push_back(to_.parameter(type.dtype, type.dims, from_.node(stack.value.node).name));
    }
  }

  /// Those that what stays depends on; what stood for the values removed has no copy to refer to.
  [[nodiscard]] std::vector<bool> live() const {
    std::vector<bool> live(from_.size(), false);
    for (std::size_t i = 0; i < turns_.carried(); ++i) {
      if (!edit_.removed[i]) live[from_.results()[i].node] = true;
    }
    for (const auto& stack : edit_.stacks) live[stack.value.node] = true;
    for (NodeId id = from_.size(); id-- > 0;) {
      if (!live[id] || slice_for(id)) continue;
      for (const Value& operand : from_.node(id).operands) live[operand.node] = true;
    }
    return live;
  }

  [[nodiscard]] std::optional<std::size_t> slice_for(NodeId id) const {
    const auto found =
        std::find_if(edit_.slices.begin(), edit_.slices.end(), [&](const auto& s) { return s.node == id; });
    if (found == edit_.slices.end()) return std::nullopt;
    return found - edit_.slices.begin();
  }

  void add_nodes() {
    const std::vector<bool> needed = live();
    for (NodeId id = 0; id < from_.size(); ++id) {
      const Node& node = from_.node(id);
      if (!needed[id] || node.op == Op::parameter) continue;
      to_.at(node.name, node.line);
      if (const auto slice = slice_for(id)) {
        copies_[id] = to_.reshape(sliced(*slice), node.type().dims);
        continue;
      }
      std::vector<Value> operands;
      for (const Value& operand : node.operands) operands.push_back(copied(operand));
      copies_[id] = to_.add(node.op, std::move(operands), node.attributes, node.regions);
    }
  }

  /// A start per dimension: the turn's place along the axis, 0 along the others.
  std::vector<Value> starts(std::size_t rank, const TurnAxis& axis) {
    const Value place = turns_.place(to_, parameters_, axis.backward);
    std::vector<Value> starts(rank, rank > 1 ? to_.scalar(to_.dtype(place), 0) : place);
    starts[axis.dimension] = place;
    return starts;
  }

  Value sliced(std::size_t i) {
    const TurnAxis& axis = edit_.slices[i].axis;
    Dims sizes = to_.dims(tensors_[i]);
    sizes[axis.dimension] = 1;
    std::vector<Value> operands = starts(sizes.size(), axis);
    operands.insert(operands.begin(), tensors_[i]);
    return to_.add(Op::dynamic_slice, std::move(operands), DynamicSliceAttributes{sizes});
  }

  Value filled(std::size_t i) {
    const auto& [value, backward] = edit_.stacks[i];
    const Node& node = from_.node(value.node);
    to_.at(node.name, node.line);
    Dims sizes = to_.dims(stacks_[i]);
    sizes[0] = 1;
    std::vector<Value> operands = starts(sizes.size(), {0, backward});
    operands.insert(operands.begin(), {stacks_[i], to_.reshape(copied(value), sizes)});
    return to_.add(Op::dynamic_update_slice, std::move(operands), UpdateAttributes{});
  }

  const Rewriter& graph_;
  const LoopTurns& turns_;
  const LoopEdit& edit_;
  const Graph& from_;
  Builder to_;
  std::vector<Value> copies_;      // by old node: its first result
  std::vector<Value> parameters_;  // by carried value
  std::vector<Value> tensors_, stacks_;
};

std::shared_ptr<const Graph> revised_condition(const Rewriter& graph, const LoopTurns& turns, const LoopEdit& edit) {
  const Graph& from = turns.condition();
  RegionCopy copy(from);
  for (std::size_t i = 0; i < turns.carried(); ++i) {
    const Node& old = from.node(from.parameters()[i]);
    if (!edit.removed[i]) copy.bind(from.parameters()[i], copy.add_parameter(old.type(), old.name));
  }
  for (const auto& slice : edit.slices) copy.add_parameter(graph.type(slice.tensor), {});
  for (const auto& stack : edit.stacks) copy.add_parameter(stack_type(turns, stack.value), {});
  for (std::size_t i = 0; i < turns.carried(); ++i) {
    const NodeId old = from.parameters()[i];
    if (edit.removed[i]) copy.bind(old, copy.add_zeros(from.node(old).type()));  // read by nothing
  }
  return copy.finish(from.results());
}

}  // namespace

TensorType stack_type(const LoopTurns& turns, Value value) {
  const TensorType& type = turns.body().type(value);
  return {type.dtype, joined({turns.count()}, without_units(type.dims))};
}

RebuiltLoop rebuild(Rewriter& graph, const LoopTurns& turns, const LoopEdit& edit) {
  RebuiltLoop loop;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < turns.carried(); ++i) {
    loop.position.push_back(edit.removed[i] ? -1 : static_cast<std::int32_t>(operands.size()));
    if (!edit.removed[i]) operands.push_back(turns.loop().operands[i]);
  }
  for (const auto& slice : edit.slices) operands.push_back(slice.tensor);
  loop.first_stack = operands.size();
  for (const auto& stack : edit.stacks) operands.push_back(graph.filled(stack_type(turns, stack.value), 0));
  loop.first = graph.add(Op::loop, std::move(operands), LoopAttributes{turns.count()},
                         {BodyCopy(graph, turns, edit).made(), revised_condition(graph, turns, edit)});
  return loop;
}

}  // namespace stitch::graph
