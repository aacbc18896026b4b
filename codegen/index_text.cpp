#include "codegen/index_text.h"

#include <fmt/format.h>

namespace stitch::codegen {

using kernel::Index;
using kernel::IndexPool;

namespace {

std::string atom_text(const IndexPool& pool, Index atom, const std::function<std::string(Index)>& variable) {
  if (pool.kind(atom) == IndexPool::Kind::quotient)
    return fmt::format("({} / {})", index_text(pool, pool.dividend(atom), variable), pool.divisor(atom));
  if (pool.kind(atom) == IndexPool::Kind::remainder)
    return fmt::format("({} % {})", index_text(pool, pool.dividend(atom), variable), pool.divisor(atom));
  return variable(atom);
}

}  // namespace

std::string index_text(const IndexPool& pool, Index index, const std::function<std::string(Index)>& variable) {
  if (pool.is_constant(index)) return fmt::format("{}", pool.constant_part(index));
  std::string text;
  for (const IndexPool::Term& each : pool.terms(index)) {
    const std::string atom = atom_text(pool, each.atom, variable);
    const std::int64_t c = each.coefficient < 0 ? -each.coefficient : each.coefficient;
    const std::string product = c == 1 ? atom : fmt::format("{} * {}", atom, c);
    text += text.empty() ? (each.coefficient < 0 ? "-" : "") : (each.coefficient < 0 ? " - " : " + ");
    text += product;
  }
  const std::int64_t constant = pool.kind(index) == IndexPool::Kind::sum ? pool.constant_part(index) : 0;
  if (constant != 0) text += fmt::format(" {} {}", constant < 0 ? "-" : "+", constant < 0 ? -constant : constant);
  return pool.kind(index) == IndexPool::Kind::sum ? "(" + text + ")" : text;
}

std::string sum_of(std::initializer_list<std::string> terms) {
  std::string text;
  for (const std::string& term : terms) {
    if (!term.empty()) text += (text.empty() ? "" : " + ") + term;
  }
  return text.empty() ? "0" : text;
}

}  // namespace stitch::codegen
