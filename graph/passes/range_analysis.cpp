#include "graph/passes/range_analysis.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/infer_checks.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double exact_limit = 0x1p53;  // integers below are doubles; this one may stand for the next

/// The range as integers of `dtype` see it: all of the dtype when it may be left (wrapping) or is inexact.
ValueRange wrapped(ValueRange range, DType dtype) {
  const ValueRange all = range_of(dtype);
  const bool inside = range.low >= all.low && range.high <= all.high;
  return inside && is_exact(range) ? ValueRange{range.low, range.high, false} : all;
}

ValueRange rounded(ValueRange range, DType dtype) {
  const ValueRange result{round_to(dtype, range.low), round_to(dtype, range.high), range.may_be_nan};
  return std::isnan(result.low) || std::isnan(result.high) ? range_of(dtype) : result;
}

ValueRange hull(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
}

bool bounded(const ValueRange& range) { return std::isfinite(range.low) && std::isfinite(range.high); }

ValueRange product(const ValueRange& a, const ValueRange& b) {
  const double corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  if (std::any_of(std::begin(corners), std::end(corners), [](double c) { return std::isnan(c); })) return {};
  return {*std::min_element(std::begin(corners), std::end(corners)),
          *std::max_element(std::begin(corners), std::end(corners)), false};
}

ValueRange of_constant(const ConstantAttributes& constant) {
  const std::int64_t count = is_splat(constant) ? 1 : constant.type.elements();
  if (count == 0) return range_of(constant.type.dtype);
  ValueRange range{infinity, -infinity, false};
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = element(constant, i);
    if (std::isnan(value)) return range_of(constant.type.dtype);
    range = {std::min(range.low, value), std::max(range.high, value), false};
  }
  return is_floating(constant.type.dtype) ? range : wrapped(range, constant.type.dtype);
}

/// Smallest 2^k - 1 that is at least `value`.
double mask_above(double value) {
  if (!(value < exact_limit)) return infinity;
  return static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(value) + 1) - 1);
}

/// Bits of a non-negative f32 grow with its value.
ValueRange float_of_bits(const ValueRange& bits) {
  if (bits.low < 0 || bits.high > 0x7f800000) return {};
  const auto value = [](double b) { return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(b))); };
  return {value(bits.low), value(bits.high), false};
}

ValueRange of_function(Op op, const ValueRange& x) {
  const OpInfo& row = info(op);
  if (row.range) {
    const bool leaves = x.low < row.defined.low || x.high > row.defined.high;
    return {row.range->low, row.range->high, x.may_be_nan || leaves};
  }
  switch (op) {
    case Op::sign: return {x.low >= 0 ? 0.0 : -1.0, x.high <= 0 ? 0.0 : 1.0, x.may_be_nan};
    case Op::floor: return {std::floor(x.low), std::floor(x.high), x.may_be_nan};
    case Op::ceil: return {std::ceil(x.low), std::ceil(x.high), x.may_be_nan};
    case Op::round_even:
    case Op::round_away: return {std::floor(x.low), std::ceil(x.high), x.may_be_nan};
    default: return {};
  }
}

ValueRange converted(const ValueRange& x, DType from, DType to) {
  if (to == DType::pred) {
    const bool zero = x.low == 0 && x.high == 0 && !x.may_be_nan;
    return {x.low > 0 || x.high < 0 ? 1.0 : 0.0, zero ? 0.0 : 1.0, false};
  }
  if (is_floating(to)) return rounded(x, to);
  if (!is_floating(from)) return wrapped(x, to);
  ValueRange whole{round_to(to, std::trunc(x.low)), round_to(to, std::trunc(x.high)), false};
  if (x.may_be_nan) whole = hull(whole, {0, 0, false});
  return wrapped(whole, to);
}

}  // namespace

bool is_exact(const ValueRange& range) {
  return std::fabs(range.low) < exact_limit && std::fabs(range.high) < exact_limit;
}

ValueRange range_of(DType dtype) {
  if (is_floating(dtype)) return {};
  if (dtype == DType::pred) return {0, 1, false};
  const int bits = 8 * byte_size(dtype);
  if (bits == 64) return {is_signed_integer(dtype) ? -infinity : 0, infinity, false};
  if (is_signed_integer(dtype)) return {-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1, false};
  return {0, std::ldexp(1, bits) - 1, false};
}

ValueRange RangeAnalysis::of(const Rewriter& graph, Value value) {
  if (value.result != 0) return compute(graph, graph.node(value), value.result);
  const std::size_t id = value.node;
  if (id >= known_.size()) known_.resize(id + 1);
  if (!known_[id]) {
    ValueRange range = range_of(graph.dtype(value));
    if (const int position = graph.parameter_position(value); position < 0) {
      range = compute(graph, graph.node(value), 0);
    } else if (static_cast<std::size_t>(position) < parameters_.size()) {
      range = parameters_[position];
    }
    known_[id] = range;
  }
  return *known_[id];
}

