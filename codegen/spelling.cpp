#include "codegen/spelling.h"

#include <fmt/format.h>
#include <cmath>
#include <cstring>

#include "graph/literal.h"

namespace stitch::codegen {
namespace {

using graph::DType;
using graph::Op;

std::string finite(double value, bool single) {
  std::string text = single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += "f";
  return text.front() == '-' ? "(" + text + ")" : text;  // so that -x with x = -1 stays a negation
}

std::string cast(DType dtype, const std::string& text) {
  return fmt::format("static_cast<{}>({})", compute_type(dtype), text);
}

/// Integers narrower than int are promoted by C++; casting back wraps them.
std::string wrapped(DType dtype, const std::string& text) {
  return graph::byte_size(dtype) < 4 && graph::is_integer(dtype) ? cast(dtype, text) : text;
}

/// Signed overflow is undefined in C++ and wraps on the device: go through the unsigned type.
std::string integer_arithmetic(DType dtype, std::string_view symbol, const std::string& a, const std::string& b) {
  if (dtype == DType::s32)
    return fmt::format("static_cast<s32>(static_cast<u32>({}) {} static_cast<u32>({}))", a, symbol, b);
  if (dtype == DType::s64)
    return fmt::format("static_cast<s64>(static_cast<u64>({}) {} static_cast<u64>({}))", a, symbol, b);
  return wrapped(dtype, fmt::format("({} {} {})", a, symbol, b));
}

std::string arithmetic(DType dtype, std::string_view symbol, const std::string& a, const std::string& b) {
  if (graph::is_integer(dtype)) return integer_arithmetic(dtype, symbol, a, b);
  return fmt::format("{} {} {}", a, symbol, b);
}

std::string_view comparison(graph::Comparison direction) {
  switch (direction) {
    case graph::Comparison::eq: return "==";
    case graph::Comparison::ne: return "!=";
    case graph::Comparison::lt: return "<";
    case graph::Comparison::le: return "<=";
    case graph::Comparison::gt: return ">";
    case graph::Comparison::ge: return ">=";
  }
  return "==";
}

/// The row's text in the operator table, its names replaced.
std::string spelled(std::string_view text, DType from, const std::vector<std::string>& x) {
  const auto operand = [&](std::size_t i) { return i < x.size() ? std::string_view(x[i]) : std::string_view(); };
  return fmt::format(fmt::runtime(text), fmt::arg("x", operand(0)), fmt::arg("y", operand(1)),
                     fmt::arg("z", operand(2)), fmt::arg("f", from == DType::f64 ? "" : "f"),
                     fmt::arg("type", storage_type(from)));
}

/// Operators of one operand that are spelled by element type.
std::string unary(Op op, DType from, DType to, const std::string& x) {
  const bool floating = graph::is_floating(from);
  switch (op) {
    case Op::negate: return floating ? fmt::format("-{}", x) : integer_arithmetic(from, "-", "0", x);
    case Op::abs:
      if (floating) return fmt::format("fabs{}({})", from == DType::f64 ? "" : "f", x);
      return graph::is_unsigned_integer(from)
                 ? x
                 : fmt::format("{0} < 0 ? {1} : {0}", x, integer_arithmetic(from, "-", "0", x));
    case Op::sign: return fmt::format("{}({})", floating ? "sign_float" : "sign_integer", x);
    case Op::bit_not: return from == DType::pred ? fmt::format("!{}", x) : wrapped(from, fmt::format("~{}", x));
    case Op::popcount:
      return cast(from, fmt::format("__popcll(static_cast<u64>({}) & {:#x}ull)", x,
                                    ~std::uint64_t{0} >> (64 - 8 * graph::byte_size(from))));
    case Op::convert:
      return compute_type(from) == compute_type(to) ? x : fmt::format("convert<{}>({})", compute_type(to), x);
    case Op::bitcast_convert:
      // The bits are those of storage: 16-bit floats go through their storage type.
      return fmt::format("widen(bitcast<{}>(narrow<{}>({})))", storage_type(to), storage_type(from), x);
    default: return x;
  }
}

}  // namespace

std::string storage_type(DType dtype) { return std::string(graph::to_string(dtype)); }

std::string compute_type(DType dtype) {
  if (dtype == DType::pred) return "bool";
  if (graph::is_floating(dtype) && dtype != DType::f64) return "f32";
  return storage_type(dtype);
}

bool needs_widening(DType dtype) { return compute_type(dtype) != storage_type(dtype); }

std::string literal(DType dtype, std::uint64_t bits) {
  std::byte bytes[8];
  std::memcpy(bytes, &bits, sizeof bits);
  if (dtype == DType::pred) return (bits & 0xff) != 0 ? "true" : "false";
  if (graph::is_floating(dtype)) {
    const double value = graph::load_element(dtype, bytes);
    if (std::isfinite(value)) return finite(value, dtype != DType::f64);
    if (dtype == DType::f64) return fmt::format("__longlong_as_double({:#x}ll)", bits);
    const float single = value;
    std::uint32_t word = 0;
    std::memcpy(&word, &single, sizeof word);
    if (dtype == DType::f32) std::memcpy(&word, &bits, sizeof word);  // a NaN keeps its payload
    return fmt::format("__int_as_float({:#x})", word);
  }
  const std::int64_t value = graph::load_integer(dtype, bytes);
  switch (dtype) {
    case DType::u64: return fmt::format("{}ull", static_cast<std::uint64_t>(value));
    case DType::s64:
      if (value == INT64_MIN) return "(-9223372036854775807ll - 1)";
      return value < 0 ? fmt::format("({}ll)", value) : fmt::format("{}ll", value);
    case DType::u32: return fmt::format("{}u", value);
    case DType::s32:
      if (value == INT32_MIN) return "(-2147483647 - 1)";
      return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
    default: return fmt::format("{}({})", compute_type(dtype), value);
  }
}

std::string combiner(graph::ReduceKind kind) {
  switch (kind) {
    case graph::ReduceKind::sum: return "Sum";
    case graph::ReduceKind::product: return "Product";
    case graph::ReduceKind::max: return "Max";
    case graph::ReduceKind::min: return "Min";
    case graph::ReduceKind::bit_and: return "And";
    case graph::ReduceKind::bit_or: return "Or";
    case graph::ReduceKind::bit_xor: return "Xor";
    case graph::ReduceKind::replace: break;
  }
  return "Sum";
}

std::string expression(const kernel::Item& item, DType from, const std::vector<std::string>& x) {
  if (item.kind == kernel::Item::Kind::combine) {
    return fmt::format("{}::combine({}, {})", combiner(item.combiner), x[0], x[1]);
  }
  if (const std::string_view text = graph::info(item.op).spelling; !text.empty()) return spelled(text, from, x);
  const bool floating = graph::is_floating(from);
  switch (item.op) {
    case Op::add: return arithmetic(from, "+", x[0], x[1]);
    case Op::subtract: return arithmetic(from, "-", x[0], x[1]);
    case Op::multiply: return arithmetic(from, "*", x[0], x[1]);
    case Op::divide:
      return floating ? fmt::format("{} / {}", x[0], x[1]) : fmt::format("divide_integer({}, {})", x[0], x[1]);
    case Op::remainder:
      return floating ? fmt::format("fmod{}({}, {})", from == DType::f64 ? "" : "f", x[0], x[1])
                      : fmt::format("remainder_integer({}, {})", x[0], x[1]);
    case Op::maximum:
      return from == DType::pred ? fmt::format("{} || {}", x[0], x[1]) : fmt::format("maximum({}, {})", x[0], x[1]);
    case Op::minimum:
      return from == DType::pred ? fmt::format("{} && {}", x[0], x[1]) : fmt::format("minimum({}, {})", x[0], x[1]);
    case Op::bit_and:
      return from == DType::pred ? fmt::format("{} && {}", x[0], x[1])
                                 : wrapped(from, fmt::format("({} & {})", x[0], x[1]));
    case Op::bit_or:
      return from == DType::pred ? fmt::format("{} || {}", x[0], x[1])
                                 : wrapped(from, fmt::format("({} | {})", x[0], x[1]));
    case Op::bit_xor:
      return from == DType::pred ? fmt::format("{} != {}", x[0], x[1])
                                 : wrapped(from, fmt::format("({} ^ {})", x[0], x[1]));
    case Op::compare: return fmt::format("{} {} {}", x[0], comparison(item.comparison), x[1]);
    case Op::threefry2x32:
      return fmt::format("threefry2x32({}, {}, {}, {}).{}", x[0], x[1], x[2], x[3],
                         item.origin.result == 0 ? "first" : "second");
    case Op::philox4x32: return fmt::format("philox4x32({}).word[{}]", fmt::join(x, ", "), item.origin.result);
    default: return unary(item.op, from, item.dtype, x[0]);
  }
}

}  // namespace stitch::codegen
