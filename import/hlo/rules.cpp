#include "import/hlo/rules.h"

#include <unordered_map>

namespace stitch::import::hlo {
namespace {

using graph::Op;

constexpr std::string_view collective = "collectives are left to the communication library";
constexpr std::string_view host = "exchanges data with the host";
constexpr std::string_view solver = "left to a solver library";
constexpr std::string_view asynchronous = "asynchronous operators are scheduled by their own runtime";
constexpr std::string_view stateful = "a generator of random numbers with a state or algorithm of its own";

constexpr auto any = Shapes::any;
constexpr auto array_operands = Shapes::array_operands;

constexpr Rule rows[] = {
    // element-wise, one operand
    {"abs", lower_elementwise, Op::abs, 1, 1},
    {"acos", lower_elementwise, Op::acos, 1, 1},
    {"acosh", lower_elementwise, Op::acosh, 1, 1},
    {"asin", lower_elementwise, Op::asin, 1, 1},
    {"asinh", lower_elementwise, Op::asinh, 1, 1},
    {"atanh", lower_elementwise, Op::atanh, 1, 1},
    {"cbrt", lower_elementwise, Op::cbrt, 1, 1},
    {"ceil", lower_elementwise, Op::ceil, 1, 1},
    {"cosh", lower_elementwise, Op::cosh, 1, 1},
    {"cosine", lower_elementwise, Op::cos, 1, 1},
    {"count-leading-zeros", lower_count_leading_zeros, Op::popcount, 1, 1},
    {"erf", lower_elementwise, Op::erf, 1, 1},
    {"exponential", lower_elementwise, Op::exp, 1, 1},
    {"exponential-minus-one", lower_elementwise, Op::expm1, 1, 1},
    {"floor", lower_elementwise, Op::floor, 1, 1},
    {"is-finite", lower_elementwise, Op::is_finite, 1, 1},
    {"log", lower_elementwise, Op::log, 1, 1},
    {"log-plus-one", lower_elementwise, Op::log1p, 1, 1},
    {"logistic", lower_elementwise, Op::logistic, 1, 1},
    {"negate", lower_elementwise, Op::negate, 1, 1},
    {"not", lower_elementwise, Op::bit_not, 1, 1},
    {"popcnt", lower_elementwise, Op::popcount, 1, 1},
    {"reduce-precision", lower_reduce_precision, Op::convert, 1, 1},
    {"round-nearest-afz", lower_elementwise, Op::round_away, 1, 1},
    {"round-nearest-even", lower_elementwise, Op::round_even, 1, 1},
    {"rsqrt", lower_elementwise, Op::rsqrt, 1, 1},
    {"sign", lower_elementwise, Op::sign, 1, 1},
    {"sine", lower_elementwise, Op::sin, 1, 1},
    {"sinh", lower_elementwise, Op::sinh, 1, 1},
    {"sqrt", lower_elementwise, Op::sqrt, 1, 1},
    {"tan", lower_elementwise, Op::tan, 1, 1},
    {"tanh", lower_elementwise, Op::tanh, 1, 1},
    {"convert", lower_convert, Op::convert, 1, 1},
    {"bitcast-convert", lower_convert, Op::bitcast_convert, 1, 1},
    // element-wise, more operands
    {"add", lower_logical, Op::add, 2, 2},
    {"and", lower_elementwise, Op::bit_and, 2, 2},
    {"atan2", lower_elementwise, Op::atan2, 2, 2},
    {"divide", lower_elementwise, Op::divide, 2, 2},
    {"maximum", lower_elementwise, Op::maximum, 2, 2},
    {"minimum", lower_elementwise, Op::minimum, 2, 2},
    {"multiply", lower_logical, Op::multiply, 2, 2},
    {"or", lower_elementwise, Op::bit_or, 2, 2},
    {"power", lower_elementwise, Op::power, 2, 2},
    {"remainder", lower_elementwise, Op::remainder, 2, 2},
    {"shift-left", lower_elementwise, Op::shift_left, 2, 2},
    {"shift-right-arithmetic", lower_elementwise, Op::shift_right_arithmetic, 2, 2},
    {"shift-right-logical", lower_elementwise, Op::shift_right_logical, 2, 2},
    {"subtract", lower_elementwise, Op::subtract, 2, 2},
    {"xor", lower_elementwise, Op::bit_xor, 2, 2},
    {"compare", lower_compare, Op::compare, 2, 2},
    {"select", lower_select, Op::select, 3, 3},
    {"clamp", lower_clamp, Op::clamp, 3, 3},
    {"map", lower_map, Op::opaque, 1, -1},
    // layout
    {"constant", lower_constant, Op::constant, 0, 0},
    {"iota", lower_iota, Op::iota, 0, 0},
    {"broadcast", lower_broadcast, Op::broadcast, 1, 1},
    {"reshape", lower_reshape, Op::reshape, 1, 1},
    {"bitcast", lower_bitcast, Op::reshape, 1, 1},
    {"transpose", lower_transpose, Op::transpose, 1, 1},
    {"slice", lower_slice, Op::slice, 1, 1},
    {"concatenate", lower_concatenate, Op::concatenate, 1, -1},
    {"pad", lower_pad, Op::pad, 2, 2},
    {"reverse", lower_reverse, Op::reverse, 1, 1},
    {"get-dimension-size", lower_dimension_size, Op::constant, 1, 1},
    // indexing
    {"dynamic-slice", lower_dynamic_slice, Op::dynamic_slice, 1, -1},
    {"dynamic-update-slice", lower_dynamic_update_slice, Op::dynamic_update_slice, 2, -1},
    {"gather", lower_gather, Op::gather, 2, 2},
    {"scatter", lower_scatter, Op::scatter, 3, -1, array_operands},
    // reductions
    {"reduce", lower_reduce, Op::reduce, 2, -1, array_operands},
    {"reduce-window", lower_reduce_window, Op::reduce_window, 2, -1, array_operands},
    {"select-and-scatter", lower_select_and_scatter, Op::select_and_scatter, 3, 3},
    {"sort", lower_sort, Op::sort, 1, -1, Shapes::array_operands},
    {"topk", lower_top_k, Op::sort, 1, 1, Shapes::array_operands},
    // contractions
    {"dot", lower_dot, Op::dot, 2, -1},
    {"ragged-dot", lower_ragged_dot, Op::dot, 3, 3},
    {"convolution", lower_convolution, Op::convolution, 2, 2},
    // structure: nothing is computed
    {"tuple", lower_tuple, Op::opaque, 0, -1, any},
    {"get-tuple-element", lower_get_tuple_element, Op::opaque, 1, 1, any},
    {"copy", lower_forwarded, Op::opaque, 1, 1, any},
    {"opt-barrier", lower_forwarded, Op::opaque, 1, 1, any},
    {"optimization-barrier", lower_forwarded, Op::opaque, 1, 1, any},
    {"domain", lower_forwarded, Op::opaque, 1, 1, any},
    {"add-dependency", lower_forwarded, Op::opaque, 2, 2, any},
    {"after-all", lower_token, Op::opaque, 0, -1, any},
    // control flow
    {"call", lower_call, Op::opaque, 0, -1, any},
    {"fusion", lower_call, Op::opaque, 0, -1, any},
    {"while", lower_while, Op::loop, 1, 1, any},
    {"conditional", lower_conditional, Op::conditional, 2, -1, any},
    // boundaries
    {"custom-call", lower_custom_call, Op::opaque, 0, -1, any, "a custom call"},
    {"fft", lower_opaque, Op::opaque, 1, 1, any, "left to an FFT library"},
    {"cholesky", lower_opaque, Op::opaque, 1, 1, any, solver},
    {"triangular-solve", lower_opaque, Op::opaque, 2, 2, any, solver},
    {"batch-norm-training", lower_opaque, Op::opaque, 3, 3, any, "expected in decomposed form"},
    {"batch-norm-inference", lower_opaque, Op::opaque, 5, 5, any, "expected in decomposed form"},
    {"batch-norm-grad", lower_opaque, Op::opaque, 5, 5, any, "expected in decomposed form"},
    {"rng", lower_opaque, Op::opaque, 2, 2, any, stateful},
    {"rng-bit-generator", lower_opaque, Op::opaque, 1, 1, any, stateful},
    {"rng-get-and-update-state", lower_opaque, Op::opaque, 0, 0, any, stateful},
    {"stochastic-convert", lower_opaque, Op::opaque, 2, 2, any, stateful},
    {"set-dimension-size", lower_opaque, Op::opaque, 2, 2, any, "dynamic extents"},
    {"dynamic-reshape", lower_opaque, Op::opaque, 1, -1, any, "dynamic extents"},
    {"all-gather", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"all-reduce", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"all-to-all", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"ragged-all-to-all", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"collective-broadcast", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"collective-permute", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"reduce-scatter", lower_opaque, Op::opaque, 1, -1, any, collective},
    {"partition-id", lower_opaque, Op::opaque, 0, 0, any, collective},
    {"replica-id", lower_opaque, Op::opaque, 0, 0, any, collective},
    {"infeed", lower_opaque, Op::opaque, 0, -1, any, host},
    {"outfeed", lower_opaque, Op::opaque, 0, -1, any, host},
    {"send", lower_opaque, Op::opaque, 0, -1, any, host},
    {"send-done", lower_opaque, Op::opaque, 0, -1, any, host},
    {"recv", lower_opaque, Op::opaque, 0, -1, any, host},
    {"recv-done", lower_opaque, Op::opaque, 0, -1, any, host},
    {"async-start", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"async-update", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"async-done", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"copy-start", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"copy-done", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"all-gather-start", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"all-gather-done", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"all-reduce-start", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"all-reduce-done", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"collective-permute-start", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
    {"collective-permute-done", lower_opaque, Op::opaque, 0, -1, any, asynchronous},
};

constexpr Rule unknown = {"", lower_opaque, Op::opaque, 0, -1, any, "an operator that is not known here"};

}  // namespace

std::span<const Rule> rule_table() { return rows; }

const Rule& find_rule(std::string_view opcode) {
  static const auto by_opcode = [] {
    std::unordered_map<std::string_view, const Rule*> map;
    for (const Rule& row : rows) map.emplace(row.opcode, &row);
    return map;
  }();
  const auto found = by_opcode.find(opcode);
  return found == by_opcode.end() ? unknown : *found->second;
}

}  // namespace stitch::import::hlo
