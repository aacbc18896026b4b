#include "kernel/index/index_expr.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "base/hash.h"

namespace stitch::kernel {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient * b > a ? quotient - 1 : quotient;
}

}  // namespace

IndexPool::IndexPool() { constant(0); }

Index IndexPool::intern(Node node) {
  std::uint64_t hash = mix(static_cast<std::uint64_t>(node.kind), static_cast<std::uint64_t>(node.constant));
  hash = mix(mix(hash, static_cast<std::uint64_t>(node.dividend)), static_cast<std::uint64_t>(node.divisor));
  for (const Term& term : node.terms) {
    hash = mix(mix(hash, static_cast<std::uint64_t>(term.coefficient)), static_cast<std::uint64_t>(term.atom));
  }
  const auto [first, last] = interned_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Node& other = at(it->second);
    if (other.kind == node.kind && other.constant == node.constant && other.dividend == node.dividend &&
        other.divisor == node.divisor && (node.dividend >= 0 || other.terms == node.terms)) {
      return it->second;
    }
  }
  const Index index = nodes_.size();
  if (node.kind == Kind::quotient || node.kind == Kind::remainder) node.terms = {{1, index}};
  nodes_.push_back(std::move(node));
  interned_.emplace(hash, index);
  return index;
}

Index IndexPool::constant(std::int64_t value) { return intern({Kind::constant, value, {}, -1, 1, value, value}); }

Index IndexPool::variable(std::int64_t low, std::int64_t high) {
  const Index index = nodes_.size();
  nodes_.push_back({Kind::variable, 0, {{1, index}}, -1, 1, low, high});
  return index;
}

Index IndexPool::sum(std::int64_t constant_part, std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.atom < b.atom; });
  std::vector<Term> merged;
  for (const Term& term : terms) {
    if (!merged.empty() && merged.back().atom == term.atom) {
      merged.back().coefficient += term.coefficient;
    } else {
      merged.push_back(term);
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  if (merged.size() > 1) rejoin(merged);
  if (merged.empty()) return constant(constant_part);
  if (constant_part == 0 && merged.size() == 1 && merged[0].coefficient == 1) return merged[0].atom;
  std::int64_t low = constant_part, high = constant_part;
  for (const Term& term : merged) {
    const std::int64_t a = term.coefficient * at(term.atom).low, b = term.coefficient * at(term.atom).high;
    low += std::min(a, b);
    high += std::max(a, b);
  }
  return intern({Kind::sum, constant_part, std::move(merged), -1, 1, low, high});
}

/// c·(x/c)·k + (x mod c)·k → x·k, until nothing rejoins.
void IndexPool::rejoin(std::vector<Term>& terms) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t r = 0; r < terms.size() && !changed; ++r) {
      if (kind(terms[r].atom) != Kind::remainder) continue;
      const Index whole = dividend(terms[r].atom);
      const std::int64_t c = divisor(terms[r].atom), k = terms[r].coefficient;
      // The quotient may itself have been split into several terms; what it must contribute is k·c·(whole/c).
      const Index quotient = divide(whole, c);
      std::vector<Term> rest = terms;
      rest.erase(rest.begin() + r);
      bool found = at(quotient).constant == 0 && !at(quotient).terms.empty();
      for (const Term& needed : at(quotient).terms) {
        const auto it = std::find_if(rest.begin(), rest.end(), [&](const Term& t) { return t.atom == needed.atom; });
        if (it == rest.end() || it->coefficient != k * c * needed.coefficient) {
          found = false;
          break;
        }
        rest.erase(it);
      }
      if (!found || at(whole).constant != 0) continue;
      for (const Term& term : at(whole).terms) rest.push_back({term.coefficient * k, term.atom});
      std::sort(rest.begin(), rest.end(), [](const Term& a, const Term& b) { return a.atom < b.atom; });
      std::vector<Term> merged;
      for (const Term& term : rest) {
        if (!merged.empty() && merged.back().atom == term.atom)
          merged.back().coefficient += term.coefficient;
        else
          merged.push_back(term);
      }
      std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
      terms = std::move(merged);
      changed = true;
    }
  }
}

