#include "kernel/loop/recurrent_step.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "graph/builder.h"
#include "graph/fill.h"
#include "graph/passes/turn_lines.h"
#include "kernel/loop/row_split.h"
#include "kernel/structure/contraction.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::TensorType;
using graph::Value;
using Source = RecurrentStep::Source;

/// Some of a value of the loop's body: a block's rows along `row` (-1: all), and along `dimension` (-1: none is cut)
/// `size` elements from `start` on.
struct Part {
  int row = -1;
  int dimension = -1;
  std::int64_t start = 0, size = 0;
  auto operator<=>(const Part&) const = default;
};

class StepBuilder {
 public:
  StepBuilder(const Graph& kernel, NodeId loop, const RowSplit& split, std::int64_t rows)
      : kernel_(kernel),
        loop_id_(loop),
        loop_(kernel.node(loop)),
        body_(*loop_.regions[0]),
        users_(graph::users(body_)),
        split_(split),
        out_(kernel.name) {
    step_.turns = split_.turns;
    step_.rows = rows;
    step_.blocks = split_.rows / rows;
  }

  Result<std::shared_ptr<const RecurrentStep>> build() {
    std::vector<Value> results;
    number_states();
    for (std::size_t i = 0; i < split_.carried.size(); ++i) {
      const CarriedValue& carried = split_.carried[i];
      if (carried.kind == CarriedValue::Kind::state) {
        results.push_back(part(body_.results()[i], {carried.row_dimension}));
        step_.targets.push_back({true, state_of_.at(i)});
      } else if (const auto output = output_of(i); output && carried.kind == CarriedValue::Kind::stacked) {
        results.push_back(updated(carried, *output));
        step_.targets.push_back({false, *output});
      } else if (output) {
        return make_error(ErrorKind::constraint, "result {} of the loop is what it was given", i);
      }
    }
    STITCH_ASSIGN(step_.graph, out_.finish(std::move(results)));
    return std::make_shared<const RecurrentStep>(std::move(step_));
  }

 private:
  // ---- what surrounds the turn ------------------------------------------------------------------------------

  [[nodiscard]] std::optional<int> output_of(std::size_t carried) const {
    const auto results = kernel_.results();
    const auto found = std::find(results.begin(), results.end(), Value{loop_id_, static_cast<std::int32_t>(carried)});
    return found == results.end() ? std::nullopt : std::optional(static_cast<int>(found - results.begin()));
  }

  [[nodiscard]] std::optional<int> input_of(std::size_t carried) const {
    return kernel::parameter_number(kernel_, graph::without_reshapes(kernel_, loop_.operands[carried]).node);
  }

