#include "graph/passes/conversions.h"

#include <cmath>

#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

int value_bits(DType integer) { return 8 * byte_size(integer) - (is_signed_integer(integer) ? 1 : 0); }

int exponent_bits(DType floating) { return 8 * byte_size(floating) - 1 - info(floating).mantissa_bits; }

Replacement convert(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const DType to = node.type().dtype, between = graph.dtype(x);
  if (to == between) return x;
  if (graph.is(x, Op::convert)) {
    const Value source = graph.operand(x);
    const DType from = graph.dtype(source);
    const bool all_integers = is_integer(from) && is_integer(between) && is_integer(to);
    // What does not fit saturates when it comes from a floating value, and wraps when it comes from an integer.
    const bool saturates = is_integer(from) && is_floating(between) && is_integer(to) && to != DType::pred;
    if (saturates && !holds_all_values(to, from)) return {};
    if (holds_all_values(between, from) || (all_integers && byte_size(to) <= byte_size(between))) {
      return graph.convert(source, to);
    }
  }
  if (graph.is(x, Op::iota) && is_integer(between) && to != DType::pred) {
    auto a = graph.node(x).as<IotaAttributes>();
    const std::int64_t length = a.type.dims[a.dimension];
    if (!counts_exactly(between, length)) return {};
    a.type.dtype = to;
    return graph.add(Op::iota, {}, a);
  }
  return {};
}

Replacement bitcast(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const DType to = node.type().dtype;
  if (to == graph.dtype(x)) return x;
  if (!graph.is(x, Op::bitcast_convert) || graph.dtype(x) == DType::pred) return {};  // a pred's byte becomes 0 or 1
  const Value source = graph.operand(x);
  return graph.dtype(source) == to ? source : graph.add(Op::bitcast_convert, {source}, ConvertAttributes{to});
}

Replacement converted_select(Rewriter& graph, const Node& node) {
  if (node.type().dtype == DType::pred) return {};
  if (!is_splat_of(graph, node.operands[1], 1) || !is_splat_of(graph, node.operands[2], 0)) return {};
  const ConstantAttributes* zero = splat_constant(graph, node.operands[2]);
  if (zero->data.back() != std::byte{0}) return {};  // -0
  return graph.convert(node.operands[0], node.type().dtype);
}

Replacement conversions_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::convert: return convert(graph, node);
    case Op::bitcast_convert: return bitcast(graph, node);
    case Op::select: return converted_select(graph, node);
    default: return {};
  }
}

}  // namespace

bool holds_all_values(DType to, DType from) {
  if (to == from || from == DType::pred) return true;
  if (to == DType::pred) return false;
  if (is_integer(from) && is_integer(to)) {
    return value_bits(to) >= value_bits(from) && (is_signed_integer(to) || is_unsigned_integer(from));
  }
  if (is_integer(from)) return info(to).mantissa_bits + 1 >= value_bits(from) && exponent_bits(to) >= 8;
  if (is_integer(to)) return false;
  // Equal exponent widths are enough for subnormals; e4m3 has no infinities, which only matters as `to`.
  return info(to).mantissa_bits >= info(from).mantissa_bits && exponent_bits(to) >= exponent_bits(from) &&
         to != DType::f8e4m3;
}

bool counts_exactly(DType dtype, std::int64_t count) {
  if (is_floating(dtype)) return count - 1 <= std::int64_t{2} << info(dtype).mantissa_bits;
  return value_bits(dtype) >= 63 || count <= std::int64_t{1} << value_bits(dtype);
}

Result<int> simplify_conversions(Graph& graph, const PassContext&) { return rewrite(graph, conversions_rule); }

}  // namespace stitch::graph
