#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::import::hlo {

/// Whether a computation is the threefry-2x32 block function (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC 2011; 20 rounds): parameters key 0, key 1, counter 0, counter 1 and two results, all u32.
///
/// Recognised by what it computes, not by its name: it may hold integer arithmetic, constants, broadcasts, reshapes,
/// slices and a loop of known trip count (JAX writes the rounds out for GPUs and rolls them up for CPUs), and at
/// sampled elements of its results it must give, for random inputs, what the reference gives
/// for the elements of the parameters that broadcasting them to the results' shape puts there. A parameter is a
/// scalar, or of the results' rank with extents equal to theirs or 1 (numpy's rule).
bool is_threefry2x32(const graph::Graph& computation);

/// The reference: two words from two words of key and two of counter.
struct ThreefryBlock {
  std::uint32_t x0 = 0, x1 = 0;
};
ThreefryBlock threefry2x32(std::uint32_t key0, std::uint32_t key1, std::uint32_t x0, std::uint32_t x1);

}  // namespace stitch::import::hlo
