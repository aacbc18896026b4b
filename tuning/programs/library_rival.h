#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "tuning/plans/call_record.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// What a library's calls take in the place of a kernel of ours, where these were measured.
struct LibraryRival {
  double us = 0;              ///< all of it
  double measured_us = 0;     ///< of that the calls
  double uncertainty_us = 0;  ///< of what is beside the calls and was predicted, and the noise of the calls' samples
  std::vector<std::string> libraries = {};  ///< who was measured, each once
  double noise = 0;                         ///< of the call whose samples differ most, as a share

  /// Whether a kernel that was measured to take `ours_us` is faster by more than all of that may be off.
  [[nodiscard]] bool is_slower_than(double ours_us) const { return ours_us * (1 + noise) + uncertainty_us < us; }
};

/// The calls that a library makes of a product, convolution or attention, each as the canonical graph of what it
/// computes: what CallTime is known of. Errors: those of canonical forms.
Result<std::vector<graph::Graph>> library_calls_of(const graph::Graph& product);

/// What is known of a call, given its canonical graph; nothing: it was not measured.
using KnownCall = std::function<Result<std::optional<CallTime>>(const graph::Graph& call)>;

/// The library's way to a product's result: as it is predicted, with what calls were measured to take instead of what
/// they were predicted to. `rest_apart`: what no call computes would be a kernel of its own. Nothing: a call was not
/// measured, or failed, or there is none. Errors: those of `known`.
Result<std::optional<LibraryRival>> library_rival(const graph::Graph& product, bool rest_apart, const Tuner& tuner,
                                                  const KnownCall& known);

}  // namespace stitch::tuning
