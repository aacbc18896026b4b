#pragma once

#include <optional>

#include "graph/graph.h"

namespace stitch::kernel {

/// The kernel with the maximum of a long row and the sum of its exponentials relative to it as one reduction
/// (max-exp-sum; Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"):
///
///     m = max x,  s = Σ exp(x − m)   of the same x along the same dimensions
///
/// (or with m replaced by 0 where it is not finite, as libraries have it for rows of −∞ alone), for softmax,
/// log-softmax, log-sum-exp and cross entropy. One sweep over the row and one exchange between threads, blocks or
/// phases instead of two; what it costs is an exponential for each vector, and one for each element again where the
/// exponentials themselves are needed, too. Parameters, results and their order are the kernel's.
///
/// Nothing where no kernel value is such a sum in f32 or f64, or no row is long enough for more than a warp.
std::optional<graph::Graph> join_max_and_exp_sums(const graph::Graph& kernel);

}  // namespace stitch::kernel
