#pragma once

#include <vector>

#include "graph/builder.h"

/// A recurrence that is written out turn by turn, as exporters without loops do it.
namespace stitch::graph::testing {

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

}  // namespace stitch::graph::testing
