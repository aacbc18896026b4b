#include "graph/passes/unrolled/rolled_loop.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

using TurnOperand = UnrolledLoop::Operand;
using TurnLine = UnrolledLoop::Line;

/// All turns of a line side by side along `axis`, which is a new dimension or one of the line's own.
struct TurnStack {
  std::size_t line = 0;
  std::size_t axis = 0;
  bool inserted = false;
  bool backward = false;
  auto operator<=>(const TurnStack&) const = default;
};
Dims stack_dims(Dims dims, const TurnStack& stack, std::int64_t turns) {
  if (stack.inserted) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(stack.axis), turns);
  } else {
    dims[stack.axis] = turns;
  }
  return dims;
}

/// Operands `first` to `first` + turns of a concatenation: all turns of a line.
struct TurnRun {
  std::size_t first = 0;
  TurnStack stack;
};

/// What of the turns is needed around the loop.
struct TurnOutputs {
  std::map<NodeId, std::vector<TurnRun>> runs;  ///< by concatenation
  std::set<std::size_t> lasts;                  ///< lines of which the last turn alone is read
  std::set<TurnStack> stacks;
};

/// A tensor of which every turn takes a slice, cut to what all turns take.
struct SlicedTensor {
  Value tensor;
  std::size_t dimension = 0;
  std::int64_t low = 0, extent = 0;  ///< of a turn along the dimension
  bool backward = false;
  auto operator<=>(const SlicedTensor&) const = default;
};

/// By node: its line and turn; -1 where it stays outside.
using TurnPlace = std::pair<int, std::int64_t>;
std::vector<TurnPlace> places_of(const Graph& graph, const UnrolledLoop& loop) {
  std::vector<TurnPlace> places(graph.size(), {-1, -1});
  for (std::size_t i = 0; i < loop.lines.size(); ++i) {
    if (!loop.lines[i].hands_on) continue;
    std::int64_t turn = 0;
    for (const NodeId id : loop.lines[i].nodes) {
      if (id >= 0) places[id] = {static_cast<int>(i), turn};
      ++turn;
    }
  }
  return places;
}

class OutputSearch {
 public:
  OutputSearch(const Graph& graph, const UnrolledLoop& loop)
      : graph_(graph), loop_(loop), place_(places_of(graph, loop)) {}

  TurnOutputs found() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (place_[id].first < 0) look_at(id);
    }
    for (const Value result : graph_.results()) need(result);
    for (const auto& [line, turns] : needed_) {
      if (turns == std::set<std::int64_t>{loop_.turns - 1}) {
        outputs_.lasts.insert(line);
      } else {
        outputs_.stacks.insert({line, 0, true, false});
      }
    }
    return std::move(outputs_);
  }

 private:
  void need(Value value) {
    const auto [line, turn] = place_[value.node];
    if (line >= 0) needed_[line].insert(turn);
  }

  void look_at(NodeId id) {
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.operands.size();) {
      const auto run = node.op == Op::concatenate ? run_at(node, i) : std::nullopt;
      if (run) {
        outputs_.runs[id].push_back(*run);
        outputs_.stacks.insert(run->stack);
        i += loop_.turns;
      } else {
        need(node.operands[i++]);
      }
    }
  }

  [[nodiscard]] std::optional<TurnRun> run_at(const Node& node, std::size_t first) const {
    const auto [line, turn] = place_[node.operands[first].node];
    if (line < 0 || (turn != 0 && turn != loop_.turns - 1)) return std::nullopt;
    if (static_cast<std::int64_t>(node.operands.size() - first) < loop_.turns) return std::nullopt;
    const bool backward = turn != 0;
    for (std::int64_t i = 0; i < loop_.turns; ++i) {
      const TurnPlace expected{line, backward ? turn - i : i};
      if (place_[node.operands[first + i].node] != expected) return std::nullopt;
    }
    const std::size_t axis = node.as<ConcatenateAttributes>().dimension;
    const bool inserted = graph_.type(node.operands[first]).dims[axis] != 1;
    return TurnRun{first, {static_cast<std::size_t>(line), axis, inserted, backward}};
  }

  const Graph& graph_;
  const UnrolledLoop& loop_;
  const std::vector<TurnPlace> place_;
  std::map<std::size_t, std::set<std::int64_t>> needed_;
  TurnOutputs outputs_;
};

class LoopWriter {
 public:
  LoopWriter(const Graph& graph, const UnrolledLoop& loop)
      : from_(graph),
        loop_(loop),
        outputs_(OutputSearch(graph, loop).found()),
        copies_(graph.size(), -1),
        place_(places_of(graph, loop)) {}

