#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/random.h"
#include "graph/literal.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

/// Loops over recurrent cells, as models bring them: a turn takes its slice of a sequence, a state that it hands on,
/// and writes its slice of the results.
namespace stitch::kernel::test {

struct RecurrentShape {
  std::int64_t turns = 5, rows = 12, width = 8;
  bool reversed = false;  ///< turn t takes what belongs to turns - 1 - t
  DType dtype = DType::f32;
};

/// What a loop is made of. Carried value 0 is the counter.
class LoopBuilder {
 public:
  explicit LoopBuilder(RecurrentShape shape) : shape_(shape) {
    counter_ = carry(outside.scalar(DType::s32, 0));
    inside.at("index");
    index_ = shape.reversed ? inside.binary(Op::subtract, scalar(shape.turns - 1), counter_) : counter_;
  }

  Builder outside, inside;

  /// A carried value that begins with `start`; its parameter in the body.
  Value carry(Value start) {
    starts_.push_back(start);
    const Value parameter = inside.parameter(outside.dtype(start), outside.dims(start));
    handed_on_.push_back(parameter);
    parameters_.push_back(parameter);
    return parameter;
  }
  /// A parameter of the whole kernel that every turn reads.
  Value given(const Dims& dims) { return carry(outside.parameter(shape_.dtype, dims)); }
  /// This turn's part of a sequence [turns, …] that the kernel is given.
  Value slice_of(const Dims& dims) {
    Dims whole = dims, sizes = dims;
    whole.insert(whole.begin(), shape_.turns);
    sizes.insert(sizes.begin(), 1);
    const Value sequence = given(whole);
    std::vector<Value> operands(dims.size() + 2, scalar(0));
    operands[0] = sequence;
    operands[1] = index_;
    return inside.reshape(inside.add(Op::dynamic_slice, operands, graph::DynamicSliceAttributes{sizes}), dims);
  }
  /// What the next turn gets of a carried value, by its parameter.
  void hand_on(Value parameter, Value next) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i] == parameter) handed_on_[i] = next;
    }
  }
  /// A result [turns, …] of which the turn writes its slice.
  void stack(Value part) {
    Dims dims = inside.dims(part), one = dims;
    dims.insert(dims.begin(), shape_.turns);
    one.insert(one.begin(), 1);
    const Value whole = carry(outside.filled(inside.dtype(part), dims, 0));
    std::vector<Value> operands(dims.size() + 2, scalar(0));
    operands[0] = whole;
    operands[1] = inside.reshape(part, one);
    operands[2] = index_;
    hand_on(whole, inside.add(Op::dynamic_update_slice, operands, graph::UpdateAttributes{}));
    wanted_.push_back(whole);
  }
  /// The number of the turn.
  [[nodiscard]] Value counter() const { return counter_; }
  void want(Value parameter) { wanted_.push_back(parameter); }

  using After = std::function<std::vector<Value>(Builder&, const std::vector<Value>&)>;
  /// The loop with its counter handed on, and the wanted results, or what `after` makes of them.
  Graph finish(const After& after = {}) {
    hand_on(counter_, inside.binary(Op::add, counter_, scalar(1)));
    Builder condition;
    const Value first = condition.parameter(DType::s32, {});
    for (std::size_t i = 1; i < starts_.size(); ++i)
      condition.parameter(outside.dtype(starts_[i]), outside.dims(starts_[i]));
    const Value limit = condition.scalar(DType::s32, shape_.turns);
    const auto test = std::make_shared<const Graph>(
        test::finished(condition, {condition.compare(graph::Comparison::lt, first, limit)}));
    const auto body = std::make_shared<const Graph>(test::finished(inside, handed_on_));
    const Value loop = outside.add(Op::loop, starts_, graph::LoopAttributes{shape_.turns}, {body, test});
    std::vector<Value> results;
    for (const Value parameter : wanted_) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i] == parameter) results.push_back({loop.node, static_cast<std::int32_t>(i)});
      }
    }
    return test::finished(outside, after ? after(outside, results) : results);
  }

  Value scalar(std::int64_t value) { return inside.scalar(DType::s32, value); }
  Value dot(Value lhs, Value rhs, std::int64_t rhs_contracting = 0) {
    return inside.dot(lhs, rhs, {{}, {}, {1}, {rhs_contracting}, shape_.dtype});
  }

 private:
  RecurrentShape shape_;
  Value counter_, index_;
  std::vector<Value> starts_, parameters_, handed_on_, wanted_;
};