  void number_states() {
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
      state_of_[i] = static_cast<int>(step_.states.size());
      step_.states.push_back(std::move(state));
    }
  }

  Value parameter(const TensorType& type, Source source, const std::string& name) {
    step_.sources.push_back(source);
    return out_.parameter(type.dtype, type.dims, name);
  }

  Value first_row() {
    if (first_row_.node < 0) first_row_ = parameter({DType::s32, {}}, {Source::Kind::first_row, 0}, "first_row");
    return first_row_;
  }

  Value zero() {
    if (zero_.node < 0) zero_ = out_.scalar(DType::s32, 0);
    return zero_;
  }

  // ---- layout -----------------------------------------------------------------------------------------------

  Value block_rows(Value whole, int dimension) {
    const Dims& dims = out_.type(whole).dims;
    std::vector<Value> operands = {whole};
    graph::DynamicSliceAttributes a{dims};
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool is_row = static_cast<int>(d) == dimension;
      operands.push_back(is_row ? first_row() : zero());
      if (is_row) a.sizes[d] = step_.rows;
    }
    return out_.add(Op::dynamic_slice, std::move(operands), std::move(a));
  }

  Value cut(Value whole, int dimension, std::int64_t start, std::int64_t size) {
    if (out_.failed() || dimension < 0) return whole;
    const Dims& dims = out_.type(whole).dims;
    const std::size_t d = dimension;
    if (start == 0 && size == dims[d]) return whole;
    Dims starts(dims.size(), 0), limits = dims;
    starts[d] = start;
    limits[d] = start + size;
    return out_.slice(whole, std::move(starts), std::move(limits));
  }

  // ---- parts of the body's values ----------------------------------------------------------------------------

  Value part(Value value, const Part& wanted) {
    if (out_.failed()) return {};
    const auto found = made_.find({value, wanted});
    if (found != made_.end()) return found->second;
    const Node& node = body_.node(value.node);
    out_.at(node.name, node.line);
    const Value made = make(value, node, wanted);
    made_[{value, wanted}] = made;
    return made;
  }

  Value make(Value value, const Node& node, const Part& wanted) {
    const bool is_source = graph::info(node.op).category == graph::OpCategory::source;
    if (wanted.row >= 0 && !is_source && !rows_are_plain(body_, value.node, wanted.row))
      return cut(rows_of(part(value, {}), wanted.row), wanted.dimension, wanted.start, wanted.size);
    switch (node.op) {
      case Op::parameter: return cut(leaf_rows(value, wanted.row), wanted.dimension, wanted.start, wanted.size);
      case Op::constant: {
        const auto& constant = node.as<graph::ConstantAttributes>();
        if (constant.type.rank() > 0 && graph::fill_bits(body_, value)) return filled(constant, wanted);
        return cut(rows_of(out_.constant(constant), wanted.row), wanted.dimension, wanted.start, wanted.size);
      }
      case Op::iota: {
        const auto& a = node.as<graph::IotaAttributes>();
        const Value whole = out_.iota(a.type.dtype, a.type.dims, a.dimension);
        return cut(rows_of(whole, wanted.row), wanted.dimension, wanted.start, wanted.size);
      }
      case Op::slice:
        if (const auto below = behind_slice(node, wanted)) return part(node.operands[0], *below);
        break;
      case Op::concatenate:
        if (wanted.dimension == node.as<graph::ConcatenateAttributes>().dimension) return joined(value, node, wanted);
        break;
      case Op::dot:
        if (wanted.dimension >= 0 && !only_slices_read(value)) return cut_afterwards(value, wanted);
        return contraction(value.node, wanted);
      case Op::reduce:
        if (wanted.dimension >= 0 && !only_slices_read(value)) return cut_afterwards(value, wanted);
        break;
      default: break;
    }
    if (const auto same = copy(value, node, wanted)) return *same;
    return cut_afterwards(value, wanted);
  }

  Value cut_afterwards(Value value, const Part& wanted) {
    return cut(part(value, {wanted.row}), wanted.dimension, wanted.start, wanted.size);
  }

  Value rows_of(Value whole, int row) { return row < 0 || out_.failed() ? whole : block_rows(whole, row); }

  Value leaf_rows(Value value, int row) {
    const std::size_t number = parameter_number(value);
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
      whole = out_.broadcast(out_.constant(scalar_of(type.dtype, bits)), type.dims, {});
    }
    inputs_[number] = whole;
    return rows_of(whole, row);
  }

  static graph::ConstantAttributes scalar_of(DType dtype, std::uint64_t bits) {
    graph::ConstantAttributes constant{{dtype, {}}, {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
    constant.data.assign(bytes, bytes + graph::byte_size(dtype));
    return constant;
  }

  Value filled(const graph::ConstantAttributes& constant, const Part& wanted) {
    Dims dims = constant.type.dims;
    if (wanted.row >= 0) dims[wanted.row] = step_.rows;
    if (wanted.dimension >= 0) dims[wanted.dimension] = wanted.size;
    std::uint64_t bits = 0;
    std::copy_n(constant.data.begin(), graph::byte_size(constant.type.dtype), reinterpret_cast<std::byte*>(&bits));
    return out_.broadcast(out_.constant(scalar_of(constant.type.dtype, bits)), std::move(dims), {});
  }

  /// What a slice of which `wanted` is needed takes of its operand, if that is one run along one dimension.
  [[nodiscard]] std::optional<Part> behind_slice(const Node& node, const Part& wanted) const {
    const auto& a = node.as<graph::SliceAttributes>();
    const Dims& from = body_.type(node.operands[0]).dims;
    Part below{wanted.row};
    for (std::size_t d = 0; d < from.size(); ++d) {
      const bool here = wanted.dimension == static_cast<int>(d);
      if (a.starts[d] == 0 && a.limits[d] == from[d] && a.strides[d] == 1 && !here) continue;
      if (a.strides[d] != 1 || below.dimension >= 0 || wanted.row == static_cast<int>(d)) return std::nullopt;
      below.dimension = static_cast<int>(d);
      below.start = a.starts[d] + (here ? wanted.start : 0);
      below.size = here ? wanted.size : a.limits[d] - a.starts[d];
    }
    return below;
  }

  /// Whether nobody needs the value whole: parts of a contraction add up to it.
  [[nodiscard]] bool only_slices_read(Value value) const {
    const auto& readers = users_[value.node];
    if (std::find(body_.results().begin(), body_.results().end(), value) != body_.results().end()) return false;
    return readers.size() == 1 || std::all_of(readers.begin(), readers.end(),
                                              [&](NodeId reader) { return body_.node(reader).op == Op::slice; });
  }

  /// A run of a concatenation along the dimension that it joins.
  Value joined(Value value, const Node& node, const Part& wanted) {
    const std::size_t d = wanted.dimension;
    std::int64_t at = 0;
    for (const Value operand : node.operands) {
      const std::int64_t extent = body_.type(operand).dims[d];
      if (at <= wanted.start && wanted.start + wanted.size <= at + extent) {
        if (wanted.size == extent) return part(operand, {wanted.row});
        return part(operand, {wanted.row, wanted.dimension, wanted.start - at, wanted.size});
      }
      at += extent;
    }
    return cut_afterwards(value, wanted);
  }

  /// The operator itself on parts of its operands; nothing when the part is not that of its operands.
  std::optional<Value> copy(Value value, const Node& node, const Part& wanted) {
    std::vector<Part> parts(node.operands.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto below = [&](int dimension) {
        return dimension < 0 ? std::optional(-1) : operand_dimension(body_, value.node, i, dimension);
      };
      const auto row = below(wanted.row), dimension = below(wanted.dimension);
      if (!dimension) return std::nullopt;
      parts[i].row = *row;  // make has seen that there is one
      if (*dimension >= 0) parts[i] = {parts[i].row, *dimension, wanted.start, wanted.size};
    }
    std::vector<Value> operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) operands.push_back(part(node.operands[i], parts[i]));
    out_.at(node.name, node.line);
    const auto resized = [&](Dims dims) {
      if (wanted.row >= 0) dims[wanted.row] = step_.rows;
      if (wanted.dimension >= 0) dims[wanted.dimension] = wanted.size;
      return dims;
    };
    graph::Attributes attributes = node.attributes;
    if (auto* a = std::get_if<graph::BroadcastAttributes>(&attributes)) a->dims = resized(a->dims);
    if (auto* a = std::get_if<graph::ReshapeAttributes>(&attributes)) a->dims = resized(a->dims);
    if (auto* a = std::get_if<graph::DynamicSliceAttributes>(&attributes)) a->sizes = resized(a->sizes);
    // A state's next value is a copy of its own.
    if (auto* a = std::get_if<graph::UpdateAttributes>(&attributes)) a->in_place = false;
    if (auto* a = std::get_if<graph::SliceAttributes>(&attributes)) {
      if (wanted.row >= 0) a->limits[wanted.row] = step_.rows;
      if (wanted.dimension >= 0) a->limits[wanted.dimension] = wanted.size;
    }
    if (node.op == Op::dynamic_slice) note_sequence(value.node, parts[0].row);
    const Value made = out_.add(node.op, std::move(operands), std::move(attributes));
    return Value{made.node, value.result};
  }

  /// Of places that are not a few runs of memory nothing is fetched ahead.
  void note_sequence(NodeId slice, int row) {
    const auto found = split_.sequences.find(slice);
    if (found == split_.sequences.end()) return;
    const Value tensor = body_.node(slice).operands[0];
    const auto made = inputs_.find(parameter_number(tensor));
    const auto parameter =
        made == inputs_.end() ? std::nullopt : kernel::parameter_number(out_.graph(), made->second.node);
    if (!parameter) return;
    const TensorType& type = body_.type(tensor);
    const auto turn = static_cast<int>(found->second.dimension), inner = std::max(turn, row);
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

  // ---- contractions -----------------------------------------------------------------------------------------

  Value contraction(NodeId id, const Part& wanted) {
    const Node& node = body_.node(id);
    const auto& a = node.as<graph::DotAttributes>();
    std::array<Value, 2> sides;
    std::array<Part, 2> parts;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto below = [&](int dimension) {
        return dimension < 0 ? -1 : operand_dimension(body_, id, i, dimension).value_or(-1);
      };
      parts[i].row = below(wanted.row);
      if (const int dimension = below(wanted.dimension); dimension >= 0)
        parts[i] = {parts[i].row, dimension, wanted.start, wanted.size};
    }
    // A contraction over what a concatenation joins is the sum of those of its parts: each is stored as it is.
    for (std::size_t i = 0; i < 2 && a.lhs_contracting.size() == 1; ++i) {
      const Node& joined = body_.node(node.operands[i].node);
      const std::int64_t along = (i == 0 ? a.lhs_contracting : a.rhs_contracting)[0];
      const std::int64_t across = (i == 0 ? a.rhs_contracting : a.lhs_contracting)[0];
      if (joined.op != Op::concatenate || joined.as<graph::ConcatenateAttributes>().dimension != along) continue;
      sides[1 - i] = side(node.operands[1 - i], parts[1 - i]);
      Value total;
      std::int64_t at = 0;
      for (const Value operand : joined.operands) {
        const std::int64_t extent = body_.type(operand).dims[along];
        std::array<Value, 2> piece;
        piece[i] = side(operand, parts[i]);
        piece[1 - i] = cut(sides[1 - i], static_cast<int>(across), at, extent);
        const Value sum = products_summed(piece, a);
        total = at == 0 ? sum : out_.binary(Op::add, total, sum);
        at += extent;
      }
      return out_.convert(total, a.result);
    }
    for (std::size_t i = 0; i < 2; ++i) sides[i] = side(node.operands[i], parts[i]);
    out_.at(node.name, node.line);
    return out_.convert(products_summed(sides, a), a.result);
  }

  /// An operand. A state that is contracted and also combined element by element is two parameters, which have no axis
  /// in common.
  Value side(Value operand, const Part& wanted) {
    if (!is_state(operand)) return part(operand, wanted);
    const auto [found, fresh] = contracted_.try_emplace({operand, wanted});
    if (fresh) found->second = cut(leaf_rows(operand, wanted.row), wanted.dimension, wanted.start, wanted.size);
    return found->second;
  }

  [[nodiscard]] bool is_state(Value value) const {
    return body_.node(value.node).op == Op::parameter &&
           split_.carried[parameter_number(value)].kind == CarriedValue::Kind::state;
  }

  [[nodiscard]] std::size_t parameter_number(Value value) const { return *kernel::parameter_number(body_, value.node); }

  Value products_summed(const std::array<Value, 2>& sides, const graph::DotAttributes& a) {
    if (out_.failed()) return {};
    for (const Value side : sides) {
      if (is_computed(side)) step_.stored_first.insert(side);
    }
    return kernel::products_summed(out_, sides, a);
  }

  /// Whether a value takes arithmetic; what is only moved or widened is read where it lies.
  [[nodiscard]] bool is_computed(Value value) const {
    const Node& node = out_.graph().node(value.node);
    if (node.op == Op::reduce || node.op == Op::arg_reduce || node.op == Op::scan) return true;
    if (graph::is_elementwise(node.op) && node.op != Op::convert) return true;
    return !node.operands.empty() && is_computed(node.operands[0]);
  }

  // ---- results ----------------------------------------------------------------------------------------------

  Value updated(const CarriedValue& carried, int output) {
    const Node& node = body_.node(carried.update);
    const Value update = part(node.operands[1], {carried.row_dimension});
    std::vector<Value> operands = {
        parameter(node.type(), {Source::Kind::output, output}, body_.node(carried.update).name), update};
    for (std::size_t d = 0; d + 2 < node.operands.size(); ++d) {
      const bool turns = static_cast<int>(d) == carried.turn_dimension;
      const bool rows = static_cast<int>(d) == carried.row_dimension;
      operands.push_back(turns ? part(node.operands[d + 2], {}) : rows ? first_row() : zero());
    }
    // Starts are of one type; turns and rows fit 32 bits, whatever the counter has.
    for (std::size_t i = 2; i < operands.size(); ++i) operands[i] = out_.convert(operands[i], DType::s32);
    out_.at(node.name, node.line);
    return out_.add(Op::dynamic_update_slice, std::move(operands), graph::UpdateAttributes{true});
  }

  const Graph& kernel_;
  const NodeId loop_id_;
  const Node& loop_;
  const Graph& body_;
  const std::vector<std::vector<NodeId>> users_;
  const RowSplit& split_;
  graph::Builder out_;
  RecurrentStep step_;
  std::map<std::size_t, int> state_of_;  ///< by carried value
  std::map<std::size_t, Value> inputs_;  ///< by carried value: the whole of an invariant
  std::map<std::pair<Value, Part>, Value> made_;
  std::map<std::pair<Value, Part>, Value> contracted_;
  Value first_row_, zero_;
};

