#include "graph/op.h"

#include <array>
#include <limits>
#include <unordered_map>

namespace stitch::graph {
namespace {

constexpr auto Free = OpCost::free, Light = OpCost::light, Expensive = OpCost::expensive;
constexpr auto Any = OpDomain::any, Number = OpDomain::number, Floating = OpDomain::floating,
               Integer = OpDomain::integer, Bits = OpDomain::bits;
constexpr int any_number = -1;
constexpr double infinity = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max();

/// A row as graph/op_table.inl writes it: a kind, and what differs from the kind's defaults.
class Row {
  // First, because clang needs the body of a function template before its first use in a constant.
  template <class Change>
  constexpr Row changed(Change change) const {
    Row copy = *this;
    change(copy.info_);
    return copy;
  }

 public:
  constexpr Row(OpCategory category, OpCost cost, int min_operands, int max_operands, OpDomain domain)
      : info_{Op{}, {}, category, cost, min_operands, max_operands, false, domain} {
    if (cost == OpCost::expensive) info_.instructions = {35, 100};
  }

  constexpr Row takes(OpDomain domain) const {
    return changed([&](OpInfo& row) { row.domain = domain; });
  }
  constexpr Row costs(OpCost cost) const {
    return changed([&](OpInfo& row) { row.cost = cost; });
  }
  constexpr Row commutes() const {
    return changed([](OpInfo& row) { row.commutative = true; });
  }
  constexpr Row instructions(double narrow, double wide) const {
    return changed([&](OpInfo& row) { row.instructions = {narrow, wide}; });
  }
  /// Generous against CUDA's documented maximum errors (CUDA C++ Programming Guide, "Mathematical Functions"), so that
  /// approximate division and exponentials by ex2 are correct kernels, while the cancelling forms of tanh, expm1 or a
  /// norm's variance are not.
  constexpr Row error(double ulps, double per_argument = 0) const {
    return changed([&](OpInfo& row) { row.error = {ulps, per_argument}; });
  }
  constexpr Row spelling(std::string_view text) const {
    return changed([&](OpInfo& row) { row.spelling = text; });
  }
  constexpr Row defined(double low, double high) const {
    return changed([&](OpInfo& row) { row.defined = {low, high}; });
  }
  constexpr Row range(double low, double high) const {
    return changed([&](OpInfo& row) { row.range = RealInterval{low, high}; });
  }
  constexpr Row keeps_sign() const {
    return changed([](OpInfo& row) { row.sign = ResultSign::of_operand; });
  }
  constexpr Row never_negative() const {
    return changed([](OpInfo& row) { row.sign = ResultSign::nonnegative; });
  }
  constexpr OpInfo named(Op op, std::string_view name) const {
    return changed([&](OpInfo& row) {
             row.op = op;
             row.name = name;
           })
        .info_;
  }

 private:
  OpInfo info_;
};

constexpr Row source(OpCost cost) { return {OpCategory::source, cost, 0, 0, Any}; }
/// Element-wise, an instruction or two.
constexpr Row light(int operands, OpDomain domain) {
  return {OpCategory::elementwise, Light, operands, operands, domain};
}
/// Element-wise, of floats, some ten instructions or more.
constexpr Row function(int operands) { return {OpCategory::elementwise, Expensive, operands, operands, Floating}; }
constexpr Row layout(OpCost cost, int least, int greatest) { return {OpCategory::layout, cost, least, greatest, Any}; }
constexpr Row reduction(OpCost cost, int operands) { return {OpCategory::reduction, cost, operands, operands, Any}; }
constexpr Row other(OpCategory category, int least, int greatest) {
  return {category, Expensive, least, greatest, Any};
}

constexpr OpInfo rows[] = {
#define STITCH_OP(op, name, row) (row).named(Op::op, name),
#include "graph/op_table.inl"
#undef STITCH_OP
};

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
const OpInfo& info(Op op) { return rows[static_cast<std::uint8_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Op> map;
    for (const OpInfo& row : rows) map.emplace(row.name, row.op);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? std::nullopt : std::optional(found->second);
}

bool takes(OpDomain domain, DType dtype) {
  switch (domain) {
    case OpDomain::any: return true;
    case OpDomain::number: return dtype != DType::pred;
    case OpDomain::floating: return is_floating(dtype);
    case OpDomain::integer: return is_integer(dtype);
    case OpDomain::bits: return is_integer(dtype) || dtype == DType::pred;
  }
  return false;
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
