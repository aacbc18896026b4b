#include "import/hlo/element_program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "graph/literal.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;

Scalar read_constant(const graph::ConstantAttributes& constant, std::int64_t index) {
  const DType dtype = constant.type.dtype;
  const std::byte* at = &constant.data[static_cast<std::size_t>(index * graph::byte_size(dtype))];
  Scalar scalar;
  if (graph::is_floating(dtype)) {
    scalar.real = graph::load_element(dtype, at);
  } else {
    scalar.integer = graph::load_integer(dtype, at);
  }
  return scalar;
}

/// Keeps the bits that the type has.
std::int64_t wrap(DType dtype, std::int64_t value) {
  std::byte buffer[8];
  graph::store_integer(dtype, value, buffer);
  return graph::load_integer(dtype, buffer);
}

Dims coordinates(std::int64_t index, const Dims& dims) {
  Dims at(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    at[d] = index % dims[d];
    index /= dims[d];
  }
  return at;
}

std::int64_t linear(const Dims& at, const Dims& dims) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) index = index * dims[d] + at[d];
  return index;
}

/// Which element of the operand an element of a pure layout operator is; nothing for other operators.
std::optional<std::int64_t> source_index(const Node& node, const Dims& operand, std::int64_t index) {
  if (node.op == Op::reshape) return index;
  const Dims at = coordinates(index, node.type().dims);
  Dims from(operand.size());
  switch (node.op) {
    case Op::broadcast: {
      const Dims& mapping = node.as<graph::BroadcastAttributes>().mapping;
      for (std::size_t d = 0; d < from.size(); ++d) from[d] = at[static_cast<std::size_t>(mapping[d])];
      break;
    }
    case Op::transpose: {
      const Dims& permutation = node.as<graph::TransposeAttributes>().permutation;
      for (std::size_t d = 0; d < at.size(); ++d) from[static_cast<std::size_t>(permutation[d])] = at[d];
      break;
    }
    case Op::slice: {
      const auto& a = node.as<graph::SliceAttributes>();
      for (std::size_t d = 0; d < at.size(); ++d) from[d] = a.starts[d] + at[d] * a.strides[d];
      break;
    }
    default: return std::nullopt;
  }
  return linear(from, operand);
}

bool is_order_only(Op op) {
  switch (op) {
    case Op::parameter:
    case Op::compare:
    case Op::select:
    case Op::maximum:
    case Op::minimum:
    case Op::is_nan: return true;
    default: return false;
  }
}

bool compare(graph::Comparison direction, bool less, bool equal, bool unordered) {
  switch (direction) {
    case graph::Comparison::eq: return equal;
    case graph::Comparison::ne: return !equal;
    case graph::Comparison::lt: return less;
    case graph::Comparison::le: return less || equal;
    case graph::Comparison::gt: return !less && !equal && !unordered;
    case graph::Comparison::ge: return !less && !unordered;
  }
  return false;
}

std::optional<double> apply_real(Op op, double x, double y) {
  switch (op) {
    case Op::add: return x + y;
    case Op::subtract: return x - y;
    case Op::multiply: return x * y;
    case Op::divide: return x / y;
    case Op::maximum: return std::isnan(x) || std::isnan(y) ? std::nan("") : std::max(x, y);
    case Op::minimum: return std::isnan(x) || std::isnan(y) ? std::nan("") : std::min(x, y);
    case Op::negate: return -x;
    case Op::abs: return std::fabs(x);
    case Op::floor: return std::floor(x);
    case Op::ceil: return std::ceil(x);
    default: return std::nullopt;
  }
}

/// Unsigned arithmetic, so that overflow wraps; the caller keeps the type's bits.
std::optional<std::int64_t> apply_integer(Op op, DType dtype, std::int64_t x, std::int64_t y) {
  const auto a = static_cast<std::uint64_t>(x), b = static_cast<std::uint64_t>(y);
  const bool is_unsigned = !graph::is_signed_integer(dtype);
  const bool less = is_unsigned ? a < b : x < y;
  const auto bits = static_cast<std::uint64_t>(graph::byte_size(dtype)) * 8;
  switch (op) {
    case Op::add: return static_cast<std::int64_t>(a + b);
    case Op::subtract: return static_cast<std::int64_t>(a - b);
    case Op::multiply: return static_cast<std::int64_t>(a * b);
    case Op::negate: return static_cast<std::int64_t>(0 - a);
    case Op::bit_and: return x & y;
    case Op::bit_or: return x | y;
    case Op::bit_xor: return x ^ y;
    case Op::bit_not: return dtype == DType::pred ? 1 - x : ~x;
    case Op::maximum: return less ? y : x;
    case Op::minimum: return less ? x : y;
    case Op::shift_left: return b >= bits ? 0 : static_cast<std::int64_t>(a << b);
    case Op::shift_right_logical: {
      const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      return b >= bits ? 0 : static_cast<std::int64_t>((a & mask) >> b);
    }
    case Op::shift_right_arithmetic: return x >> std::min<std::uint64_t>(b, bits - 1);
    case Op::divide:
    case Op::remainder:
      // The most negative number over -1 overflows in C++.
      if (y == 0 || (!is_unsigned && y == -1)) return std::nullopt;
      if (is_unsigned) return static_cast<std::int64_t>(op == Op::divide ? a / b : a % b);
      return op == Op::divide ? x / y : x % y;
    default: return std::nullopt;
  }
}

