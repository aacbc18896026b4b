#include "kernel/loop/step_builder.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "graph/builder.h"
#include "graph/fill.h"
#include "graph/literal.h"
#include "kernel/loop/row_split.h"
#include "kernel/loop/step_inputs.h"
#include "kernel/structure/contraction.h"
#include "kernel/structure/phase_assignment.h"

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
      : body_(*kernel.node(loop).regions[0]),
        constraints_(kernel.constraints),
        users_(graph::users(body_)),
        split_(split),
        out_(kernel.name),
        step_(step_of(split, rows)),
        inputs_(kernel, loop, split, out_, step_) {}

  Result<std::shared_ptr<const RecurrentStep>> build() {
    std::vector<Value> results;
    for (std::size_t i = 0; i < split_.carried.size(); ++i) {
      const CarriedValue& carried = split_.carried[i];
      if (carried.kind == CarriedValue::Kind::state) {
        results.push_back(part(body_.results()[i], {carried.row_dimension}));
        step_.targets.push_back({true, inputs_.state(i)});
      } else if (const auto output = inputs_.output_of(i); output && carried.kind == CarriedValue::Kind::stacked) {
        results.push_back(updated(carried, *output));
        step_.targets.push_back({false, *output});
      } else if (output) {
        return make_error(ErrorKind::constraint, "result {} of the loop is what it was given", i);
      }
    }
    STITCH_ASSIGN(step_.graph, out_.finish(std::move(results)));
    step_.graph.constraints = constraints_;
    return std::make_shared<const RecurrentStep>(std::move(step_));
  }

 private:
  static RecurrentStep step_of(const RowSplit& split, std::int64_t rows) {
    RecurrentStep step;
    step.turns = split.turns;
    step.rows = rows;
    step.blocks = split.rows / rows;
    return step;
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
      return inputs_.cut(inputs_.rows_of(part(value, {}), wanted.row), wanted.dimension, wanted.start, wanted.size);
    switch (node.op) {
      case Op::parameter:
        return inputs_.cut(inputs_.rows_of_parameter(value, wanted.row), wanted.dimension, wanted.start, wanted.size);
      case Op::constant: {
        const auto& constant = node.as<graph::ConstantAttributes>();
        if (constant.type.rank() > 0 && graph::fill_bits(body_, value)) return filled(constant, wanted);
        return inputs_.cut(inputs_.rows_of(out_.constant(constant), wanted.row), wanted.dimension, wanted.start,
                           wanted.size);
      }
      case Op::iota: {
        const auto& a = node.as<graph::IotaAttributes>();
        const Value whole = out_.iota(a.type.dtype, a.type.dims, a.dimension);
        return inputs_.cut(inputs_.rows_of(whole, wanted.row), wanted.dimension, wanted.start, wanted.size);
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
    return inputs_.cut(part(value, {wanted.row}), wanted.dimension, wanted.start, wanted.size);
  }

  Value filled(const graph::ConstantAttributes& constant, const Part& wanted) {
    Dims dims = constant.type.dims;
    if (wanted.row >= 0) dims[wanted.row] = step_.rows;
    if (wanted.dimension >= 0) dims[wanted.dimension] = wanted.size;
    const std::uint64_t bits = graph::element_bits(constant, 0);
    return out_.broadcast(out_.constant(graph::scalar_of(constant.type.dtype, bits)), std::move(dims), {});
  }

  /// What a slice of which `wanted` is needed takes of its operand, if that is one run along one dimension.
  [[nodiscard]] std::optional<Part> behind_slice(const Node& node, const Part& wanted) const {
    const auto& a = node.as<graph::SliceAttributes>();
    const Dims& from = body_.type(node.operands[0]).dims;
    Part below{wanted.row};
    for (int d = 0; d < std::ssize(from); ++d) {
      const bool here = wanted.dimension == d;
      if (a.starts[d] == 0 && a.limits[d] == from[d] && a.strides[d] == 1 && !here) continue;
      if (a.strides[d] != 1 || below.dimension >= 0 || wanted.row == d) return std::nullopt;
      below.dimension = d;
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
    if (node.op == Op::dynamic_slice) inputs_.note_sequence(value.node, parts[0].row);
    const Value made = out_.add(node.op, std::move(operands), std::move(attributes));
    return Value{made.node, value.result};
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
        piece[1 - i] = inputs_.cut(sides[1 - i], across, at, extent);
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
    if (!inputs_.is_state(operand)) return part(operand, wanted);
    const auto [found, fresh] = contracted_.try_emplace({operand, wanted});
    if (fresh)
      found->second =
          inputs_.cut(inputs_.rows_of_parameter(operand, wanted.row), wanted.dimension, wanted.start, wanted.size);
    return found->second;
  }

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
    if (graph::reduced_dimensions(node) || walks_lines(node.op)) return true;
    if (graph::is_elementwise(node.op) && node.op != Op::convert) return true;
    return !node.operands.empty() && is_computed(node.operands[0]);
  }

  // ---- results ----------------------------------------------------------------------------------------------

  Value updated(const CarriedValue& carried, int output) {
    const Node& node = body_.node(carried.update);
    const Value update = part(node.operands[1], {carried.row_dimension});
    std::vector<Value> operands = {
        inputs_.parameter(node.type(), {Source::Kind::output, output}, body_.node(carried.update).name), update};
    for (int d = 0; d + 2 < std::ssize(node.operands); ++d) {
      const bool turns = d == carried.turn_dimension;
      const bool rows = d == carried.row_dimension;
      operands.push_back(turns ? part(node.operands[d + 2], {}) : rows ? inputs_.first_row() : inputs_.zero());
    }
    // Starts are of one type; turns and rows fit 32 bits, whatever the counter has.
    for (std::size_t i = 2; i < operands.size(); ++i) operands[i] = out_.convert(operands[i], DType::s32);
    out_.at(node.name, node.line);
    return out_.add(Op::dynamic_update_slice, std::move(operands), graph::UpdateAttributes{true});
  }

  const Graph& body_;
  const graph::Constraints constraints_;
  const std::vector<std::vector<NodeId>> users_;
  const RowSplit& split_;
  graph::Builder out_;
  RecurrentStep step_;
  StepInputs inputs_;
  std::map<std::pair<Value, Part>, Value> made_;
  std::map<std::pair<Value, Part>, Value> contracted_;
};

}  // namespace

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

}  // namespace stitch::kernel
