#pragma once

#include <cstdint>

#include "lab/products/product_case.h"

// What kernels of the matmul class compute, at random: products of matrices with what surrounds them (bias, activation,
// residual, scales, a norm of the rows, gates, several products of one operand), of operands that are computed, scaled
// by parts or of groups of rows, sums of products, convolutions, attentions, their gradients, and chains of two
// products; any type that an instruction multiplies, any layout, extents of 0, 1, odd ones, powers of two and their
// neighbours.
namespace stitch::lab {

/// The same for the same seed. `deeper` is added to the contracted dimension of a plain product and changes nothing
/// else, so that the same loop has some turns more.
RandomProduct random_product(std::uint64_t seed, std::int64_t deeper = 0);

}  // namespace stitch::lab
