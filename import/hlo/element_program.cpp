#include "import/hlo/element_program.h"

#include <algorithm>
#include <cmath>

#include "graph/literal.h"

namespace stitch::import::hlo {
namespace {

using graph::DType;
using graph::Graph;
using graph::Op;

/// Keeps the bits that the type has.
std::int64_t wrap(DType dtype, std::int64_t value) {
  std::byte buffer[8];
  graph::store_integer(dtype, value, buffer);
  return graph::load_integer(dtype, buffer);
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
  const std::uint64_t a = x, b = y;
  const bool is_unsigned = !graph::is_signed_integer(dtype);
  const bool less = is_unsigned ? a < b : x < y;
  const auto bits = static_cast<std::uint64_t>(graph::byte_size(dtype)) * 8;
  switch (op) {
    case Op::add: return a + b;
    case Op::subtract: return a - b;
    case Op::multiply: return a * b;
    case Op::negate: return 0 - a;
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
      if (y == 0) return -1;
      if (!is_unsigned && y == -1) return 0 - a;  // the least number overflows in C++
      return is_unsigned ? static_cast<std::int64_t>(a / b) : x / y;
    case Op::remainder:
      if (y == 0) return x;
      if (!is_unsigned && y == -1) return 0;
      return is_unsigned ? static_cast<std::int64_t>(a % b) : x % y;
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
      const auto operand = [&](int k) { return &values[step.operands[k]]; };
      const int arity = graph::info(step.op).max_operands;
      const std::optional<Scalar> result =
          apply(step, operand(0), arity > 1 ? operand(1) : nullptr, arity > 2 ? operand(2) : nullptr);
      if (!result) return std::nullopt;
      values[i] = *result;
    }
  }
  std::vector<Scalar> outputs;
  for (const std::int32_t output : outputs_) outputs.push_back(values[output]);
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
