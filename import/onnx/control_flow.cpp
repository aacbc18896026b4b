// If, Loop and Scan. A branch or a loop becomes a region; where that cannot be (an iteration needs its number to decide
// a shape, the branches differ), the graph is specialised: the branch that a known condition takes, or the iterations
// written out.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "graph/literal.h"
#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/region.h"
#include "import/onnx/walk.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

constexpr std::int64_t most_unrolled = 256;

/// A scope for a subgraph of the call's node, which sees the names around it.
Scope child_scope(const Call& c, Frame& frame, const std::string& what) {
  Scope scope;
  scope.state = c.scope.state;
  scope.frame = &frame;
  scope.parent = &c.scope;
  scope.opsets = c.scope.opsets;
  scope.bindings = c.scope.bindings;
  scope.path = fmt::format("{} {} > ", c.place, what);
  return scope;
}

/// Reads a subgraph whose inputs have these values.
Result<Values> read_body(const Call& c, Frame& frame, const pb::GraphProto& body, const Values& inputs,
                         const std::string& what) {
  if (static_cast<std::size_t>(body.input_size()) != inputs.size()) {
    return Call::wrong("the {} takes {} inputs, {} are given", what, body.input_size(), inputs.size());
  }
  Scope scope = child_scope(c, frame, what);
  for (std::size_t i = 0; i < inputs.size(); ++i) scope.values[body.input(i).name()] = inputs[i];
  STITCH_TRY(read_graph(scope, body));
  return graph_outputs(scope, body);
}

std::optional<bool> known_bool(Frame& frame, Value value, Known least) {
  const std::optional<graph::ConstantAttributes> constant = frame.evaluate(value, least);
  if (!constant || constant->type.elements() != 1) return std::nullopt;
  return graph::element(*constant, 0) != 0.0;
}

}  // namespace

Result<Values> if_rule(Call& c) {
  STITCH_ASSIGN(const pb::GraphProto* when_true, c.node.graph("then_branch"));
  STITCH_ASSIGN(const pb::GraphProto* when_false, c.node.graph("else_branch"));
  if (graph::element_count(c.dims(c.in(0))) != 1) return Call::wrong("input 0 is no scalar");
  const auto take = [&](bool condition) {
    return read_body(c, c.frame, condition ? *when_true : *when_false, {}, condition ? "then" : "else");
  };
  if (const std::optional<bool> known = known_bool(c.frame, c.in(0), Known::constant)) return take(*known);
  const auto branch = [&](const pb::GraphProto& body, const std::string& what) {
    return [&c, &body, what](Frame& region) { return read_body(c, region, body, {}, what); };
  };
  const Value condition = c.b.reshape(c.in(0), {});
  Result<Values> both = emit_conditional(c.frame, condition, branch(*when_true, "then"), branch(*when_false, "else"));
  if (both || both.error().kind != ErrorKind::unsupported) return both;
  if (const std::optional<bool> known = known_bool(c.frame, c.in(0), Known::assumed)) return take(*known);
  return both;
}

namespace {

struct LoopPlan {
  const pb::GraphProto* body = nullptr;
  std::optional<std::int64_t> trips;  ///< the limit, where it is known
  bool limited = false;               ///< there is a limit
  std::optional<bool> first;          ///< the condition before the first iteration, where it is known
  Values initial;
};

Result<LoopPlan> read_loop(Call& c) {
  LoopPlan plan;
  STITCH_ASSIGN(plan.body, c.node.graph("body"));
  plan.limited = c.has(0);
  if (plan.limited) {
    if (const auto limit = c.frame.evaluate(c.in(0), Known::assumed)) {
      const Dims list = integers_of(*limit);
      if (list.size() != 1) return Call::wrong("input 0 is no scalar");
      plan.trips = std::max<std::int64_t>(list[0], 0);
    }
  }
  plan.first = c.has(1) ? known_bool(c.frame, c.in(1), Known::assumed) : std::optional(true);
  for (std::size_t i = 2; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
    plan.initial.push_back(c.in(i));
  }
  const std::size_t inputs = plan.body->input_size();
  if (inputs != plan.initial.size() + 2 ||
      static_cast<std::size_t>(plan.body->output_size()) < plan.initial.size() + 1) {
    return Call::wrong("the body's inputs and outputs do not fit {} carried values", plan.initial.size());
  }
  return plan;
}

/// Values stacked along a new first dimension, element by element.
Value append_row(graph::Builder& b, Value buffer, Value row, Value index) {
  Dims dims = b.dims(row);
  dims.insert(dims.begin(), 1);
  Values operands{buffer, b.reshape(row, dims), index};
  for (std::size_t d = 1; d < dims.size(); ++d) operands.push_back(b.scalar(DType::s64, 0.0));
  return b.add(Op::dynamic_update_slice, std::move(operands), graph::UpdateAttributes{});
}

bool has_opaque(const graph::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const graph::Node& node) { return node.op == Op::opaque; });
}

