#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/result.h"
#include "graph/graph.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// What a convolution is predicted to take by itself, µs: as one call, and written as Winograd has it
/// (graph/calls/winograd.h) with the tile that is best.
struct WinogradPrice {
  double direct_us = 0;  ///< by a kernel of ours or the library, whichever computes it
  std::int64_t tile = 0;
  double input_us = 0, filter_us = 0, product_us = 0, result_us = 0;
  double uncertainty_us = 0;  ///< of the difference

  [[nodiscard]] double winograd_us() const { return input_us + filter_us + product_us + result_us; }
  /// Whether it is predicted to be faster by more than both may be off.
  [[nodiscard]] bool is_faster() const { return winograd_us() + uncertainty_us < direct_us; }
};

/// Prices a convolution, a graph of that alone (graph::subgraph) which has the form (graph::has_winograd_form), `by` as
/// of ProgramRequest::products. What precedes and follows it in a model is fused with either way. `folded`: the filter
/// is a constant, and its transform costs nothing. Errors: unsupported (no product of ours or the library's has a
/// price); constraint (no plan for a transform); cancelled.
Result<WinogradPrice> winograd_price(const graph::Graph& convolution, bool folded, const Tuner& tuner,
                                     std::optional<ProductsBy> by = {}, const std::stop_token& stop = {});

/// Writes those convolutions of a simplified graph (regions' not) as Winograd has them that are predicted to be faster
/// so by more than the predictions may be off, and simplifies it again. Returns how many: none where it is not granted
/// (graph::by_winograd) or all products are the library's. Errors: cancelled; those of simplification.
Result<int> write_winograd(graph::Graph& graph, const Tuner& tuner, std::optional<ProductsBy> by = {},
                           const std::stop_token& stop = {});

}  // namespace stitch::tuning
