#pragma once

#include <cstdint>

#include "graph/graph.h"

// How far products of f8 may be off whose sums have fewer bits than f32, as wgmma's on Hopper have. What is published
// of them, none of it by NVIDIA:
//
//  - "After aligning 32 mantissa products by right-shifting based on the maximum exponent, the Tensor Core only uses
//  the
//    highest 14 bits of each mantissa product for addition, and truncates bits exceeding this range. The accumulation
//    of addition results into registers also employs 14-bit precision" (DeepSeek-V3, arXiv 2412.19437 §3.5.2);
//  - an accumulator of 1 sign bit, 8 of exponent and 13 of mantissa, by what comes back of one beside products of
//  zeros:
//    the lowest 10 bits are cut off (SageAttention2, arXiv 2411.10958).
//
// So of an instruction of 32 products pᵢ on a sum s, with 2^e the largest power of two within any of them, s included,
// each of the 33 loses less than 2^(e-13), and the result less than 2^-13 of itself. Sums are right only if they are
// few: §3.3.2 has an error of 2 % for a depth of 4,096, and adds to f32 after every 128 products what those make. That
// is what kernel::promotes does, and what is bounded here, part by part from the first product on.
namespace stitch::graph::reference {

inline constexpr double narrow_unit = 0x1p-13;    ///< of the largest of what is added, what each may lose
inline constexpr std::int64_t narrow_depth = 32;  ///< products that are added at once

/// Whether a node multiplies two tensors of f8, as they are or scaled and converted, and adds up to f32 or less.
bool is_narrow_product(const Graph& graph, const Node& node);

/// `k` products aᵢ·bᵢ with the operands' bounds (null: exact).
struct NarrowTerms {
  const double *a, *ea, *b, *eb;
  std::int64_t k;
};
/// What is lost of their sum in parts of `part` products, beside what the operands' bounds and f32 make of it.
/// `smallest_a`, `smallest_b`: normal numbers; a smaller one may be aligned as if it were that.
double narrow_loss(const NarrowTerms& terms, std::int64_t part, double smallest_a, double smallest_b);

}  // namespace stitch::graph::reference