Index IndexPool::add(Index a, Index b) {
  std::vector<Term> terms = at(a).terms;
  const std::vector<Term> more = at(b).terms;
  terms.insert(terms.end(), more.begin(), more.end());
  return sum(at(a).constant + at(b).constant, std::move(terms));
}

Index IndexPool::scale(Index a, std::int64_t factor) {
  std::vector<Term> terms = at(a).terms;
  for (Term& term : terms) term.coefficient *= factor;
  return sum(at(a).constant * factor, std::move(terms));
}

Index IndexPool::divide(Index a, std::int64_t divisor) {
  assert(divisor > 0);
  if (divisor == 1) return a;
  if (low(a) >= 0 && high(a) < divisor) return constant(0);
  if (is_constant(a)) return constant(floor_divide(constant_part(a), divisor));
  // Terms that are multiples of the divisor leave; what stays behind must keep its order of magnitude non-negative.
  const std::int64_t whole = floor_divide(constant_part(a), divisor);
  std::vector<Term> outside, inside;
  for (const Term& term : at(a).terms) {
    (term.coefficient % divisor == 0 ? outside : inside).push_back(term);
  }
  for (Term& term : outside) term.coefficient /= divisor;
  const Index rest = sum(constant_part(a) - whole * divisor, inside);
  if (low(rest) >= 0 && high(rest) < divisor) return sum(whole, std::move(outside));
  // C++ divides toward zero: a remainder of mixed sign stays with the multiples that keep it non-negative.
  if (low(rest) < 0) {
    return intern({Kind::quotient, 0, {}, a, divisor, floor_divide(low(a), divisor), floor_divide(high(a), divisor)});
  }
  if (!outside.empty() || whole != 0) {
    const Index quotient = divide(rest, divisor);
    return add(sum(whole, std::move(outside)), quotient);
  }
  if (kind(rest) == Kind::quotient) return divide(dividend(rest), this->divisor(rest) * divisor);
  // A common factor of the terms and the divisor cancels: (6a + 3)/12 = (2a + 1)/4.
  std::int64_t common = divisor;
  for (const Term& term : at(rest).terms) common = std::gcd(common, term.coefficient);
  if (common > 1) {
    std::vector<Term> reduced = at(rest).terms;
    for (Term& term : reduced) term.coefficient /= common;
    return divide(sum(floor_divide(constant_part(rest), common), std::move(reduced)), divisor / common);
  }
  return intern(
      {Kind::quotient, 0, {}, rest, divisor, floor_divide(low(rest), divisor), floor_divide(high(rest), divisor)});
}

Index IndexPool::remainder(Index a, std::int64_t divisor) {
  assert(divisor > 0);
  if (divisor == 1) return constant(0);
  if (low(a) >= 0 && high(a) < divisor) return a;
  std::vector<Term> inside;
  for (const Term& term : at(a).terms) {
    if (term.coefficient % divisor != 0) inside.push_back(term);
  }
  const std::int64_t c = constant_part(a) - floor_divide(constant_part(a), divisor) * divisor;
  const Index rest = sum(c, inside);
  if (low(rest) >= 0 && high(rest) < divisor) return rest;
  if (low(rest) < 0) return intern({Kind::remainder, 0, {}, a, divisor, 0, divisor - 1});
  std::int64_t common = std::gcd(divisor, constant_part(rest));
  for (const Term& term : at(rest).terms) common = std::gcd(common, term.coefficient);
  if (common > 1) {
    std::vector<Term> reduced = at(rest).terms;
    for (Term& term : reduced) term.coefficient /= common;
    return scale(remainder(sum(constant_part(rest) / common, std::move(reduced)), divisor / common), common);
  }
  if (kind(rest) == Kind::remainder && this->divisor(rest) % divisor == 0) return remainder(dividend(rest), divisor);
  return intern({Kind::remainder, 0, {}, rest, divisor, 0, std::min(high(rest), divisor - 1)});
}

