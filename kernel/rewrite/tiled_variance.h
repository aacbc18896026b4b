#pragma once

#include <optional>

#include "graph/graph.h"

namespace stitch::kernel {

/// The kernel with its variances over long rows taken tile by tile, so that a row that does not fit on chip is read
/// once for mean and variance instead of twice (Chan, Golub and LeVeque 1979, eq. 2.1a): with the sum s_t of tile t,
/// m_t = s_t/T and q_t = Σ (x − m_t)², both of a tile that stays on chip,
///
///     Σ x = Σ_t s_t   and   Σ (x − c)² = Σ_t (q_t + T·(m_t − c)²),
///
/// for any c that is the same along the row; here what a program computes from Σ x. No large sums are subtracted from
/// one another, so it is as accurate as the two passes. Parameters, results and their order are the kernel's.
///
/// Nothing where no kernel value is such a variance in f32 or f64, or no row is longer than a tile or can be divided.
std::optional<graph::Graph> tile_variances(const graph::Graph& kernel);

}  // namespace stitch::kernel
