#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace stitch::kernel {

/// Names an expression in its IndexPool; equal ids mean equal expressions (they are hash-consed and normalised).
using Index = std::int32_t;

/// Integer expressions for indices and addresses: constants, variables with a known range, sums with constant
/// coefficients, floor division and remainder by a constant.
///
///     IndexPool pool;
///     const Index row = pool.variable(0, 1023), column = pool.variable(0, 767);
///     const Index flat = pool.add(pool.scale(row, 768), column);
///     pool.divide(flat, 768) == row;        // what a reshape there and back leaves
///     pool.run(flat, column, 4);            // regular, step 1, aligned: a vector of four may be loaded at once
///
/// Each group has a pool of its own, in its scalar program, whose index propagation makes the expressions. Accesses,
/// guards and slabs are decided by what `run`, `low`, `high` and `terms` prove, and the emitter prints what is left.
///
/// Normal form: a sum is a constant plus coefficient·term, terms being variables, divisions or remainders in order of
/// their ids. Division and remainder are split as far as the ranges of the variables prove (with 0 ≤ b < c:
/// (c·a + b)/c = a and (c·a + b) mod c = b) and rejoined (c·(x/c) + x mod c = x), so that reshapes which only regroup
/// dimensions vanish. All divisors are positive; operands of division and remainder may not be negative.
class IndexPool {
 public:
  enum class Kind : std::uint8_t { constant, variable, sum, quotient, remainder };

  struct Term {
    std::int64_t coefficient;
    Index atom;
    bool operator==(const Term&) const = default;
  };

  IndexPool();

  Index constant(std::int64_t value);
  /// A fresh variable that takes every value in [low, high].
  Index variable(std::int64_t low, std::int64_t high);

  Index add(Index a, Index b);
  Index subtract(Index a, Index b) { return add(a, scale(b, -1)); }
  Index scale(Index a, std::int64_t factor);
  Index offset(Index a, std::int64_t by) { return add(a, constant(by)); }
  Index divide(Index a, std::int64_t divisor);
  Index remainder(Index a, std::int64_t divisor);

  /// Σ indices[d]·strides[d]
  Index linear(std::span<const Index> indices, std::span<const std::int64_t> strides);
  /// Row-major coordinates of `flat` in a box with these extents.
  std::vector<Index> delinearise(Index flat, std::span<const std::int64_t> extents);
  /// `index` with variables replaced; unmapped variables stay.
  Index substitute(Index index, const std::unordered_map<Index, Index>& replacements);

  [[nodiscard]] Kind kind(Index index) const { return at(index).kind; }
  [[nodiscard]] std::int64_t low(Index index) const { return at(index).low; }
  [[nodiscard]] std::int64_t high(Index index) const { return at(index).high; }
  [[nodiscard]] bool is_constant(Index index) const { return kind(index) == Kind::constant; }
  [[nodiscard]] std::int64_t constant_part(Index index) const { return at(index).constant; }
  /// Terms of a sum; a variable, quotient or remainder is its own single term.
  [[nodiscard]] std::span<const Term> terms(Index index) const { return at(index).terms; }
  /// What a quotient or remainder divides, and by what.
  [[nodiscard]] Index dividend(Index index) const { return at(index).dividend; }
  [[nodiscard]] std::int64_t divisor(Index index) const { return at(index).divisor; }

  /// Calls `visit` for every variable that the expression depends on (each at least once).
  template <class Visit>
  void for_each_variable(Index index, Visit&& visit) const {
    const Node& node = at(index);
    if (node.kind == Kind::variable) return visit(index);
    if (node.dividend >= 0) return for_each_variable(node.dividend, visit);
    if (node.kind == Kind::sum) {
      for (const Term& term : node.terms) for_each_variable(term.atom, visit);
    }
  }
  [[nodiscard]] bool depends_on(Index index, Index variable) const;

  /// How `index` moves while `variable` steps through an aligned run of `width` values (its other terms fixed):
  /// `step` elements per unit (0: constant, 1: contiguous), `aligned` when the run starts at a multiple of `width`.
  /// `regular` is false when the steps differ within the run.
  struct Run {
    bool regular = true;
    std::int64_t step = 0;
    bool aligned = true;
  };
  [[nodiscard]] Run run(Index index, Index variable, std::int64_t width) const;

  /// Value for given variable values; tests and the emitter's self-checks use it.
  [[nodiscard]] std::int64_t evaluate(Index index, const std::unordered_map<Index, std::int64_t>& variables) const;

 private:
  struct Node {
    Kind kind;
    std::int64_t constant = 0;  ///< constant part of a sum, or the constant
    std::vector<Term> terms;
    Index dividend = -1;
    std::int64_t divisor = 1;
    std::int64_t low = 0, high = 0;
  };

  [[nodiscard]] const Node& at(Index index) const { return nodes_[index]; }
  Index intern(Node node);
  Index sum(std::int64_t constant, std::vector<Term> terms);
  void rejoin(std::vector<Term>& terms);

  std::vector<Node> nodes_;
  std::unordered_multimap<std::uint64_t, Index> interned_;
};

}  // namespace stitch::kernel