Index IndexPool::linear(std::span<const Index> indices, std::span<const std::int64_t> strides) {
  Index total = constant(0);
  for (std::size_t d = 0; d < indices.size(); ++d) total = add(total, scale(indices[d], strides[d]));
  return total;
}

std::vector<Index> IndexPool::delinearise(Index flat, std::span<const std::int64_t> extents) {
  std::vector<Index> indices(extents.size());
  for (std::size_t d = extents.size(); d-- > 1;) {
    const std::int64_t extent = std::max<std::int64_t>(extents[d], 1);  // nothing is at an index of an empty shape
    indices[d] = remainder(flat, extent);
    flat = divide(flat, extent);
  }
  if (!extents.empty()) indices[0] = flat;
  return indices;
}

Index IndexPool::substitute(Index index, const std::unordered_map<Index, Index>& replacements) {
  const Node node = at(index);  // a copy: interning below may move the storage
  switch (node.kind) {
    case Kind::constant: return index;
    case Kind::variable: {
      const auto found = replacements.find(index);
      return found == replacements.end() ? index : found->second;
    }
    case Kind::quotient: return divide(substitute(node.dividend, replacements), node.divisor);
    case Kind::remainder: return remainder(substitute(node.dividend, replacements), node.divisor);
    case Kind::sum: break;
  }
  Index total = constant(node.constant);
  for (const Term& term : node.terms) total = add(total, scale(substitute(term.atom, replacements), term.coefficient));
  return total;
}

bool IndexPool::depends_on(Index index, Index variable) const {
  bool found = false;
  for_each_variable(index, [&](Index v) { found = found || v == variable; });
  return found;
}

IndexPool::Run IndexPool::run(Index index, Index variable, std::int64_t width) const {
  const Node& node = at(index);
  if (node.kind == Kind::variable) {
    if (index == variable) return {true, 1, true};
    return {true, 0, width == 1};  // another variable may take any value
  }
  if (node.kind == Kind::constant) return {true, 0, node.constant % width == 0};
  if (node.dividend >= 0) {
    const Run inner = run(node.dividend, variable, width);
    if (!inner.regular) return {false, 0, false};
    if (inner.step == 0) {
      const bool multiple = node.kind == Kind::remainder && inner.aligned && node.divisor % width == 0;
      return {true, 0, width == 1 || multiple};
    }
    if (inner.step != 1 || !inner.aligned || node.divisor % width != 0) return {false, 0, false};
    // An aligned run never crosses a multiple of the divisor.
    return node.kind == Kind::quotient ? Run{true, 0, width == 1} : Run{true, 1, true};
  }
  Run total{true, 0, node.constant % width == 0};
  for (const Term& term : node.terms) {
    const Run part = run(term.atom, variable, width);
    if (!part.regular) return {false, 0, false};
    total.step += term.coefficient * part.step;
    total.aligned = total.aligned && ((part.aligned && true) || term.coefficient % width == 0);
  }
  return total;
}

std::int64_t IndexPool::evaluate(Index index, const std::unordered_map<Index, std::int64_t>& variables) const {
  const Node& node = at(index);
  switch (node.kind) {
    case Kind::constant: return node.constant;
    case Kind::variable: return variables.at(index);
    case Kind::quotient: return floor_divide(evaluate(node.dividend, variables), node.divisor);
    case Kind::remainder: {
      const std::int64_t whole = evaluate(node.dividend, variables);
      return whole - floor_divide(whole, node.divisor) * node.divisor;
    }
    case Kind::sum: break;
  }
  std::int64_t total = node.constant;
  for (const Term& term : node.terms) total += term.coefficient * evaluate(term.atom, variables);
  return total;
}

}  // namespace stitch::kernel
