#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/reference/evaluate.h"

namespace stitch::graph::test {

/// In which order a kernel adds.
enum class SumOrder : std::uint8_t { forward, backward, pairwise, lanes };

/// How a kernel computes.
struct NaiveOptions {
  bool as_kernel = false;     ///< round every result and every partial sum to the accumulator dtype
  bool round_narrow = false;  ///< and to the dtype itself, where that is narrower
  SumOrder order = SumOrder::forward;
};

/// A second implementation of docs/ir.md, as plain as it can be: element by element from each operator's definition,
/// no regions, no blocking, no sharing of code with graph/evaluate. It is the oracle for values, and with `as_kernel`
/// the kernel whose error the bounds must cover. Control flow, opaque operators and threefry are not supported.
std::vector<Tensor> naive_evaluate(const Graph& graph, std::span<const Tensor> arguments,
                                   const NaiveOptions& options = {});

}  // namespace stitch::graph::test