/// h' = (1 - z) h + z tanh(x_n + r (h U)_n), gates z and r from slices of one contraction: GRU (Cho et al., EMNLP 2014)
/// as cuDNN has it. Stacks h; its last value is a result too.
inline Graph gru_and(const RecurrentShape& s, const LoopBuilder::After& after) {
  LoopBuilder l(s);
  Builder& b = l.inside;
  const Dims dims = {s.rows, s.width};
  const Value h = l.carry(l.outside.parameter(s.dtype, dims));
  const Value x = l.slice_of({s.rows, 3 * s.width});
  const Value hidden = l.dot(h, l.given({s.width, 3 * s.width}));
  const auto gate = [&](Value from, std::int64_t n) {
    return b.slice(from, {0, n * s.width}, {s.rows, (n + 1) * s.width});
  };
  const auto sum = [&](std::int64_t n) { return b.binary(Op::add, gate(x, n), gate(hidden, n)); };
  const Value z = b.unary(Op::logistic, sum(0)), r = b.unary(Op::logistic, sum(1));
  const Value n = b.unary(Op::tanh, b.binary(Op::add, gate(x, 2), b.binary(Op::multiply, r, gate(hidden, 2))));
  const Value next = b.binary(Op::add, b.binary(Op::multiply, b.binary(Op::subtract, b.filled(s.dtype, dims, 1), z), h),
                              b.binary(Op::multiply, z, n));
  l.hand_on(h, next);
  l.stack(next);
  l.want(h);
  return l.finish(after);
}

inline Graph gru(const RecurrentShape& s) { return gru_and(s, {}); }

/// The reset gate before the contraction, tanh(x_n + (r h) V): two contractions one after the other in a turn.
inline Graph gru_reset_before(const RecurrentShape& s) {
  LoopBuilder l(s);
  Builder& b = l.inside;
  const Dims dims = {s.rows, s.width};
  const Value h = l.carry(l.outside.filled(s.dtype, dims, 0.5));
  const Value x = l.slice_of(dims);
  const Value r = b.unary(Op::logistic, b.binary(Op::add, x, l.dot(h, l.given({s.width, s.width}))));
  const Value n =
      b.unary(Op::tanh, b.binary(Op::add, x, l.dot(b.binary(Op::multiply, r, h), l.given({s.width, s.width}))));
  const Value next = b.binary(Op::add, b.binary(Op::multiply, r, h), n);
  l.hand_on(h, next);
  l.want(h);
  return l.finish();
}

/// LSTM: two states, gates from one contraction, a mask that holds rows of short sequences back.
inline Graph lstm(const RecurrentShape& s) {
  LoopBuilder l(s);
  Builder& b = l.inside;
  const Dims dims = {s.rows, s.width};
  const Value h = l.carry(l.outside.filled(s.dtype, dims, 0)), c = l.carry(l.outside.parameter(s.dtype, dims));
  const Value x = l.slice_of({s.rows, 4 * s.width}), mask = l.slice_of({s.rows});
  const Value bias = b.broadcast(l.given({4 * s.width}), {s.rows, 4 * s.width}, {1});
  const Value all = b.binary(Op::add, b.binary(Op::add, x, bias), l.dot(h, l.given({s.width, 4 * s.width})));
  const auto gate = [&](std::int64_t n) { return b.slice(all, {0, n * s.width}, {s.rows, (n + 1) * s.width}); };
  const Value cell = b.binary(Op::add, b.binary(Op::multiply, b.unary(Op::logistic, gate(1)), c),
                              b.binary(Op::multiply, b.unary(Op::logistic, gate(0)), b.unary(Op::tanh, gate(2))));
  const Value next = b.binary(Op::multiply, b.unary(Op::logistic, gate(3)), b.unary(Op::tanh, cell));
  const Value on = b.broadcast(b.compare(graph::Comparison::gt, mask, b.filled(s.dtype, {s.rows}, 0)), dims, {0});
  l.hand_on(h, b.select(on, next, h));
  l.hand_on(c, b.select(on, cell, c));
  l.stack(next);
  l.want(c);
  return l.finish();
}

