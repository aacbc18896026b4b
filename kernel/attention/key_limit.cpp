#include "kernel/attention/key_limit.h"

#include <limits>

#include "graph/literal.h"
#include "kernel/attention/visible_keys.h"

namespace stitch::kernel {
namespace {

using graph::Comparison;
using graph::Op;

constexpr int row_axis = 1, column_axis = 2;

/// The comparison seen from its other side.
Comparison from_other_side(Comparison direction) {
  switch (direction) {
    case Comparison::lt: return Comparison::gt;
    case Comparison::le: return Comparison::ge;
    case Comparison::gt: return Comparison::lt;
    case Comparison::ge: return Comparison::le;
    default: return direction;
  }
}

class LimitFinder {
 public:
  LimitFinder(const AttentionProblem& problem, const ScalarProgram& program, LimitOf of)
      : problem_(problem), program_(program), of_(of) {}

  /// Of logits, or of what is converted to them or adds to them.
  [[nodiscard]] std::optional<KeyLimit> in_logits(ItemId id) const {  // NOLINT(misc-no-recursion): a mask's operators
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::compute) return std::nullopt;
    if (item.op == Op::select) {
      const bool hides = hidden_by(item.operands[2]) <= hiding_logit;
      if (const auto found = hides ? in_condition(item.operands[0], hidden_by(item.operands[2])) : std::nullopt)
        return found;
      return in_logits(item.operands[1]);
    }
    if (item.op != Op::convert && item.op != Op::add) return std::nullopt;
    for (const ItemId operand : item.operands) {
      if (const auto found = in_logits(operand)) return found;
    }
    return std::nullopt;
  }

 private:
  /// The constant that an item is; +∞: it is none.
  [[nodiscard]] double hidden_by(ItemId id) const {
    const Item& item = program_.at(id);
    const bool constant = item.kind == Item::Kind::literal && graph::is_floating(item.dtype);
    return constant ? graph::element(graph::scalar_of(item.dtype, item.bits), 0)
                    : std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] std::optional<KeyLimit> in_condition(ItemId id, double hidden) const {  // NOLINT(misc-no-recursion)
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::compute) return std::nullopt;
    if (item.op == Op::bit_and) {
      for (const ItemId operand : item.operands) {
        if (const auto found = in_condition(operand, hidden)) return found;
      }
    }
    if (item.op != Op::compare) return std::nullopt;
    for (const int side : {0, 1}) {
      const auto found = limit_of(item, side == 0 ? item.comparison : from_other_side(item.comparison),
                                  item.operands[side], item.operands[1 - side]);
      const bool always = of_ == LimitOf::attention && hidden == -std::numeric_limits<double>::infinity();
      if (found && (always || each_row_sees_first(problem_, found->compared, of_ == LimitOf::rows))) return found;
    }
    return std::nullopt;
  }

  /// Key + c, compared with a bound.
  [[nodiscard]] std::optional<KeyLimit> limit_of(const Item& compare, Comparison direction, ItemId key,
                                                 ItemId bound) const {
    if (direction != Comparison::lt && direction != Comparison::le) return std::nullopt;
    const std::optional<std::int64_t> beyond = behind_key(key);
    const Item& item = program_.at(bound);
    const bool of_batch = !item.axes.contains(row_axis) && !item.axes.contains(column_axis);
    if (!beyond || !of_batch || !graph::is_integer(item.dtype) || item.kind == Item::Kind::literal) return std::nullopt;
    return KeyLimit{bound, (direction == Comparison::le ? 1 : 0) - *beyond, compare.origin};
  }

  /// How far behind the key's number an integer is.
  [[nodiscard]] std::optional<std::int64_t> behind_key(ItemId id) const {
    const Item* item = &program_.at(id);
    while (item->kind == Item::Kind::compute && item->op == Op::convert) item = &program_.at(item->operands[0]);
    if (item->kind != Item::Kind::index) return std::nullopt;
    const IndexPool& pool = program_.pool();
    const Index key = program_.axes().variables[of_ == LimitOf::rows ? row_axis : column_axis];
    if (item->index == key) return 0;
    const auto terms = pool.terms(item->index);
    if (pool.kind(item->index) != IndexPool::Kind::sum || terms.size() != 1 || terms[0] != IndexPool::Term{1, key})
      return std::nullopt;
    return pool.constant_part(item->index);
  }

  const AttentionProblem& problem_;
  const ScalarProgram& program_;
  const LimitOf of_;
};

}  // namespace

std::optional<KeyLimit> key_limit(const AttentionProblem& problem, const ScalarProgram& program, ItemId logits,
                                  LimitOf of) {
  return LimitFinder(problem, program, of).in_logits(logits);
}

}  // namespace stitch::kernel