/// Shapes of the values that one iteration adds to the scan outputs; and whether its condition stays true.
struct Probe {
  std::vector<TensorType> rows;
  bool endless = false;
  bool whole = true;  ///< nothing in it is opaque for want of a constant
};

Result<Probe> probe_body(Call& c, const LoopPlan& plan) {
  Frame trial("trial", &c.frame);
  Values inputs{trial.builder.parameter(DType::s64, {}), trial.builder.parameter(DType::pred, {})};
  trial.tell(inputs[1], graph::splat({DType::pred, {}}, 1.0), Known::constant);
  for (const Value value : plan.initial) {
    const TensorType& type = c.b.type(value);
    inputs.push_back(trial.builder.parameter(type.dtype, type.dims));
  }
  STITCH_ASSIGN(const Values outputs, read_body(c, trial, *plan.body, inputs, "body"));
  if (trial.builder.failed()) return trial.builder.finish({}).error();
  Probe probe;
  const std::optional<bool> stays = known_bool(trial, outputs[0], Known::assumed);
  probe.endless = stays.value_or(false);
  for (std::size_t i = plan.initial.size() + 1; i < outputs.size(); ++i) {
    probe.rows.push_back(trial.builder.type(outputs[i]));
  }
  probe.whole = !has_opaque(trial.builder.graph());
  return probe;
}

/// As Op::loop. Carried besides the model's own values: the condition, unless it stays true; a limit that is not
/// known; a buffer for each scan output.
Result<Values> rolled_loop(Call& c, const LoopPlan& plan, const Probe& probe) {
  const bool counted = plan.trips && plan.first.value_or(false) && probe.endless;
  if (!probe.rows.empty() && !counted) return Call::unsupported("results stacked over an unknown number of iterations");
  const std::size_t own = plan.initial.size();
  Values initial = plan.initial;
  for (const TensorType& row : probe.rows) {
    Dims dims = row.dims;
    dims.insert(dims.begin(), *plan.trips);
    initial.push_back(c.b.filled(row.dtype, dims, 0.0));
  }
  std::size_t condition_at = 0, limit_at = 0;  // among the parameters, after the counter
  if (!counted) {
    initial.push_back(c.has(1) ? c.b.reshape(c.in(1), {}) : c.b.scalar(DType::pred, 1.0));
    condition_at = initial.size();
    if (plan.limited) {
      initial.push_back(c.b.convert(c.b.reshape(c.in(0), {}), DType::s64));
      limit_at = initial.size();
    }
  }
  LoopBody body;
  body.step = [&](Frame& region, const Values& parameters) -> Result<Values> {
    graph::Builder& b = region.builder;
    const Value condition = condition_at != 0 ? parameters[condition_at] : b.scalar(DType::pred, 1.0);
    Values inputs{parameters[0], condition};
    inputs.insert(inputs.end(), parameters.begin() + 1, parameters.begin() + 1 + own);
    STITCH_ASSIGN(const Values outputs, read_body(c, region, *plan.body, inputs, "body"));
    Values next(outputs.begin() + 1, outputs.begin() + 1 + own);
    for (std::size_t i = own + 1; i < outputs.size(); ++i) {
      next.push_back(append_row(b, parameters[i], outputs[i], parameters[0]));
    }
    if (condition_at != 0) next.push_back(b.reshape(outputs[0], {}));
    if (limit_at != 0) next.push_back(parameters[limit_at]);
    return next;
  };
  body.proceed = [&](graph::Builder& b, const Values& parameters) {
    if (counted) {
      const Value limit = b.constant(graph::dense_integers({DType::s64, {}}, std::vector{*plan.trips}));
      return b.compare(Comparison::lt, parameters[0], limit);
    }
    if (limit_at == 0) return parameters[condition_at];
    const Value below = b.compare(Comparison::lt, parameters[0], parameters[limit_at]);
    return b.binary(Op::bit_and, parameters[condition_at], below);
  };
  STITCH_ASSIGN(Values results, emit_loop(c.frame, initial, counted ? *plan.trips : -1, body));
  results.resize(own + probe.rows.size());
  return results;
}

