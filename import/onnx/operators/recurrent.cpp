// RNN, GRU and LSTM. The products with the inputs are taken for all steps at once; a loop carries the state and does
// the rest.
#include "import/onnx/operators/recurrent.h"

#include <algorithm>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/region.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// What all three operators have in common: T steps of batch B, state size H, G gates.
struct Layer {
  std::int64_t steps = 0, batch = 0, hidden = 0, gates = 0, directions = 1;
  std::string direction;
  bool batch_first = false;
  double clip = 0.0;  ///< 0: none
  std::vector<Activation> activations;
};

Result<Layer> read_layer(Call& c, std::int64_t gates, const std::vector<std::string>& defaults) {
  Layer l;
  l.gates = gates;
  STITCH_TRY(c.need_rank(0, 3, 3));
  STITCH_TRY(c.need_rank(1, 3, 3));
  STITCH_TRY(c.need_rank(2, 3, 3));
  STITCH_ASSIGN(l.direction, c.node.text("direction", "forward"));
  if (l.direction != "forward" && l.direction != "reverse" && l.direction != "bidirectional") {
    return Call::wrong("attribute 'direction' is '{}'", l.direction);
  }
  l.directions = l.direction == "bidirectional" ? 2 : 1;
  STITCH_ASSIGN(const std::int64_t layout, c.node.integer("layout", 0));
  l.batch_first = layout != 0;
  const Dims& x = c.dims(c.in(0));
  l.steps = x[l.batch_first ? 1 : 0];
  l.batch = x[l.batch_first ? 0 : 1];
  l.hidden = c.dims(c.in(2))[2];
  STITCH_ASSIGN(const std::int64_t stated, c.node.integer("hidden_size", l.hidden));
  if (stated != l.hidden) return Call::wrong("attribute 'hidden_size' is {}, the weights have {}", stated, l.hidden);
  if (c.dims(c.in(1))[0] != l.directions || c.dims(c.in(2)) != Dims{l.directions, gates * l.hidden, l.hidden} ||
      c.dims(c.in(1))[1] != gates * l.hidden) {
    return Call::wrong("weights {} and {} for {} gates of {}", graph::to_string(c.dims(c.in(1))),
                       graph::to_string(c.dims(c.in(2))), gates, l.hidden);
  }
  STITCH_ASSIGN(l.clip, c.node.number("clip", 0.0));
  STITCH_ASSIGN(l.activations, read_activations(c, defaults, l.directions));
  return l;
}

/// The state as the operator is given it, for one direction: [B, H]; zeros when it is left out.
Result<Value> initial_state(Call& c, const Layer& l, std::size_t input, std::int64_t direction) {
  if (!c.has(input)) return c.b.filled(c.dtype(c.in(0)), {l.batch, l.hidden}, 0.0);
  const Dims expected = l.batch_first ? Dims{l.batch, l.directions, l.hidden} : Dims{l.directions, l.batch, l.hidden};
  if (c.dims(c.in(input)) != expected) {
    return Call::wrong("input {} is {}", input, graph::to_string(c.b.type(c.in(input))));
  }
  const Value part = slice_axis(c.b, c.in(input), l.batch_first ? 1 : 0, direction, direction + 1);
  return c.b.reshape(part, {l.batch, l.hidden});
}

/// One direction's slice of a weight, without the dimension of directions.
Value of_direction(Call& c, std::size_t input, std::int64_t direction) {
  const Value part = slice_axis(c.b, c.in(input), 0, direction, direction + 1);
  Dims dims = c.dims(part);
  if (!dims.empty()) dims.erase(dims.begin());
  return c.b.reshape(part, dims);
}

/// x · weightsᵀ for a batch of rows.
Value product(graph::Builder& b, Value x, Value weights) {
  const auto last = static_cast<std::int64_t>(b.dims(x).size()) - 1;
  return b.dot(x, weights, graph::DotAttributes{{}, {}, {last}, {1}, b.dtype(x)});
}