constexpr std::int64_t alignment = 16;
std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

std::set<int> RecurrentStep::lasting_inputs() const {
  std::set<int> lasting;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == Source::Kind::input) lasting.insert(i);
  }
  return lasting;
}

bool RecurrentStep::is_sequence(int parameter) const {
  return std::ranges::any_of(sequences, [&](const Sequence& sequence) { return sequence.parameter == parameter; });
}

Result<std::shared_ptr<const RecurrentStep>> recurrent_step(const Graph& kernel, std::int64_t rows) {
  const std::optional<NodeId> loop = recurrent_loop(kernel);
  if (!loop) return make_error(ErrorKind::constraint, "not a loop by itself");
  STITCH_ASSIGN(const RowSplit split, split_rows(kernel, *loop));
  return recurrent_step(kernel, *loop, split, rows);
}

Result<std::shared_ptr<const RecurrentStep>> recurrent_step(const Graph& kernel, NodeId loop, const RowSplit& split,
                                                            std::int64_t rows) {
  if (rows < 1 || split.rows % rows != 0)
    return make_error(ErrorKind::constraint, "{} rows are no multiple of {}", split.rows, rows);
  Result<std::shared_ptr<const RecurrentStep>> step = StepBuilder(kernel, loop, split, rows).build();
  if (!step) return make_error(ErrorKind::constraint, "a turn of the loop: {}", step.error().message);
  return step;
}

ResidentLayout resident_layout(const RecurrentStep& step, std::span<const std::int64_t> scratch_bytes) {
  ResidentLayout layout;
  for (const RecurrentStep::State& state : step.states) {
    layout.states.push_back(layout.copy);
    layout.copy += aligned(state.type.bytes());
  }
  layout.bytes = 2 * layout.copy;
  for (const std::int64_t bytes : scratch_bytes) {
    layout.scratch.push_back(layout.bytes);
    layout.bytes += aligned(bytes);
  }
  layout.first_row = layout.bytes;
  layout.bytes += alignment;
  return layout;
}

}  // namespace stitch::kernel