/// The iterations one after the other; every condition must be known.
Result<Values> unrolled_loop(Call& c, const LoopPlan& plan) {
  if (!plan.first) return Call::unsupported("a loop whose condition is only known at run time");
  Values carried = plan.initial;
  std::vector<Values> rows(static_cast<std::size_t>(plan.body->output_size()) - 1 - carried.size());
  bool proceed = *plan.first;
  for (std::int64_t i = 0; proceed && (!plan.limited || i < plan.trips.value_or(0)); ++i) {
    if (i >= most_unrolled) return Call::unsupported("more than {} iterations to write out", most_unrolled);
    Values inputs{integers(c.b, DType::s64, {}, {i}), c.b.scalar(DType::pred, 1.0)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    STITCH_ASSIGN(const Values outputs, read_body(c, c.frame, *plan.body, inputs, fmt::format("iteration {}", i)));
    const std::optional<bool> next = known_bool(c.frame, outputs[0], Known::assumed);
    if (!next) return Call::unsupported("a loop whose condition is only known at run time");
    proceed = *next;
    std::copy_n(outputs.begin() + 1, carried.size(), carried.begin());
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const Value row = outputs[1 + carried.size() + k];
      Dims dims = c.dims(row);
      dims.insert(dims.begin(), 1);
      rows[k].push_back(c.b.reshape(row, dims));
    }
  }
  for (Values& list : rows) {
    if (list.empty()) return Call::unsupported("a loop without iterations that stacks results");
    carried.push_back(c.b.concatenate(std::move(list), 0));
  }
  return carried;
}

/// The iterations written out into a frame of their own.
Result<Values> try_unrolled(Call& c, const LoopPlan& plan, Frame& trial) {
  if (plan.limited && !plan.trips) return Call::unsupported("an unknown number of iterations");
  Scope scope = child_scope(c, trial, "trial");
  Call dry(scope, c.node, c.version, c.place);
  LoopPlan copy = plan;
  for (Value& value : copy.initial) value = trial.import(c.frame, value);
  return unrolled_loop(dry, copy);
}

}  // namespace

Result<Values> loop_rule(Call& c) {
  STITCH_ASSIGN(const LoopPlan plan, read_loop(c));
  const Result<Probe> probe = probe_body(c, plan);
  Result<Values> rolled = probe ? rolled_loop(c, plan, *probe) : Result<Values>(probe.error());
  if (rolled && probe->whole) return rolled;
  // A dry run first: the model's own frame must not be left with a failure while there is something to fall back on.
  Frame trial("trial", &c.frame);
  const Result<Values> tried = try_unrolled(c, plan, trial);
  const bool better = tried && !trial.builder.failed() && (!rolled || !has_opaque(trial.builder.graph()));
  if (!better) return probe ? rolled : probe.error();
  return unrolled_loop(c, plan);
}