ValueRange RangeAnalysis::compute(const Rewriter& graph, const Node& node, std::int32_t result) {
  const DType dtype = node.type(result).dtype;
  switch (node.op) {
    case Op::constant: return of_constant(node.as<ConstantAttributes>());
    case Op::iota: {
      const auto& a = node.as<IotaAttributes>();
      const ValueRange range{0, static_cast<double>(std::max<std::int64_t>(a.type.dims[a.dimension] - 1, 0)), false};
      return is_floating(dtype) ? rounded(range, dtype) : wrapped(range, dtype);
    }
    case Op::broadcast:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::reverse:
    case Op::gather:
    case Op::dynamic_slice: return operand(graph, node, 0);
    case Op::pad:
    case Op::dynamic_update_slice: return hull(operand(graph, node, 0), operand(graph, node, 1));
    case Op::concatenate: {
      ValueRange range = operand(graph, node, 0);
      for (std::size_t i = 1; i < node.operands.size(); ++i) range = hull(range, operand(graph, node, i));
      return range;
    }
    case Op::sort: return operand(graph, node, result);
    case Op::select: return hull(operand(graph, node, 1), operand(graph, node, 2));
    case Op::convert: return converted(operand(graph, node, 0), graph.dtype(node.operands[0]), dtype);
    case Op::bitcast_convert: {
      const DType from = graph.dtype(node.operands[0]);
      const bool bits = dtype == DType::f32 && is_unsigned_integer(from);
      return bits ? float_of_bits(operand(graph, node, 0)) : range_of(dtype);
    }
    case Op::reduce: {
      const auto& a = node.as<ReduceAttributes>();
      const bool extreme = a.kind == ReduceKind::max || a.kind == ReduceKind::min;
      const bool logical = dtype == DType::pred && (a.kind == ReduceKind::bit_and || a.kind == ReduceKind::bit_or);
      const bool some = graph.type(node.operands[0]).elements() > 0;
      return (extreme || logical) && some ? operand(graph, node, 0) : range_of(dtype);
    }
    case Op::arg_reduce: {
      if (result == 0) return operand(graph, node, 0);
      const std::int64_t length = graph.dims(node.operands[0])[node.as<ArgReduceAttributes>().dimension];
      return wrapped({0, static_cast<double>(length - 1), false}, dtype);
    }
    case Op::compare:
    case Op::is_finite:
    case Op::is_nan:
    case Op::is_inf: return comparison(graph, node);
    case Op::bit_not:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shift_left:
    case Op::shift_right_logical:
    case Op::shift_right_arithmetic: return bitwise(graph, node);
    case Op::threefry2x32:
    case Op::philox4x32: return range_of(dtype);
    default: return is_elementwise(node.op) ? arithmetic(graph, node) : range_of(dtype);
  }
}

ValueRange RangeAnalysis::arithmetic(const Rewriter& graph, const Node& node) {
  const DType dtype = node.type().dtype;
  const ValueRange x = operand(graph, node, 0);
  const ValueRange y = node.operands.size() > 1 ? operand(graph, node, 1) : ValueRange{};
  const bool nan = is_floating(dtype) && (x.may_be_nan || (node.operands.size() > 1 && y.may_be_nan));
  const auto settled = [&](ValueRange range) {
    range.may_be_nan = nan;
    return is_floating(dtype) ? rounded(range, dtype) : wrapped(range, dtype);
  };
  const bool finite = bounded(x) && (node.operands.size() < 2 || bounded(y));
  switch (node.op) {
    case Op::negate: return settled({-x.high, -x.low, false});
    case Op::abs:
      if (x.low >= 0) return settled({x.low, x.high, false});
      return settled({0, std::max(-x.low, x.high), false});
    case Op::maximum: return settled({std::max(x.low, y.low), std::max(x.high, y.high), false});
    case Op::minimum: return settled({std::min(x.low, y.low), std::min(x.high, y.high), false});
    case Op::clamp: {
      const ValueRange high = operand(graph, node, 2);
      ValueRange range{std::min(std::max(x.low, y.low), high.low), std::min(std::max(x.high, y.high), high.high),
                       false};
      range.may_be_nan = is_floating(dtype) && (nan || high.may_be_nan);
      return range;
    }
    case Op::multiply:
      if (node.operands[0] == node.operands[1] && is_floating(dtype) && dtype != DType::f8e4m3) {
        return {0, finite ? round_to(dtype, std::max(x.low * x.low, x.high * x.high)) : infinity, nan};
      }
      return finite ? settled(product(x, y)) : range_of(dtype);
    case Op::add: return finite ? settled({x.low + y.low, x.high + y.high, false}) : range_of(dtype);
    case Op::subtract: return finite ? settled({x.low - y.high, x.high - y.low, false}) : range_of(dtype);
    case Op::divide:
      if (is_floating(dtype) || !finite || y.low < 1) return range_of(dtype);
      return wrapped(hull({std::trunc(x.low / y.low), std::trunc(x.high / y.low), false},
                          {std::trunc(x.low / y.high), std::trunc(x.high / y.high), false}),
                     dtype);
    case Op::remainder:
      if (is_floating(dtype) || y.low < 1 || !std::isfinite(y.high)) return range_of(dtype);
      return wrapped(
          {x.low >= 0 ? 0 : 1 - y.high, x.high <= 0 ? 0 : std::min(y.high - 1, std::max(x.high, 0.0)), false}, dtype);
    default:  // f8e4m3 has NaN where others have infinities
      return is_floating(dtype) && dtype != DType::f8e4m3 ? of_function(node.op, x) : range_of(dtype);
  }
}

