#pragma once

#include <optional>

#include "kernel/contraction/contraction_problem.h"
#include "kernel/contraction/contraction_schedule.h"
#include "kernel/structure/scalar_program.h"

// Grouped products: rows of the left operand belong to groups, each of which is multiplied with a matrix of its own,
// and which rows a group has is in memory (a mixture of experts). Written out, as JAX lowers ragged_dot, it is a
// product whose contracted dimension has a part for each group, of an operand that is zero where the row is another
// group's:
//
//     result[m, n] = Σ(g, k) (begin[g] ≤ m < end[g] ? x[m, k] : 0) · w[g, k, n]
//
// A block walks of its depth what the condition shows any of its rows, from the first such place to the last: rows that
// are sorted by their groups have tiles of one group, but for those on a border. What is left out is zero whatever the
// condition says, so that groups may be empty, overlap or leave rows out. The gradient of the matrices is the same with
// groups among the rows, or, as JAX has it, as a batch: Σₘ (begin[g] ≤ m < end[g] ? x[m, k] : 0) · dy[m, n] walks the
// rows of its group.
//
// It takes for granted, as attention does of hidden keys, that what is multiplied by zero is finite.

namespace stitch::kernel {

/// What an element that is computed asks first, and the answer for which it is not zero.
struct ShownCondition {
  ItemId item = -1;
  bool shows = true;
};
/// Nothing: the element is no choice between a value and zero.
std::optional<ShownCondition> shown_condition(const ScalarProgram& program, ItemId element);

/// For how many rows and how much of depth (axes 1 and 2) its condition is the same; zeros where there is none, or
/// where it would have to be asked for nearly every element.
ComputedOperand::Condition condition_of(const ScalarProgram& program, ItemId element,
                                        const ContractionOperand& operand);

/// The operand whose condition says what a block walks; null: all of it.
const ComputedOperand* shown_side(const ContractionProblem& problem);

/// How much of the contracted dimension a block is expected to walk, as if groups had equally many rows, sorted, and
/// every row one: what is really walked only the data say.
double walked_share(const ContractionProblem& problem, const ContractionSchedule& schedule);

}  // namespace stitch::kernel