namespace {

struct ScanPlan {
  const pb::GraphProto* body = nullptr;
  std::size_t states = 0, scanned = 0, stacked = 0;
  std::vector<bool> input_reversed, output_reversed;
  Dims input_axes, output_axes;
};

Result<std::vector<bool>> directions(Call& c, std::string_view name, std::size_t count) {
  STITCH_ASSIGN(const Dims list, c.node.integers(name, Dims(count, 0)));
  if (list.size() != count) return Call::wrong("attribute '{}' has {} entries", name, list.size());
  std::vector<bool> flags;
  for (const std::int64_t value : list) flags.push_back(value != 0);
  return flags;
}

Result<ScanPlan> read_scan(Call& c, std::size_t inputs) {
  ScanPlan plan;
  STITCH_ASSIGN(plan.body, c.node.graph("body"));
  STITCH_ASSIGN(const std::int64_t scanned, c.node.integer("num_scan_inputs", 0));
  if (scanned < 1 || scanned > static_cast<std::int64_t>(inputs))
    return Call::wrong("attribute 'num_scan_inputs' is {}", scanned);
  plan.scanned = scanned;
  plan.states = inputs - plan.scanned;
  const std::size_t outputs = plan.body->output_size();
  if (outputs < plan.states) return Call::wrong("the body has {} outputs for {} states", outputs, plan.states);
  plan.stacked = outputs - plan.states;
  const bool old = c.version < 9;
  STITCH_ASSIGN(plan.input_reversed, directions(c, old ? "directions" : "scan_input_directions", plan.scanned));
  STITCH_ASSIGN(plan.output_reversed, directions(c, "scan_output_directions", plan.stacked));
  STITCH_ASSIGN(plan.input_axes, c.node.integers("scan_input_axes", Dims(plan.scanned, 0)));
  STITCH_ASSIGN(plan.output_axes, c.node.integers("scan_output_axes", Dims(plan.stacked, 0)));
  if (plan.input_axes.size() != plan.scanned || plan.output_axes.size() != plan.stacked) {
    return Call::wrong("the axes do not fit the number of scan inputs and outputs");
  }
  return plan;
}

/// Types of the rows that an iteration gives.
Result<std::vector<TensorType>> probe_scan(Call& c, const ScanPlan& plan, const std::vector<TensorType>& inputs) {
  Frame trial("trial", &c.frame);
  Values parameters;
  for (const TensorType& type : inputs) parameters.push_back(trial.builder.parameter(type.dtype, type.dims));
  STITCH_ASSIGN(const Values outputs, read_body(c, trial, *plan.body, parameters, "body"));
  if (trial.builder.failed()) return trial.builder.finish({}).error();
  std::vector<TensorType> types;
  for (std::size_t i = plan.states; i < outputs.size(); ++i) types.push_back(trial.builder.type(outputs[i]));
  return types;
}

/// Row `index` of x along its first dimension.
Value take_row(graph::Builder& b, Value x, Value index) {
  Dims sizes = b.dims(x);
  if (b.failed() || sizes.empty()) return x;
  sizes[0] = 1;
  Values operands{x, index};
  for (std::size_t d = 1; d < sizes.size(); ++d) operands.push_back(b.scalar(DType::s64, 0.0));
  const Value row = b.add(Op::dynamic_slice, std::move(operands), graph::DynamicSliceAttributes{sizes});
  return b.reshape(row, Dims(sizes.begin() + 1, sizes.end()));
}

Result<Values> scan_once(Call& c, const ScanPlan& plan, const Values& inputs) {
  Values initial(inputs.begin(), inputs.begin() + plan.states);
  std::vector<TensorType> types;
  for (const Value state : initial) types.push_back(c.b.type(state));
  Values sources;  // with the scanned dimension in front
  std::int64_t length = -1;
  for (std::size_t i = 0; i < plan.scanned; ++i) {
    Value x = inputs[plan.states + i];
    STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(plan.input_axes[i], c.rank(x)));
    Dims order = other_axes(c.rank(x), {axis});
    order.insert(order.begin(), axis);
    if (axis != 0) x = c.b.transpose(x, order);
    if (c.b.failed()) return Values{};
    const Dims& dims = c.dims(x);
    if (length >= 0 && dims[0] != length) return Call::wrong("scan inputs of lengths {} and {}", length, dims[0]);
    length = dims[0];
    types.push_back({c.dtype(x), Dims(dims.begin() + 1, dims.end())});
    sources.push_back(x);
  }
  STITCH_ASSIGN(const std::vector<TensorType> rows, probe_scan(c, plan, types));
  for (const TensorType& row : rows) {
    Dims dims = row.dims;
    dims.insert(dims.begin(), length);
    initial.push_back(c.b.filled(row.dtype, dims, 0.0));
  }
  const auto step = [&](Frame& region, const Values& parameters) -> Result<Values> {
    graph::Builder& b = region.builder;
    const Value last = integers(b, DType::s64, {}, {length - 1});
    const Value backwards = b.binary(Op::subtract, last, parameters[0]);
    Values given(parameters.begin() + 1, parameters.begin() + 1 + plan.states);
    for (std::size_t i = 0; i < plan.scanned; ++i) {
      const Value source = region.import(c.frame, sources[i]);
      given.push_back(take_row(b, source, plan.input_reversed[i] ? backwards : parameters[0]));
    }
    STITCH_ASSIGN(Values outputs, read_body(c, region, *plan.body, given, "body"));
    for (std::size_t i = 0; i < plan.stacked; ++i) {
      const std::size_t at = plan.states + i;
      outputs[at] = append_row(b, parameters[1 + at], outputs[at], plan.output_reversed[i] ? backwards : parameters[0]);
    }
    return outputs;
  };
  STITCH_ASSIGN(Values results, emit_counted_loop(c.frame, initial, length, step));
  for (std::size_t i = 0; i < plan.stacked && !c.b.failed(); ++i) {
    Value& y = results[plan.states + i];
    STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(plan.output_axes[i], c.rank(y)));
    Dims order;
    for (std::int64_t d = 1; d < c.rank(y); ++d) order.push_back(d);
    order.insert(order.begin() + axis, 0);
    if (axis != 0) y = c.b.transpose(y, order);
  }
  return results;
}

}  // namespace

