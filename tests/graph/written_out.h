#pragma once

#include <vector>

#include "graph/builder.h"

/// A recurrence that is written out turn by turn, as exporters without loops do it.
namespace stitch::graph::test {

struct WrittenOut {
  std::int64_t turns = 96, rows = 2, columns = 3;
  bool backward = false;         ///< from the last place of the sequence to the first
  bool final_state = false;      ///< the last state is a result, too
  bool exchanged_first = false;  ///< the first turn has the operands of its sum the other way round
  bool other_weight = false;     ///< one turn in the middle has a weight of its own
  bool weight_of_rows = false;   ///< weights are a number for each row and column, not for columns alone
};

/// Two states: a running maximum, and a sum that is scaled by how much the maximum grows; as in a streaming softmax.
inline std::vector<Value> write_out(Builder& b, const WrittenOut& how) {
  constexpr DType f32 = DType::f32;
  const Dims dims{how.rows, how.columns}, part{how.rows, 1, how.columns}, whole{how.rows, how.turns, how.columns};
  const Value keys = b.parameter(f32, whole), values = b.parameter(f32, whole);
  const Dims weights = how.weight_of_rows ? dims : Dims{how.columns};
  const Value weight = b.parameter(f32, weights), other = b.parameter(f32, weights);
  Value top = b.filled(f32, dims, -1e30), sum = b.filled(f32, dims, 0);
  std::vector<Value> outputs(how.turns);
  for (std::int64_t turn = 0; turn < how.turns; ++turn) {
    const std::int64_t place = how.backward ? how.turns - 1 - turn : turn;
    const auto at = [&](Value x) {
      return b.reshape(b.slice(x, {0, place, 0}, {how.rows, place + 1, how.columns}), dims);
    };
    const bool differs = how.other_weight && turn == how.turns / 2;
    const Value decay = b.broadcast_to(differs ? other : weight, dims);
    const bool exchanged = how.exchanged_first && turn == 0;
    const Value decayed = exchanged ? b.binary(Op::add, decay, top) : b.binary(Op::add, top, decay);
    const Value grown = b.binary(Op::maximum, decayed, at(keys));
    const Value old_part = b.unary(Op::exp, b.binary(Op::subtract, decayed, grown));
    const Value new_part = b.unary(Op::exp, b.binary(Op::subtract, at(keys), grown));
    const Value scaled = b.binary(Op::multiply, old_part, sum);
    sum = b.binary(Op::add, scaled, b.binary(Op::multiply, new_part, at(values)));
    top = grown;
    outputs[place] = b.reshape(b.unary(Op::tanh, sum), part);
  }
  std::vector<Value> results{b.concatenate(outputs, 1)};
  if (how.final_state) results.push_back(top);
  return results;
}

/// A recurrent layer, h(t) = tanh(x(t)·W + h(t−1)·U), written out turn by turn.
struct WrittenCell {
  std::int64_t turns = 24, rows = 3, units = 4;
  bool input_product = true;  ///< without: x(t) is what is added
  bool gradients = false;     ///< by x, W and U, of what `gradient` says of every state; written out, too
  bool scores = false;        ///< states are multiplied with themselves, as in a layer with attention
};

inline Value product(Builder& b, Value lhs, std::int64_t lhs_axis, Value rhs, std::int64_t rhs_axis) {
  DotAttributes how;
  how.lhs_contracting = {lhs_axis};
  how.rhs_contracting = {rhs_axis};
  return b.dot(lhs, rhs, how);
}

inline std::vector<Value> write_out(Builder& b, const WrittenCell& how) {
  constexpr DType f32 = DType::f32;
  const Dims dims{how.rows, how.units}, part{1, how.rows, how.units}, whole{how.turns, how.rows, how.units};
  const Value inputs = b.parameter(f32, whole), weight = b.parameter(f32, {how.units, how.units}),
              recurrent = b.parameter(f32, {how.units, how.units});
  const auto at = [&](Value x, std::int64_t turn) {
    return b.reshape(b.slice(x, {turn, 0, 0}, {turn + 1, how.rows, how.units}), dims);
  };
  const Value start = b.filled(f32, dims, 0.25);
  std::vector<Value> states, outputs;
  for (std::int64_t turn = 0; turn < how.turns; ++turn) {
    const Value before = turn == 0 ? start : states.back(), x = at(inputs, turn);
    Value handed_on = product(b, before, 1, recurrent, 0);
    if (how.scores) handed_on = product(b, product(b, before, 1, before, 1), 1, handed_on, 0);
    states.push_back(
        b.unary(Op::tanh, b.binary(Op::add, how.input_product ? product(b, x, 1, weight, 0) : x, handed_on)));
    outputs.push_back(b.reshape(states.back(), part));
  }
  if (!how.gradients) return {b.concatenate(outputs, 0)};
  const Value gradient = b.parameter(f32, whole), one = b.filled(f32, dims, 1);
  std::vector<Value> by_inputs(how.turns);
  Value later, by_weight, by_recurrent;
  for (std::int64_t turn = how.turns - 1; turn >= 0; --turn) {
    const bool last = turn == how.turns - 1;
    const Value state = states[turn], before = turn == 0 ? start : states[turn - 1];
    Value by_state = at(gradient, turn);
    if (!last) by_state = b.binary(Op::add, by_state, product(b, later, 1, recurrent, 1));
    later = b.binary(Op::multiply, by_state, b.binary(Op::subtract, one, b.binary(Op::multiply, state, state)));
    by_inputs[turn] = b.reshape(product(b, later, 1, weight, 1), part);
    const Value w = product(b, at(inputs, turn), 0, later, 0), u = product(b, before, 0, later, 0);
    by_weight = last ? w : b.binary(Op::add, by_weight, w);
    by_recurrent = last ? u : b.binary(Op::add, by_recurrent, u);
  }
  return {b.concatenate(outputs, 0), b.concatenate(by_inputs, 0), by_weight, by_recurrent};
}

}  // namespace stitch::graph::test
