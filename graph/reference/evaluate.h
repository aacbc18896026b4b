#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/reference/evaluate_options.h"
#include "graph/reference/tensor.h"

// What a graph computes, in float64: the reference that every kernel is verified against.
//
//     Tensor x = Tensor::zeros(type);                                  // …, and its elements filled in
//     EvaluateOptions options;
//     options.bounds = true;
//     STITCH_ASSIGN(std::vector<Tensor> y, evaluate(graph, std::vector{x}, options));
//     accepts(y[0].at(i), y[0].bound(i), what a kernel wrote)          // graph/reference/evaluate_error.h
//
// profiler/verify asks for the parts of results that the blocks of a kernel wrote, with bounds; fold_constants and
// ONNX's conformance cases for whole results, rounded. tensor.h has the values, evaluate_options.h the choices,
// evaluate_run.h the order of work; an operator's family stands in the source of its name.

namespace stitch::graph {

/// Float64 reference. Evaluates `wanted[i]` (any number of boxes, none: not wanted) of every result i of `graph`, and
/// returns one tensor per box in the same order.
///
/// Only what those boxes depend on is computed: demand is propagated backwards box by box
/// (graph/reference/evaluate_demand.cpp), integer index operands of gathers, scatters and dynamic slices are evaluated
/// first so that only the rows they name are read, and values are freed after their last use. Single-threaded and
/// reentrant. Semantics of every operator: docs/ir.md. Errors: invalid_argument (an input or box that does not fit),
/// unsupported (an opaque operator is needed; the message names it), resource_exhausted, cancelled, and whatever an
/// Input returns.
Result<std::vector<std::vector<Tensor>>> evaluate_parts(const Graph& graph, std::span<const Input> inputs,
                                                        const std::vector<std::vector<Box>>& wanted,
                                                        const EvaluateOptions& options = {});

/// All results, whole, from whole arguments.
Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> arguments,
                                     const EvaluateOptions& options = {});

}  // namespace stitch::graph