Result<Values> scan_rule(Call& c) {
  STITCH_ASSIGN(const ScanPlan plan, read_scan(c, c.inputs.size()));
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
  }
  Values inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) inputs.push_back(c.in(i));
  return scan_once(c, plan, inputs);
}

/// Opset 8: input 0 the lengths, and a batch dimension in front of everything, over which the scan repeats.
Result<Values> scan_batched(Call& c) {
  if (c.has(0)) return Call::unsupported("sequences of different lengths");
  STITCH_ASSIGN(const ScanPlan plan, read_scan(c, c.inputs.size() - 1));
  std::int64_t batch = -1;
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i) || c.rank(c.in(i)) < 1) return Call::wrong("input {} has no batch dimension", i);
    if (batch >= 0 && c.dims(c.in(i))[0] != batch) return Call::wrong("input {} has another batch size", i);
    batch = c.dims(c.in(i))[0];
  }
  if (batch < 1 || batch > most_unrolled) return Call::unsupported("a batch of {}", batch);
  std::vector<Values> columns(plan.states + plan.stacked);
  for (std::int64_t k = 0; k < batch; ++k) {
    Values inputs;
    for (std::size_t i = 1; i < c.inputs.size(); ++i) {
      const Dims dims = c.dims(c.in(i));
      inputs.push_back(c.b.reshape(slice_axis(c.b, c.in(i), 0, k, k + 1), Dims(dims.begin() + 1, dims.end())));
    }
    STITCH_ASSIGN(const Values outputs, scan_once(c, plan, inputs));
    if (c.b.failed()) return Values{};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      Dims dims = c.dims(outputs[i]);
      dims.insert(dims.begin(), 1);
      columns[i].push_back(c.b.reshape(outputs[i], dims));
    }
  }
  Values results;
  for (Values& column : columns) results.push_back(c.b.concatenate(std::move(column), 0));
  return results;
}

}  // namespace stitch::import::onnx