Scalar convert(const Scalar& x, DType from, DType to) {
  Scalar result;
  if (graph::is_floating(to)) {
    result.real = graph::round_to(to, as_number(x, from));
  } else if (graph::is_floating(from)) {
    std::byte buffer[8];
    graph::store_element(to, x.real, buffer);
    result.integer = graph::load_integer(to, buffer);
  } else {
    result.integer = wrap(to, x.integer);
  }
  return result;
}

}  // namespace

double as_number(const Scalar& scalar, DType dtype) {
  if (graph::is_floating(dtype)) return scalar.real;
  if (dtype == DType::u64) return static_cast<double>(static_cast<std::uint64_t>(scalar.integer));
  return static_cast<double>(scalar.integer);
}

Scalar from_number(double number, DType dtype) { return convert({0, number}, DType::f64, dtype); }

/// Traces elements back; each distinct one becomes a step, operands first.
class ElementProgram::Compiler {
 public:
  Compiler(const Graph& graph, std::size_t most_steps) : graph_(graph), most_steps_(most_steps) {}

  std::optional<ElementProgram> compile(std::span<const Element> outputs) {
    for (const Element& output : outputs) {
      if (!trace(output)) return std::nullopt;
      program_.outputs_.push_back(slots_.at(output));
    }
    return std::move(program_);
  }

 private:
  /// Depth first with an explicit stack: graphs are deeper than call stacks.
  bool trace(const Element& output) {
    std::vector<Element> pending = {output};
    while (!pending.empty()) {
      const Element element = pending.back();
      if (slots_.contains(element)) {
        pending.pop_back();
        continue;
      }
      if (slots_.size() >= most_steps_ || pending.size() > 4 * most_steps_) return false;
      std::vector<Element> operands;
      if (!find_operands(element, operands)) return false;
      const std::size_t before = pending.size();
      for (const Element& operand : operands) {
        if (!slots_.contains(operand)) pending.push_back(operand);
      }
      if (pending.size() != before) continue;
      pending.pop_back();
      emit(element, operands);
    }
    return true;
  }

  bool find_operands(const Element& element, std::vector<Element>& operands) const {
    const Node& node = graph_.node(element.value.node);
    if (node.op == Op::parameter || node.op == Op::constant || node.op == Op::iota) return true;
    if (graph::is_elementwise(node.op) && node.op != Op::threefry2x32 && node.operands.size() <= 3) {
      for (const graph::Value& operand : node.operands) operands.push_back({operand, element.index});
      return true;
    }
    if (node.operands.empty()) return false;
    const std::optional<std::int64_t> from = source_index(node, graph_.type(node.operands[0]).dims, element.index);
    if (from) operands.push_back({node.operands[0], *from});
    return from.has_value();
  }

  void emit(const Element& element, const std::vector<Element>& operands) {
    const Node& node = graph_.node(element.value.node);
    if (graph::info(node.op).category == graph::OpCategory::layout) {
      slots_.emplace(element, slots_.at(operands[0]));
      return;
    }
    Step step;
    step.op = node.op;
    step.dtype = step.operand_dtype = node.type().dtype;
    for (std::size_t i = 0; i < operands.size(); ++i) step.operands[i] = slots_.at(operands[i]);
    if (!operands.empty()) step.operand_dtype = graph_.type(node.operands[0]).dtype;
    switch (node.op) {
      case Op::constant: step.value = read_constant(node.as<graph::ConstantAttributes>(), element.index); break;
      case Op::iota: {
        const auto dimension = static_cast<std::size_t>(node.as<graph::IotaAttributes>().dimension);
        const auto at = static_cast<double>(coordinates(element.index, node.type().dims)[dimension]);
        step.op = Op::constant;
        step.value = from_number(at, step.dtype);
        break;
      }
      case Op::parameter: program_.inputs_.push_back(input_of(element)); break;
      case Op::compare: step.comparison = node.as<graph::CompareAttributes>().direction; break;
      default: break;
    }
    const bool truth = step.dtype == DType::pred && (step.op == Op::bit_and || step.op == Op::bit_or ||
                                                     step.op == Op::bit_xor || step.op == Op::bit_not);
    program_.only_compares_ &= truth || is_order_only(step.op);
    slots_.emplace(element, static_cast<std::int32_t>(program_.steps_.size()));
    program_.steps_.push_back(step);
  }

