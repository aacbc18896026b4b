#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_problem.h"

// Products of narrow elements whose scales change along the contracted dimension: activations of f8 or s8 scaled by
// 1 × 128, weights by 128 × 128 (DeepSeek-V3, arXiv 2412.19437 §3.3) or by groups of a column. Part p of the depth has
// scales of its own, so that it is summed up by itself; its sums are scaled and added to those of the parts before:
//
//     result[m, n] = epilogue(Σₚ sx[m, p] · sw[n, p] · Σ(k in p) x[m, k] · w[n, k])
//
// Graphs say it in two ways. By parts, where parts are a batch dimension of the dot, over which its scaled results are
// summed; or by operands, each of which is a narrow tensor, converted and scaled, in any layout between:
//
//     dot(x[m,p,128], w[n,p,128]; batch p) → f32[p,m,n] · sx[m,p] · sw[n/128,p] → sum over p
//     dot(convert(x) · sx, convert(w) · sw)
//
// Of x: f8[100,1024], w: f8[256,1024]:
//
//     batch 1, rows 100, columns 256, contracted 1024
//     left f8, rows [100:1024], contracted [1024:1]; right f8, columns [256:1024], contracted [1024:1]
//     scales of 128 of depth, the same for 1 row and 128 columns
//
// The kernel multiplies what is in memory: tensor cores of bytes take it as it is, where the second form by itself
// would be a product of f32 or bf16 (computed_operand.h).
//
// How far it is off. Of a part with scales a and b, of whose products tensor cores add S one after another, they give
// Σ x·w with an error of at most S·u·Σ|x·w|, u = 2^-24 (of integers: none; they are exact in f32 up to 2^24, which is
// 1,024 products of bytes). It is multiplied by a and by b, which are products of few factors themselves, and added to
// the others, which rounds once for each part behind it: (S + parts + factors + 2)·u·Σ|a·x · b·w| in all. For the dot
// of scaled operands the reference grants (depth + 1)·u·Σ|a·x · b·w|, where the depth counts what the kernel's program
// adds one after another, S and parts among it, besides 2·log₂ of the number of products (evaluate_error.h, sum_depth),
// and u·Σ|a·x · b·w| for each rounding of a scaled operand. By parts it grants the parts' dots, each scale and the sum
// for themselves. Where a graph rounds scaled operands to 16 bits, or sums of parts, the kernel is more exact than it.

namespace stitch::kernel {

/// Reads a graph of one dot in either form, with an epilogue that may combine whole rows. Errors: unsupported (those of
/// derive_contraction and depth_scales.h; operands that are no narrow tensors in memory, or more than scaled; what
/// others read on the way), with the node.
Result<ContractionProblem> derive_scaled(graph::Graph graph);

}  // namespace stitch::kernel