  Result<Graph> write() {
    to_.name = from_.name;
    to_.constraints = from_.constraints;
    mark();
    for (NodeId id = 0; id < from_.size(); ++id) {
      if (!dependent_[id]) STITCH_TRY(copy(id));
    }
    STITCH_TRY(write_loop());
    for (NodeId id = 0; id < from_.size(); ++id) {
      if (dependent_[id] && place_[id].first < 0) STITCH_TRY(copy(id));
    }
    for (const Value result : from_.results()) {
      STITCH_ASSIGN(const Value value, copied(result));
      to_.add_result(value);
    }
    if (error_) return *error_;
    return std::move(to_);
  }

 private:
  void mark() {
    dependent_.assign(from_.size(), false);
    for (NodeId id = 0; id < from_.size(); ++id) {
      dependent_[id] = place_[id].first >= 0;
      for (const Value operand : from_.node(id).operands) dependent_[id] = dependent_[id] || dependent_[operand.node];
    }
  }

  /// Adds an operator around the loop, with the name and line of the one that is being written.
  Value add(Op op, std::vector<Value> operands, Attributes attributes = {},
            std::vector<std::shared_ptr<const Graph>> regions = {}) {
    if (error_) return {};
    auto made = to_.add(op, std::move(operands), std::move(attributes), name_, line_, std::move(regions));
    if (!made) {
      error_ = made.error();
      return {};
    }
    return *made;
  }
  Value reshaped(Value x, const Dims& dims) {
    if (error_ || to_.type(x).dims == dims) return x;
    return add(Op::reshape, {x}, ReshapeAttributes{dims});
  }