  [[nodiscard]] Input input_of(const Element& element) const {
    const auto parameters = graph_.parameters();
    const auto found = std::find(parameters.begin(), parameters.end(), element.value.node);
    return {found - parameters.begin(), element.index};
  }

  const Graph& graph_;
  std::size_t most_steps_;
  ElementProgram program_;
  std::map<Element, std::int32_t> slots_;
};

std::optional<ElementProgram> ElementProgram::compile(const Graph& graph, std::span<const Element> outputs,
                                                      std::size_t most_steps) {
  return Compiler(graph, most_steps).compile(outputs);
}

std::optional<Scalar> ElementProgram::apply(const Step& step, const Scalar* x, const Scalar* y, const Scalar* z) {
  const bool real = graph::is_floating(step.operand_dtype);
  switch (step.op) {
    case Op::select: return x->integer != 0 ? *y : *z;
    case Op::convert: return convert(*x, step.operand_dtype, step.dtype);
    case Op::is_nan: return Scalar{std::isnan(x->real) ? 1 : 0, 0};
    case Op::compare: {
      if (real) {
        const bool unordered = std::isnan(x->real) || std::isnan(y->real);
        return Scalar{compare(step.comparison, x->real < y->real, x->real == y->real, unordered) ? 1 : 0, 0};
      }
      const bool less = graph::is_signed_integer(step.operand_dtype)
                            ? x->integer < y->integer
                            : static_cast<std::uint64_t>(x->integer) < static_cast<std::uint64_t>(y->integer);
      return Scalar{compare(step.comparison, less, x->integer == y->integer, false) ? 1 : 0, 0};
    }
    case Op::clamp: {
      const Step lower{Op::maximum, step.dtype, step.dtype, {}, {}, {}};
      const Step upper{Op::minimum, step.dtype, step.dtype, {}, {}, {}};
      const std::optional<Scalar> raised = apply(lower, x, y, nullptr);
      return apply(upper, &*raised, z, nullptr);
    }
    default: break;
  }
  if (real) {
    const std::optional<double> result = apply_real(step.op, x->real, y == nullptr ? 0 : y->real);
    if (!result) return std::nullopt;
    return Scalar{0, graph::round_to(step.dtype, *result)};
  }
  const std::optional<std::int64_t> result =
      apply_integer(step.op, step.dtype, x->integer, y == nullptr ? 0 : y->integer);
  if (!result) return std::nullopt;
  return Scalar{wrap(step.dtype, *result), 0};
}

std::optional<std::vector<Scalar>> ElementProgram::run(std::span<const Scalar> inputs) const {
  std::vector<Scalar> values(steps_.size());
  std::size_t next_input = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.op == Op::parameter) {
      values[i] = inputs[next_input++];
    } else if (step.op == Op::constant) {
      values[i] = step.value;
    } else {
      const auto operand = [&](int k) { return &values[static_cast<std::size_t>(step.operands[k])]; };
      const int arity = graph::info(step.op).max_operands;
      const std::optional<Scalar> result =
          apply(step, operand(0), arity > 1 ? operand(1) : nullptr, arity > 2 ? operand(2) : nullptr);
      if (!result) return std::nullopt;
      values[i] = *result;
    }
  }
  std::vector<Scalar> outputs;
  for (const std::int32_t output : outputs_) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

std::optional<Scalar> constant_scalar(const Graph& graph, graph::Value value) {
  if (graph.type(value).elements() != 1) return std::nullopt;
  const Element element{value, 0};
  const std::optional<ElementProgram> program = ElementProgram::compile(graph, {&element, 1});
  if (!program || !program->inputs().empty()) return std::nullopt;
  const std::optional<std::vector<Scalar>> result = program->run({});
  if (!result) return std::nullopt;
  return (*result)[0];
}

}  // namespace stitch::import::hlo
