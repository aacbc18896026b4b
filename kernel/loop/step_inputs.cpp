#include "kernel/loop/step_inputs.h"

#include <algorithm>
#include <utility>

#include "graph/fill.h"
#include "graph/literal.h"
#include "graph/strided_view.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::TensorType;
using graph::Value;
using Source = RecurrentStep::Source;

StepInputs::StepInputs(const Graph& kernel, NodeId loop, const RowSplit& split, graph::Builder& out,
                       RecurrentStep& step)
    : kernel_(kernel),
      loop_id_(loop),
      loop_(kernel.node(loop)),
      body_(*loop_.regions[0]),
      split_(split),
      out_(out),
      step_(step) {
  number_states();
}

std::optional<int> StepInputs::output_of(std::size_t carried) const {
  const auto results = kernel_.results();
  const auto found = std::find(results.begin(), results.end(), Value{loop_id_, static_cast<std::int32_t>(carried)});
  return found == results.end() ? std::nullopt : std::optional(static_cast<int>(found - results.begin()));
}

std::optional<int> StepInputs::input_of(std::size_t carried) const {
  return parameter_number(kernel_, graph::without_reshapes(kernel_, loop_.operands[carried]).node);
}

void StepInputs::number_states() {
  for (std::size_t i = 0; i < split_.carried.size(); ++i) {
    const CarriedValue& carried = split_.carried[i];
    if (carried.kind != CarriedValue::Kind::state) continue;
    RecurrentStep::State state;
    state.type = body_.type(body_.results()[i]);
    state.row_dimension = carried.row_dimension;
    if (carried.row_dimension >= 0) {
      std::int64_t& extent = state.type.dims[carried.row_dimension];
      state.all_rows = std::exchange(extent, step_.rows);
    }
    state.first_input = input_of(i);
    if (!state.first_input) state.fill = *graph::fill_bits(kernel_, loop_.operands[i]);
    state.output = output_of(i);
    state_of_[i] = step_.states.size();
    step_.states.push_back(std::move(state));
  }
}

Value StepInputs::parameter(const TensorType& type, RecurrentStep::Source source, const std::string& name) {
  step_.sources.push_back(source);
  return out_.parameter(type.dtype, type.dims, name);
}

Value StepInputs::first_row() {
  if (first_row_.node < 0) first_row_ = parameter({DType::s32, {}}, {Source::Kind::first_row, 0}, "first_row");
  return first_row_;
}

Value StepInputs::zero() {
  if (zero_.node < 0) zero_ = out_.scalar(DType::s32, 0);
  return zero_;
}

Value StepInputs::cut(Value whole, int dimension, std::int64_t start, std::int64_t size) {
  if (out_.failed() || dimension < 0) return whole;
  const Dims& dims = out_.type(whole).dims;
  const std::size_t d = dimension;
  if (start == 0 && size == dims[d]) return whole;
  Dims starts(dims.size(), 0), limits = dims;
  starts[d] = start;
  limits[d] = start + size;
  return out_.slice(whole, std::move(starts), std::move(limits));
}

Value StepInputs::rows_of(Value whole, int row) {
  if (row < 0 || out_.failed()) return whole;
  const Dims& dims = out_.type(whole).dims;
  std::vector<Value> operands = {whole};
  graph::DynamicSliceAttributes a{dims};
  for (int d = 0; d < std::ssize(dims); ++d) {
    const bool is_row = d == row;
    operands.push_back(is_row ? first_row() : zero());
    if (is_row) a.sizes[d] = step_.rows;
  }
  return out_.add(Op::dynamic_slice, std::move(operands), std::move(a));
}

Value StepInputs::rows_of_parameter(Value value, int row) {
  const std::size_t number = parameter_of_body(value);
  const std::string& name = body_.node(value.node).name;
  if (is_state(value)) {
    const int state = state_of_.at(number);
    return parameter(step_.states[state].type, {Source::Kind::state, state}, name);
  }
  if (const auto found = inputs_.find(number); found != inputs_.end()) return rows_of(found->second, row);
  Value whole;
  if (const auto input = input_of(number)) {
    whole = parameter(body_.type(value), {Source::Kind::input, *input}, name);
  } else {
    const TensorType& type = body_.type(value);
    const std::uint64_t bits = *graph::fill_bits(kernel_, loop_.operands[number]);
    whole = out_.broadcast(out_.constant(graph::scalar_of(type.dtype, bits)), type.dims, {});
  }
  inputs_[number] = whole;
  return rows_of(whole, row);
}

bool StepInputs::is_state(Value value) const {
  return body_.node(value.node).op == Op::parameter &&
         split_.carried[parameter_of_body(value)].kind == CarriedValue::Kind::state;
}

std::size_t StepInputs::parameter_of_body(Value value) const { return *parameter_number(body_, value.node); }

/// Of places that are not a few runs of memory nothing is fetched ahead.
void StepInputs::note_sequence(NodeId slice, int row) {
  const auto found = split_.sequences.find(slice);
  if (found == split_.sequences.end()) return;
  const Value tensor = body_.node(slice).operands[0];
  const auto made = inputs_.find(parameter_of_body(tensor));
  const auto parameter = made == inputs_.end() ? std::nullopt : parameter_number(out_.graph(), made->second.node);
  if (!parameter) return;
  const TensorType& type = body_.type(tensor);
  const int turn = found->second.dimension, inner = std::max(turn, row);
  for (int d = 0; d < inner; ++d) {
    if (d != turn && d != row && type.dims[d] != 1) return;
  }
  const Dims strides = graph::row_major_strides(type.dims);
  const auto stride = [&](int d) { return strides[d] * graph::byte_size(type.dtype); };
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;  // of a run: more is not waited for but streamed
  RecurrentStep::Sequence sequence{*parameter, found->second.backward, stride(turn), 0, 1, stride(inner)};
  if (row >= 0) sequence.row_bytes = stride(row);
  if (row > turn) sequence.run_bytes *= step_.rows;
  if (row >= 0 && row < turn) sequence.runs = step_.rows;
  if (sequence.run_bytes > most_bytes || sequence.run_bytes < 1) return;
  if (std::ranges::count(step_.sequences, sequence) == 0) step_.sequences.push_back(sequence);
}

}  // namespace stitch::kernel