ValueRange RangeAnalysis::bitwise(const Rewriter& graph, const Node& node) {
  const DType dtype = node.type().dtype;
  const ValueRange x = operand(graph, node, 0);
  if (node.op == Op::bit_not) return dtype == DType::pred ? ValueRange{1 - x.high, 1 - x.low, false} : range_of(dtype);
  const ValueRange y = operand(graph, node, 1);
  if (x.low < 0 || y.low < 0) return range_of(dtype);
  switch (node.op) {
    case Op::bit_and:
      return wrapped({x.low == 1 && y.low == 1 && dtype == DType::pred ? 1.0 : 0.0, std::min(x.high, y.high), false},
                     dtype);
    case Op::bit_or: return wrapped({std::max(x.low, y.low), mask_above(std::max(x.high, y.high)), false}, dtype);
    case Op::bit_xor: return wrapped({0, mask_above(std::max(x.high, y.high)), false}, dtype);
    case Op::shift_left:
      if (!bounded(x) || y.high >= 8 * byte_size(dtype)) return range_of(dtype);
      return wrapped({std::ldexp(x.low, y.low), std::ldexp(x.high, y.high), false}, dtype);
    default: {  // shifts to the right, of what is not negative
      const double bits = 8 * byte_size(dtype);
      const bool top_bit = is_unsigned_integer(dtype) && !(x.high < std::ldexp(1, 8 * byte_size(dtype) - 1));
      if (node.op == Op::shift_right_arithmetic && top_bit) return range_of(dtype);  // it is copied
      const double most = std::isfinite(x.high) ? x.high : std::ldexp(1, 64) - 1;
      const auto shifted = [&](double value, double by) {
        return by >= bits ? 0.0 : std::floor(std::ldexp(value, -static_cast<int>(by)));
      };
      return wrapped({shifted(x.low, y.high), shifted(most, y.low), false}, dtype);
    }
  }
}

ValueRange RangeAnalysis::comparison(const Rewriter& graph, const Node& node) {
  constexpr ValueRange always{1, 1, false}, never{0, 0, false}, either{0, 1, false};
  const ValueRange x = operand(graph, node, 0);
  if (node.op == Op::is_nan) return x.may_be_nan ? either : never;
  if (node.op == Op::is_finite) return !x.may_be_nan && bounded(x) ? always : either;
  if (node.op == Op::is_inf) return bounded(x) ? never : either;
  const ValueRange y = operand(graph, node, 1);
  const bool nan = x.may_be_nan || y.may_be_nan;
  // Infinite ends of 64-bit ranges stand for "not known", so that equality of ends proves nothing there.
  const bool apart = x.high < y.low || x.low > y.high;
  const bool same = x.low == x.high && x == y && std::isfinite(x.low);
  const auto decide = [&](bool holds, bool fails) {
    if (holds && !nan) return always;
    return fails ? never : either;  // a NaN makes every ordering false
  };
  switch (node.as<CompareAttributes>().direction) {
    case Comparison::eq: return decide(same, apart);
    case Comparison::ne: return apart ? always : same && !nan ? never : either;
    case Comparison::lt: return decide(x.high < y.low, x.low >= y.high && std::isfinite(x.low));
    case Comparison::le: return decide(x.high <= y.low && std::isfinite(x.high), x.low > y.high);
    case Comparison::gt: return decide(x.low > y.high, x.high <= y.low && std::isfinite(x.high));
    case Comparison::ge: return decide(x.low >= y.high && std::isfinite(x.low), x.high < y.low);
  }
  return either;
}

}  // namespace stitch::graph
