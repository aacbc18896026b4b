#include "graph/op.h"

#include <array>
#include <unordered_map>

namespace stitch::graph {
namespace {

using enum Op;
using C = OpCategory;
using K = OpCost;
using D = OpDomain;

// op, name, category, cost, operands (min, max), commutative, domain
constexpr OpInfo rows[] = {
    {parameter, "parameter", C::source, K::free, 0, 0, false, D::any},
    {constant, "constant", C::source, K::free, 0, 0, false, D::any},
    {iota, "iota", C::source, K::light, 0, 0, false, D::number},

    {negate, "negate", C::elementwise, K::light, 1, 1, false, D::number},
    {abs, "abs", C::elementwise, K::light, 1, 1, false, D::number},
    {sign, "sign", C::elementwise, K::light, 1, 1, false, D::number},
    {floor, "floor", C::elementwise, K::light, 1, 1, false, D::floating},
    {ceil, "ceil", C::elementwise, K::light, 1, 1, false, D::floating},
    {round_even, "round-even", C::elementwise, K::light, 1, 1, false, D::floating},
    {round_away, "round-away", C::elementwise, K::light, 1, 1, false, D::floating},
    {exp, "exp", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {expm1, "expm1", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {log, "log", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {log1p, "log1p", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {sqrt, "sqrt", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {rsqrt, "rsqrt", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {cbrt, "cbrt", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {logistic, "logistic", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {erf, "erf", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {erfc, "erfc", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {sin, "sin", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {cos, "cos", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {tan, "tan", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {asin, "asin", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {acos, "acos", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {atan, "atan", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {sinh, "sinh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {cosh, "cosh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {tanh, "tanh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {asinh, "asinh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {acosh, "acosh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {atanh, "atanh", C::elementwise, K::expensive, 1, 1, false, D::floating},
    {is_finite, "is-finite", C::elementwise, K::light, 1, 1, false, D::floating},
    {is_nan, "is-nan", C::elementwise, K::light, 1, 1, false, D::floating},
    {is_inf, "is-inf", C::elementwise, K::light, 1, 1, false, D::floating},
    {bit_not, "not", C::elementwise, K::light, 1, 1, false, D::bits},
    {popcount, "popcount", C::elementwise, K::light, 1, 1, false, D::integer},
    {convert, "convert", C::elementwise, K::light, 1, 1, false, D::any},
    {bitcast_convert, "bitcast-convert", C::elementwise, K::free, 1, 1, false, D::any},

    {add, "add", C::elementwise, K::light, 2, 2, true, D::number},
    {subtract, "subtract", C::elementwise, K::light, 2, 2, false, D::number},
    {multiply, "multiply", C::elementwise, K::light, 2, 2, true, D::number},
    {divide, "divide", C::elementwise, K::expensive, 2, 2, false, D::number},
    {remainder, "remainder", C::elementwise, K::expensive, 2, 2, false, D::number},
    {power, "power", C::elementwise, K::expensive, 2, 2, false, D::number},
    {maximum, "maximum", C::elementwise, K::light, 2, 2, true, D::any},
    {minimum, "minimum", C::elementwise, K::light, 2, 2, true, D::any},
    {atan2, "atan2", C::elementwise, K::expensive, 2, 2, false, D::floating},
    {bit_and, "and", C::elementwise, K::light, 2, 2, true, D::bits},
    {bit_or, "or", C::elementwise, K::light, 2, 2, true, D::bits},
    {bit_xor, "xor", C::elementwise, K::light, 2, 2, true, D::bits},
    {shift_left, "shift-left", C::elementwise, K::light, 2, 2, false, D::integer},
    {shift_right_logical, "shift-right-logical", C::elementwise, K::light, 2, 2, false, D::integer},
    {shift_right_arithmetic, "shift-right-arithmetic", C::elementwise, K::light, 2, 2, false, D::integer},
    {compare, "compare", C::elementwise, K::light, 2, 2, false, D::any},

    {select, "select", C::elementwise, K::light, 3, 3, false, D::any},
    {clamp, "clamp", C::elementwise, K::light, 3, 3, false, D::number},
    {threefry2x32, "threefry2x32", C::elementwise, K::expensive, 4, 4, false, D::integer},

    {broadcast, "broadcast", C::layout, K::free, 1, 1, false, D::any},
    {reshape, "reshape", C::layout, K::free, 1, 1, false, D::any},
    {transpose, "transpose", C::layout, K::free, 1, 1, false, D::any},
    {slice, "slice", C::layout, K::free, 1, 1, false, D::any},
    {dynamic_slice, "dynamic-slice", C::layout, K::light, 1, -1, false, D::any},
    {dynamic_update_slice, "dynamic-update-slice", C::layout, K::light, 2, -1, false, D::any},
    {concatenate, "concatenate", C::layout, K::light, 1, -1, false, D::any},
    {pad, "pad", C::layout, K::light, 2, 2, false, D::any},
    {reverse, "reverse", C::layout, K::free, 1, 1, false, D::any},
    {gather, "gather", C::layout, K::light, 2, 2, false, D::any},
    {scatter, "scatter", C::layout, K::expensive, 3, 3, false, D::any},

    {reduce, "reduce", C::reduction, K::light, 1, 1, false, D::any},
    {arg_reduce, "arg-reduce", C::reduction, K::light, 1, 1, false, D::number},
    {reduce_window, "reduce-window", C::reduction, K::expensive, 1, 1, false, D::any},
    {select_and_scatter, "select-and-scatter", C::reduction, K::expensive, 2, 2, false, D::number},
    {scan, "scan", C::reduction, K::expensive, 1, 1, false, D::any},

    {dot, "dot", C::contraction, K::expensive, 2, 2, false, D::number},
    {convolution, "convolution", C::contraction, K::expensive, 2, 2, false, D::number},
    {opaque, "opaque", C::boundary, K::expensive, 0, -1, false, D::any},
    {loop, "loop", C::control, K::expensive, 0, -1, false, D::any},
    {conditional, "conditional", C::control, K::expensive, 1, -1, false, D::any},
};
static_assert(std::size(rows) == static_cast<std::size_t>(conditional) + 1, "one row per operator, in enum order");

constexpr std::array<std::string_view, 8> reduce_names = {"sum", "product", "max", "min",
                                                          "and", "or",      "xor", "replace"};
constexpr std::array<std::string_view, 6> comparison_names = {"eq", "ne", "lt", "le", "gt", "ge"};

template <class Enum, std::size_t n>
std::optional<Enum> find_name(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::span<const OpInfo> op_table() { return rows; }
const OpInfo& info(Op op) { return rows[static_cast<std::size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Op> map;
    for (const OpInfo& row : rows) map.emplace(row.name, row.op);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? std::nullopt : std::optional(found->second);
}

std::string_view to_string(ReduceKind kind) { return reduce_names[static_cast<std::size_t>(kind)]; }
std::optional<ReduceKind> reduce_kind_from_name(std::string_view name) {
  return find_name<ReduceKind>(reduce_names, name);
}
std::string_view to_string(Comparison comparison) { return comparison_names[static_cast<std::size_t>(comparison)]; }
std::optional<Comparison> comparison_from_name(std::string_view name) {
  return find_name<Comparison>(comparison_names, name);
}

}  // namespace stitch::graph
