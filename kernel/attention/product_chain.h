#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/attention/attention_problem.h"
#include "kernel/contraction/contraction_problem.h"

// What a kernel of chained products computes, without anything of how: for every batch b, row m and column n
//
//     sᵢ[b, m, j]     = Σₖ leftᵢ[b, m, k] · rightᵢ[b, j, k]                  one or two scores
//     wᵣ[b, m, j]     = fᵣ(s₀[b, m, j], s₁[b, m, j], …, b, m, j)             element by element
//     resultᵣ[b, m, n] = epilogueᵣ(Σⱼ wᵣ[b, m, j] · otherᵣ[b, n, j], b, m, n)  one or two results
//
// Neither scores nor weights are ever in memory: a block has its rows of all left operands and walks the j, `columns`
// of them at a time (back-to-back products through registers or shared memory: DeepCuts, PLDI 2021, §4). Two kinds of
// graph are such chains:
//
//   * the backward pass of attention (Dao et al. 2022, FlashAttention, Algorithm 4, without its atomics). With rows of
//     queries: s₀ = Q·Kᵀ, s₁ = dO·Vᵀ, and dQ = w·K. With rows of keys: s₀ = K·Qᵀ, s₁ = V·dOᵀ, dK = w₀·Q and
//     dV = w₁·dO. Maxima and sums of the softmax's rows, and what the gradient of a row is relative to, are parameters.
//   * two products, the second of which takes what the first one makes: f(x·A)·B.

namespace stitch::kernel {

struct ProductChain {
  /// Left: rows × depth; right: columns that are walked × depth; its graph has the other score as a parameter more.
  std::vector<ContractionProblem> scores;
  /// Left: the weights, rows × columns that are walked, in the type that is multiplied. Its graph has them as a
  /// parameter more.
  std::vector<ContractionProblem> products;
  std::vector<graph::NodeId> roots;            ///< the graph's dots that make the scores
  std::vector<graph::Value> weights;           ///< of each product, in the graph
  std::vector<ContractionResult> weights_lie;  ///< how these would lie in memory, by batch, row and walked column
  /// Logits that hide what is not walked (visible_keys.h), with this chain's rows and columns: all weights are products
  /// with their exponentials, and no row or column is hidden altogether. Of an attention's gradients alone.
  std::optional<AttentionProblem> mask;
  /// All that the kernel computes; its parameters are the kernel's arguments, and the parts' number them so.
  std::shared_ptr<const graph::Graph> graph;

  [[nodiscard]] std::int64_t batch() const { return scores[0].batch; }
  [[nodiscard]] std::int64_t rows() const { return scores[0].rows; }
  [[nodiscard]] std::int64_t columns() const { return scores[0].columns; }
  /// The score whose right operand is what product `r` multiplies its weights by, read from the other side: one tile
  /// serves both. −1: it has its own.
  [[nodiscard]] int shared_operand(std::size_t r) const;
  /// Multiplications, and as many additions, if nothing is hidden.
  [[nodiscard]] double multiplications() const;
  /// Bytes of arguments and results: what must cross device memory.
  [[nodiscard]] std::int64_t least_bytes() const;
};

/// Reads a graph that is such a chain. Errors: unsupported (it is none; sums in something else than f32; operands that
/// are computed; dots whose batch, rows and columns do not go together), with what is in the way.
Result<ProductChain> derive_chain(graph::Graph graph);

/// "bf16 96×[512,64]·[64,512] & [512,64]·[64,512], then ·[512,64] → bf16".
std::string to_string(const ProductChain& chain);
/// Names the chain by all that a kernel's code depends on.
Hash128 chain_hash(const ProductChain& chain);

}  // namespace stitch::kernel