/// What one direction works on.
struct Direction {
  Value inputs;              ///< [T, B, G·H]: product with the inputs and what is added to it before the loop
  Value recurrent;           ///< [G·H, H]
  Value late_bias;           ///< [H], GRU with linear_before_reset
  Value peepholes;           ///< [3H]
  std::vector<Value> state;  ///< h, and c of an LSTM
  std::span<const Activation> activations;
  bool reversed = false;
};

/// Gate g of a row of gates side by side.
Value gate(graph::Builder& b, Value gates, std::int64_t g, std::int64_t hidden) {
  const auto last = static_cast<std::int64_t>(b.dims(gates).size()) - 1;
  return slice_axis(b, gates, last, g * hidden, (g + 1) * hidden);
}

Value clipped(graph::Builder& b, Value x, double clip) { return clip > 0 ? min(b, max(b, x, -clip), clip) : x; }

/// Values of the step that the cell's equations name, in the frame that they are emitted to.
struct Step {
  graph::Builder& b;
  const Layer& layer;
  const Direction& direction;
  Value inputs, recurrent, late_bias, peepholes;
  std::vector<Value> state;

  [[nodiscard]] Value activate(std::size_t which, Value x) const {
    return apply_activation(b, clipped(b, x, layer.clip), direction.activations[which]);
  }
  [[nodiscard]] Value part(Value gates, std::int64_t g) const { return gate(b, gates, g, layer.hidden); }
};

std::vector<Value> rnn_step(const Step& s) {
  return {s.activate(0, add(s.b, s.inputs, product(s.b, s.state[0], s.recurrent)))};
}

std::vector<Value> lstm_step(const Step& s, bool input_forget) {
  graph::Builder& b = s.b;
  const Value gates = add(b, s.inputs, product(b, s.state[0], s.recurrent));
  const auto with_peephole = [&](Value x, std::int64_t which, Value cell) {
    if (s.peepholes.node < 0) return x;
    return add(b, x, mul(b, s.part(s.peepholes, which), cell));
  };
  const Value cell = s.state[1];
  const Value input = s.activate(0, with_peephole(s.part(gates, 0), 0, cell));
  const Value forget =
      input_forget ? sub(b, like(b, input, 1.0), input) : s.activate(0, with_peephole(s.part(gates, 2), 2, cell));
  const Value candidate = s.activate(1, s.part(gates, 3));
  const Value next = add(b, mul(b, forget, cell), mul(b, input, candidate));
  const Value output = s.activate(0, with_peephole(s.part(gates, 1), 1, next));
  return {mul(b, output, apply_activation(b, next, s.direction.activations[2])), next};
}

std::vector<Value> gru_step(const Step& s, bool linear_before_reset) {
  graph::Builder& b = s.b;
  const std::int64_t hidden = s.layer.hidden;
  const Value h = s.state[0];
  const auto rows = [&](Value weights, std::int64_t from, std::int64_t to) {
    return slice_axis(b, weights, 0, from * hidden, to * hidden);
  };
  Value update, reset, candidate;
  if (linear_before_reset) {
    const Value gates = product(b, h, s.recurrent);
    update = s.activate(0, add(b, s.part(s.inputs, 0), s.part(gates, 0)));
    reset = s.activate(0, add(b, s.part(s.inputs, 1), s.part(gates, 1)));
    Value late = s.part(gates, 2);
    if (s.late_bias.node >= 0) late = add(b, late, s.late_bias);
    candidate = s.activate(1, add(b, s.part(s.inputs, 2), mul(b, reset, late)));
  } else {
    const Value gates = product(b, h, rows(s.recurrent, 0, 2));
    update = s.activate(0, add(b, s.part(s.inputs, 0), s.part(gates, 0)));
    reset = s.activate(0, add(b, s.part(s.inputs, 1), s.part(gates, 1)));
    const Value late = product(b, mul(b, reset, h), rows(s.recurrent, 2, 3));
    candidate = s.activate(1, add(b, s.part(s.inputs, 2), late));
  }
  return {add(b, mul(b, sub(b, like(b, update, 1.0), update), candidate), mul(b, update, h))};
}