/// The way back through a cell: gradients of gates, joined and contracted with the weights' transpose.
inline Graph cell_backward(const RecurrentShape& s) {
  LoopBuilder l(s);
  Builder& b = l.inside;
  const Dims dims = {s.rows, s.width};
  const Value d = l.carry(l.outside.filled(s.dtype, dims, 0));
  const Value dy = b.binary(Op::add, d, l.slice_of(dims));
  const Value z = l.slice_of(dims), n = l.slice_of(dims);
  const Value dz = b.binary(Op::multiply, dy, n);
  const Value dn = b.binary(Op::multiply, b.binary(Op::multiply, dy, z),
                            b.binary(Op::subtract, b.filled(s.dtype, dims, 1), b.binary(Op::multiply, n, n)));
  const Value gates = b.concatenate({dz, dn}, 1);
  l.hand_on(d, b.binary(Op::add, b.binary(Op::multiply, dy, z), l.dot(gates, l.given({s.width, 2 * s.width}), 1)));
  l.stack(gates);
  l.want(d);
  return l.finish();
}

/// A loop over a random graph: what has a parameter's type may take its place in the next turn.
inline Graph random_loop(std::uint64_t seed) {
  graph::test::RandomGraphOptions options;
  options.seed = seed;
  options.operators = 8;
  options.parameters = 3;
  options.dtypes = {DType::f32};
  options.dot = seed % 2 * 3;
  options.scan = seed % 3 == 0 ? 2 : 0;
  options.scatter = seed % 5 == 0 ? 2 : 0;
  Graph body = graph::test::random_graph(options);
  Random random(seed);
  std::vector<Value> results;
  for (const NodeId parameter : body.parameters()) {
    std::vector<Value> same;
    for (NodeId id = 0; id < body.size(); ++id) {
      if (body.node(id).results.size() == 1 && body.node(id).type() == body.node(parameter).type())
        same.push_back({id, 0});
    }
    results.push_back(same[random.below(same.size())]);
  }
  const auto counter = body.add(Op::parameter, {}, graph::ParameterAttributes{{DType::s32, {}}});
  const auto one = body.add(Op::constant, {}, graph::splat({DType::s32, {}}, 1));
  results.push_back(*body.add(Op::add, {*counter, *one}));
  body.set_results(results);
  Builder condition, outer;
  std::vector<Value> starts;
  for (const NodeId parameter : body.parameters()) {
    const graph::TensorType& type = body.node(parameter).type();
    const Value last = condition.parameter(type.dtype, type.dims);
    const bool counts = parameter == counter->node;
    starts.push_back(counts ? outer.scalar(DType::s32, 0) : outer.parameter(type.dtype, type.dims));
    if (counts) {
      const Value test = condition.compare(graph::Comparison::lt, last, condition.scalar(DType::s32, 3));
      const std::vector<std::shared_ptr<const Graph>> regions = {
          std::make_shared<const Graph>(body), std::make_shared<const Graph>(finished(condition, {test}))};
      const Value loop = outer.add(Op::loop, starts, graph::LoopAttributes{3}, regions);
      std::vector<Value> wanted;
      for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
        if (results[i] != Value{body.parameters()[i], 0}) wanted.push_back({loop.node, static_cast<std::int32_t>(i)});
      }
      return finished(outer, wanted);
    }
  }
  throw std::logic_error("no counter");
}

}  // namespace stitch::kernel::test