  Status copy(NodeId id) {
    Node node = from_.node(id);
    name_ = node.name;
    line_ = node.line;
    const auto runs = outputs_.runs.find(id);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < node.operands.size();) {
      const TurnRun* run = runs == outputs_.runs.end() ? nullptr : run_at(runs->second, i);
      if (run != nullptr) {
        operands.push_back(joined(run->stack));
        i += loop_.turns;
        continue;
      }
      STITCH_ASSIGN(const Value operand, copied(node.operands[i]));
      operands.push_back(operand);
      ++i;
    }
    if (error_) return *error_;
    if (runs != outputs_.runs.end() && operands.size() == 1) {
      copies_[id] = operands[0].node;
      whole_[id] = operands[0];
      return {};
    }
    node.operands = std::move(operands);
    copies_[id] = to_.add_unchecked(std::move(node)).node;
    return {};
  }

  static const TurnRun* run_at(const std::vector<TurnRun>& runs, std::size_t first) {
    const auto found = std::ranges::find(runs, first, &TurnRun::first);
    return found == runs.end() ? nullptr : &*found;
  }

  /// A value of the old graph in the new one.
  Result<Value> copied(Value value) {
    if (const auto whole = whole_.find(value.node); whole != whole_.end()) return whole->second;
    const auto [line, turn] = place_[value.node];
    if (line < 0) return Value{copies_[value.node], value.result};
    if (outputs_.lasts.contains(line)) return lasts_.at(line);
    const auto known = turns_read_.find(value.node);
    if (known != turns_read_.end()) return known->second;
    const Value stack = stacks_.at({static_cast<std::size_t>(line), 0, true, false});
    Dims limits = to_.type(stack).dims, starts(limits.size(), 0);
    starts[0] = turn;
    limits[0] = turn + 1;
    const Dims strides(limits.size(), 1);
    const Value slice = add(Op::slice, {stack}, SliceAttributes{starts, limits, strides});
    const Value read = reshaped(slice, from_.type(value).dims);
    if (error_) return *error_;
    return turns_read_[value.node] = read;
  }

  /// A stack as its concatenation has it.
  Value joined(const TurnStack& stack) {
    Dims dims = from_.type({loop_.lines[stack.line].nodes[0], 0}).dims;
    dims[stack.axis] *= loop_.turns;
    return reshaped(stacks_.at(stack), dims);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  /// A value that the loop carries: begins with `value`, a value of the new graph.
  Value carry(Value value) {
    carried_.push_back(value);
    const TensorType type = error_ ? TensorType{} : to_.type(value);
    return body_.parameter(type.dtype, type.dims);
  }

  Status write_loop() {
    const Node& named = from_.node(loop_.lines.back().nodes.front());
    name_ = named.name;
    line_ = named.line;
    counter_ = carry(scalar(DType::s32, 0));
    results_.emplace_back(counter_, body_.binary(Op::add, counter_, body_.scalar(DType::s32, 1)));
    STITCH_TRY(carry_inputs());
    for (const TurnLine& line : loop_.lines) made_.push_back(turn_of(line));
    for (const auto& [key, parameter] : states_) results_.emplace_back(parameter, made_[key.first]);
    carry_outputs();
    return close_loop();
  }

  Value scalar(DType dtype, double value) {
    Builder builder;
    const Value made = builder.scalar(dtype, value);
    return add(Op::constant, {}, builder.graph().node(made.node).attributes);
  }
  Value filled(const TensorType& type) {
    const Value zero = scalar(type.dtype, 0);
    return type.dims.empty() ? zero : add(Op::broadcast, {zero}, BroadcastAttributes{type.dims, {}});
  }

  /// What the turns take in, in the order of carried values: states, invariants, sequences.
  Status carry_inputs() {
    for (const TurnLine& line : loop_.lines) {
      for (const TurnOperand& operand : line.operands) {
        if (operand.kind != TurnOperand::Kind::turn_before) continue;
        const std::pair<std::int32_t, Value> key{operand.line, operand.value};
        if (states_.contains(key)) continue;
        STITCH_ASSIGN(const Value first, copied(operand.value));
        states_[key] = carry(first);
      }
    }
    for (const TurnLine& line : loop_.lines) {
      if (line.advance) {
        const SlicedTensor key = sequence(line);
        if (sequences_.contains(key)) continue;
        STITCH_ASSIGN(const Value tensor, copied(key.tensor));
        const Value parameter = sequences_[key] = carry(cut(key, tensor));
        results_.emplace_back(parameter, parameter);
        continue;
      }
      for (const TurnOperand& operand : line.operands) {
        if (operand.kind != TurnOperand::Kind::invariant || invariants_.contains(operand.value)) continue;
        STITCH_ASSIGN(const Value value, copied(operand.value));
        const Value parameter = invariants_[operand.value] = carry(value);
        results_.emplace_back(parameter, parameter);
      }
    }
    return {};
  }

  [[nodiscard]] SlicedTensor sequence(const TurnLine& line) const {
    const auto [d, step] = *line.advance;
    const auto& first = from_.node(line.nodes.front()).as<SliceAttributes>();
    const auto& last = from_.node(line.nodes.back()).as<SliceAttributes>();
    return {line.operands[0].value, d, std::min(first.starts[d], last.starts[d]), std::abs(step), step < 0};
  }

  /// The part of a tensor that the turns take; where a turn takes several places, they get a dimension of their own.
  Value cut(const SlicedTensor& sequence, Value tensor) {
    if (error_) return {};
    Dims dims = to_.type(tensor).dims;
    const std::size_t d = sequence.dimension;
    const std::int64_t all = sequence.extent * loop_.turns;
    if (dims[d] != all) {
      Dims starts(dims.size(), 0);
      starts[d] = sequence.low;
      dims[d] = sequence.low + all;
      const Dims strides(dims.size(), 1);
      tensor = add(Op::slice, {tensor}, SliceAttributes{starts, dims, strides});
      dims[d] = all;
    }
    if (sequence.extent == 1) return tensor;
    dims[d] = sequence.extent;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(d), loop_.turns);
    return reshaped(tensor, dims);
  }

  // ---- its body -----------------------------------------------------------------------------------------------------

  Value place(bool backward) {
    if (!backward) return counter_;
    return body_.binary(Op::subtract, body_.scalar(DType::s32, loop_.turns - 1), counter_);
  }
  /// `first`, then a start per dimension: the turn's place along the axis, 0 along the others.
  std::vector<Value> with_starts(std::vector<Value> first, std::size_t rank, std::size_t axis, bool backward) {
    const Value zero = body_.scalar(DType::s32, 0);
    for (std::size_t d = 0; d < rank; ++d) first.push_back(d == axis ? place(backward) : zero);
    return first;
  }

  Value turn_of(const TurnLine& line) {
    const Node& node = from_.node(line.nodes.front());
    body_.at(node.name, node.line);
    if (line.advance) return next_of(line);
    std::vector<Value> operands;
    for (const TurnOperand& operand : line.operands) {
      switch (operand.kind) {
        case TurnOperand::Kind::this_turn: operands.push_back(made_[operand.line]); break;
        case TurnOperand::Kind::turn_before: operands.push_back(states_.at({operand.line, operand.value})); break;
        case TurnOperand::Kind::invariant: operands.push_back(invariants_.at(operand.value)); break;
      }
    }
    return body_.add(node.op, std::move(operands), node.attributes);
  }

  /// The turn's slice of a sequence.
  Value next_of(const TurnLine& line) {
    const SlicedTensor from = sequence(line);
    const Value tensor = sequences_.at(from);
    const std::size_t d = from.dimension;
    Dims sizes = body_.dims(tensor);
    sizes[d] = 1;
    const Value slice = body_.add(Op::dynamic_slice, with_starts({tensor}, sizes.size(), d, from.backward),
                                  DynamicSliceAttributes{sizes});
    if (from.extent > 1) sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
    const Value whole = body_.reshape(slice, sizes);
    SliceAttributes part = from_.node(line.nodes.front()).as<SliceAttributes>();
    part.starts[d] = 0;
    part.limits[d] = from.extent;
    const bool all = part.limits == sizes && std::ranges::count(part.starts, 0) == std::ssize(sizes) &&
                     std::ranges::count(part.strides, 1) == std::ssize(sizes);
    return all ? whole : body_.slice(whole, part.starts, part.limits, part.strides);
  }

  void carry_outputs() {
    for (const std::size_t line : outputs_.lasts) {
      const bool is_state = std::ranges::any_of(states_, [&](const auto& s) { return s.first.first == int(line); });
      if (!is_state) results_.emplace_back(carry(filled(from_.node(loop_.lines[line].nodes[0]).type())), made_[line]);
    }
    for (const TurnStack& stack : outputs_.stacks) {
      TensorType type = from_.node(loop_.lines[stack.line].nodes[0]).type();
      const Dims update = stack_dims(type.dims, stack, 1);
      type.dims = stack_dims(type.dims, stack, loop_.turns);
      const Value whole = carry(filled(type));
      const Value part = body_.reshape(made_[stack.line], update);
      const Value next =
          body_.add(Op::dynamic_update_slice, with_starts({whole, part}, update.size(), stack.axis, stack.backward),
                    UpdateAttributes{});
      results_.emplace_back(whole, next);
      written_[stack] = whole;
    }
  }

  Status close_loop() {
    // Carried values are the body's parameters in their order.
    std::ranges::sort(results_, {}, [](const auto& result) { return result.first.node; });
    std::vector<Value> handed_on;
    for (const auto& [parameter, result] : results_) handed_on.push_back(result);
    STITCH_ASSIGN(Graph body, body_.finish(handed_on));
    Builder condition;
    Value counter;
    for (const Value value : carried_) {
      const Value parameter = condition.parameter(to_.type(value).dtype, to_.type(value).dims);
      if (counter.node < 0) counter = parameter;
    }
    const Value turns = condition.scalar(DType::s32, static_cast<double>(loop_.turns));
    STITCH_ASSIGN(Graph test, condition.finish({condition.compare(Comparison::lt, counter, turns)}));
    if (error_) return *error_;
    const Value made =
        add(Op::loop, carried_, LoopAttributes{loop_.turns},
            {std::make_shared<const Graph>(std::move(body)), std::make_shared<const Graph>(std::move(test))});
    if (error_) return *error_;
    read_results(made);
    return {};
  }

  void read_results(Value made) {
    std::int32_t position = 0;
    std::map<Value, Value> result_of;  // by parameter of the body
    for (const auto& [parameter, result] : results_) result_of[parameter] = {made.node, position++};
    for (const std::size_t line : outputs_.lasts) {
      for (const auto& [parameter, result] : results_) {
        if (result == made_[line]) lasts_[line] = result_of[parameter];
      }
    }
    for (const TurnStack& stack : outputs_.stacks) stacks_[stack] = result_of[written_.at(stack)];
  }

  const Graph& from_;
  const UnrolledLoop& loop_;
  const TurnOutputs outputs_;
  Graph to_;
  std::optional<Error> error_;
  std::string name_;
  std::int32_t line_ = 0;
  std::vector<NodeId> copies_;
  std::map<NodeId, Value> whole_;  ///< concatenations of nothing but turns
  const std::vector<TurnPlace> place_;
  std::vector<bool> dependent_;  ///< by node: on a turn, or one of them
  std::map<NodeId, Value> turns_read_;
  std::map<std::size_t, Value> lasts_;
  std::map<TurnStack, Value> stacks_, written_;

  Builder body_;
  Value counter_;
  std::vector<Value> carried_;
  std::vector<Value> made_;                       ///< by line
  std::vector<std::pair<Value, Value>> results_;  ///< parameter of the body, what the turn makes of it
  std::map<std::pair<std::int32_t, Value>, Value> states_;
  std::map<Value, Value> invariants_;
  std::map<SlicedTensor, Value> sequences_;
};

}  // namespace

Result<Graph> rolled(const Graph& graph, const UnrolledLoop& loop) { return LoopWriter(graph, loop).write(); }

}  // namespace stitch::graph