using Cell = std::function<std::vector<Value>(const Step&)>;

/// The loop over one direction: all outputs [T, B, H] and the last state.
Result<std::vector<Value>> run_direction(Call& c, const Layer& l, const Direction& d, const Cell& cell) {
  const DType dtype = c.dtype(d.inputs);
  Values initial{c.b.filled(dtype, {l.steps, l.batch, l.hidden}, 0.0)};
  initial.insert(initial.end(), d.state.begin(), d.state.end());
  const bool lengths = c.has(4);
  // Sequences of different lengths are turned around before the loop, so that padding always comes last.
  const bool backwards = d.reversed && !lengths;
  const auto step = [&](Frame& region, const Values& parameters) -> Result<Values> {
    graph::Builder& b = region.builder;
    const auto outer = [&](Value v) { return v.node < 0 ? v : region.import(c.frame, v); };
    const Value zero = b.scalar(DType::s64, 0.0);
    Value time = parameters[0];
    if (backwards) time = b.binary(Op::subtract, b.scalar(DType::s64, l.steps - 1), time);
    const std::int64_t width = l.gates * l.hidden;
    const Value row = b.add(Op::dynamic_slice, {outer(d.inputs), time, zero, zero},
                            graph::DynamicSliceAttributes{{1, l.batch, width}});
    const Step s{b,
                 l,
                 d,
                 b.reshape(row, {l.batch, width}),
                 outer(d.recurrent),
                 outer(d.late_bias),
                 outer(d.peepholes),
                 Values(parameters.begin() + 2, parameters.end())};
    Values next = cell(s);
    Value shown = next[0];
    if (lengths) {
      const Value length = b.convert(outer(c.in(4)), DType::s64);
      const Value alive = b.compare(Comparison::lt, b.broadcast_to(time, {l.batch}), length);
      const Value mask = b.broadcast(alive, {l.batch, l.hidden}, {0});
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = b.select(mask, next[i], s.state[i]);
      shown = b.select(mask, shown, like(b, shown, 0.0));
    }
    const Value written =
        b.add(Op::dynamic_update_slice, {parameters[1], b.reshape(shown, {1, l.batch, l.hidden}), time, zero, zero},
              graph::UpdateAttributes{});
    next.insert(next.begin(), written);
    return next;
  };
  return emit_counted_loop(c.frame, initial, l.steps, step);
}

/// Results of all directions joined: Y [T, D, B, H] and the states [D, B, H], in the layout that is asked for.
Values join_directions(Call& c, const Layer& l, const std::vector<std::vector<Value>>& parts, std::size_t states) {
  Values results;
  Values outputs;
  for (const std::vector<Value>& part : parts) {
    outputs.push_back(c.b.reshape(part[0], {l.steps, 1, l.batch, l.hidden}));
  }
  const Value y = c.b.concatenate(std::move(outputs), 1);
  results.push_back(l.batch_first ? c.b.transpose(y, {2, 0, 1, 3}) : y);
  for (std::size_t i = 0; i < states; ++i) {
    Values each;
    for (const std::vector<Value>& part : parts) {
      each.push_back(c.b.reshape(part[i + 1], l.batch_first ? Dims{l.batch, 1, l.hidden} : Dims{1, l.batch, l.hidden}));
    }
    results.push_back(c.b.concatenate(std::move(each), l.batch_first ? 1 : 0));
  }
  return results;
}

/// The bias of the inputs' product [G·H]: both halves of B, but for gates from `late` on only the first.
Value early_bias(Call& c, const Layer& l, std::int64_t direction, std::int64_t late) {
  const Value bias = of_direction(c, 3, direction);
  const std::int64_t width = l.gates * l.hidden;
  const Value input = slice_axis(c.b, bias, 0, 0, width);
  Value recurrent = slice_axis(c.b, bias, 0, width, 2 * width);
  if (late < l.gates) {
    recurrent = c.b.concatenate({slice_axis(c.b, recurrent, 0, 0, late * l.hidden),
                                 c.b.filled(c.dtype(bias), {(l.gates - late) * l.hidden}, 0.0)},
                                0);
  }
  return add(c.b, input, recurrent);
}

