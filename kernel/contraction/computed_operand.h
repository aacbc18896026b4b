#pragma once

#include <functional>

#include "base/result.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/structure/scalar_program.h"

// Products of what is computed while it is loaded: a conversion, a scale, a bias, the derivative of an activation, a
// mask, a norm whose statistics are small vectors. Of bf16(x · scale) · w with x: f32[1024,768] and scale: f32[768]:
//
//     batch 1, rows 1024, columns 3072, contracted 768
//     left     bf16, rows [1024:768], contracted [768:1]    as if it were in memory, by the numbers of its own elements
//     computed left: of each element 4 bytes of x, and what follows one another of scale
//
// It is the product of a tensor that is nowhere (`graph` has a parameter for it, behind its others), and what that is
// made of (`computing` has all). Threads load what an element is made of into registers, and store the element to
// shared memory where a product's tiles are; columns of tiles compute it anew, each for itself.

namespace stitch::kernel {

/// Operands of the roots of `graph` that are neither parameters nor views of them, but computed element by element from
/// parameters and constants; each once, in the order of the roots.
std::vector<graph::Value> computed_operands(const graph::Graph& graph);

/// What `derive` makes of the graph with its computed operands as parameters. Errors: unsupported (none is computed, or
/// one by more than element-wise operators; several products that do not share it; what `derive` says).
Result<ContractionProblem> derive_computed(
    graph::Graph graph, const std::function<Result<ContractionProblem>(graph::Graph)>& derive = derive_contraction);

/// The same product of tensors in memory, for which a kernel before computes them: problem.graph is all of it.
ContractionProblem without_computing(ContractionProblem problem);

/// The element of an operand at (batch, row or column, depth), which are the program's axes 0 to 2.
struct ComputedElement {
  ScalarProgram program;
  ItemId element = -1;
};
/// Error: unsupported (items that are more than element-wise, or looked up one by one where they are copied together).
Result<ComputedElement> computed_element(const ContractionProblem& problem, const ComputedOperand& computed);

/// The computed operand of the left or right side; null: it is in memory.
const ComputedOperand* computed_side(const ContractionProblem& problem, bool left);
/// The axis of a ComputedElement along which the operand's elements are copied together.
int copied_axis(const ContractionOperand& operand);
/// Whether elements of a run that are copied together differ in what a load brings.
bool differs_in_run(const ScalarProgram& program, ItemId load, int axis, int run);
/// Registers of 4 bytes in which a thread holds what `elements` that are copied together are made of.
int held_registers(const ComputedOperand& computed, int elements);

}  // namespace stitch::kernel
