#pragma once

#include "base/blas.h"
#include "client/executor.h"
#include "graph/graph.h"

namespace stitch::client {

/// Whether run_library_call computes the graph: dots and convolutions of floating values, with layouts around them and
/// scales, sums, maxima and conversions. Error: unsupported, naming the operator, or the parameter that is of another
/// type
/// ("parameter 1", by its place in the step), and who computes it instead.
Status covers_library_call(const graph::Graph& call);

/// Computes a library call on host memory (api::ProgramCall::graph): products in f32, in f64 where it has any f64, and
/// nothing else is rounded but results and what the graph converts. Spans are as large as the graph's parameters and
/// results. Errors: those of covers_library_call.
Status run_library_call(const graph::Graph& call, const Blas& blas, Inputs parameters, Outputs results);

/// The longest sum that the graph's contractions take: what an error model must allow of additions in a row.
std::int64_t longest_contraction(const graph::Graph& call);

}  // namespace stitch::client