struct Kind {
  std::size_t states = 1;
  bool late_bias = false;     ///< GRU with linear_before_reset: the candidate's recurrent bias belongs inside the reset
  std::size_t peepholes = 0;  ///< the input that has them; 0: none
};

Result<Values> run_layer(Call& c, const Layer& l, const Kind& kind, const Cell& cell) {
  if (c.has(3) && c.dims(c.in(3)) != Dims{l.directions, 2 * l.gates * l.hidden}) {
    return Call::wrong("input 3 is {}", graph::to_string(c.b.type(c.in(3))));
  }
  if (c.has(4) && c.dims(c.in(4)) != Dims{l.batch}) return Call::wrong("input 4 is no list of {} lengths", l.batch);
  const Value x = l.batch_first ? c.b.transpose(c.in(0), {1, 0, 2}) : c.in(0);
  std::vector<std::vector<Value>> parts;
  const std::size_t each = l.activations.size() / l.directions;
  for (std::int64_t k = 0; k < l.directions; ++k) {
    Direction d;
    d.reversed = l.direction == "reverse" || k == 1;
    d.activations = std::span(l.activations).subspan(k * each, each);
    const bool turned = d.reversed && c.has(4);
    const Value source = turned ? reverse_within(c.b, x, c.in(4), 1, 0) : x;
    d.inputs = product(c.b, source, of_direction(c, 1, k));
    if (c.has(3)) d.inputs = add(c.b, d.inputs, early_bias(c, l, k, kind.late_bias ? 2 : l.gates));
    if (c.has(3) && kind.late_bias) {
      d.late_bias = slice_axis(c.b, of_direction(c, 3, k), 0, 5 * l.hidden, 6 * l.hidden);
    }
    d.recurrent = of_direction(c, 2, k);
    if (kind.peepholes != 0 && c.has(kind.peepholes)) d.peepholes = of_direction(c, kind.peepholes, k);
    for (std::size_t i = 0; i < kind.states; ++i) {
      STITCH_ASSIGN(const Value state, initial_state(c, l, 5 + i, k));
      d.state.push_back(state);
    }
    if (c.b.failed()) return Values{};
    STITCH_ASSIGN(std::vector<Value> part, run_direction(c, l, d, cell));
    if (turned) part[0] = reverse_within(c.b, part[0], c.in(4), 1, 0);
    parts.push_back(std::move(part));
  }
  return join_directions(c, l, parts, kind.states);
}

}  // namespace

Result<Values> rnn(Call& c) {
  STITCH_ASSIGN(const Layer l, read_layer(c, 1, {"Tanh"}));
  return run_layer(c, l, {}, rnn_step);
}

Result<Values> gru(Call& c) {
  STITCH_ASSIGN(const Layer l, read_layer(c, 3, {"Sigmoid", "Tanh"}));
  STITCH_ASSIGN(const std::int64_t late, c.node.integer("linear_before_reset", 0));
  return run_layer(c, l, {1, late != 0, 0}, [&](const Step& s) { return gru_step(s, late != 0); });
}

Result<Values> lstm(Call& c) {
  STITCH_ASSIGN(const Layer l, read_layer(c, 4, {"Sigmoid", "Tanh", "Tanh"}));
  STITCH_ASSIGN(const std::int64_t coupled, c.node.integer("input_forget", 0));
  if (c.has(7) && c.dims(c.in(7)) != Dims{l.directions, 3 * l.hidden}) {
    return Call::wrong("input 7 is {}", graph::to_string(c.b.type(c.in(7))));
  }
  return run_layer(c, l, {2, false, 7}, [&](const Step& s) { return lstm_step(s, coupled != 0); });
}

}  // namespace stitch::import::onnx
