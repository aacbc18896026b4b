#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/attention/paged_operand.h"
#include "kernel/attention/row_statistics.h"
#include "kernel/attention/updated_operand.h"
#include "kernel/contraction/contraction_problem.h"

// What an attention kernel computes, without anything of how: for every batch b, row (query) m and column n
//
//     weights[b, m, j] = exp(logits[b, m, j] − maxⱼ) ÷ Σⱼ exp(logits[b, m, j] − maxⱼ)
//     result[b, m, n]  = epilogue(Σⱼ weights[b, m, j] · values[b, n, j], b, m, n)
//     logits[b, m, j]  = f(Σₖ queries[b, m, k] · keys[b, j, k], b, m, j)
//
// (with a dropout the values are multiplied by dropout(weights[b, m, j], b, m, j), which is linear in the weights)
//
// two contractions (contraction_problem.h) that share batch and rows: the scores, whose epilogue f has scales, masks
// and biases, and the product of weights and values. The scores are never in memory: a block walks the keys with the
// maximum and the sum of each of its rows so far (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention, §3.1).
// It is a fusion of two compute-intensive operators through registers or shared memory as DeepCuts has them (techniques
// of PLDI 2021, §4), where the reduction between them is carried along.

namespace stitch::kernel {

struct AttentionProblem {
  ContractionProblem scores;  ///< left: queries, right: keys; its result is the logits
  ContractionProblem
      product;  ///< left: the weights, in the type that is multiplied; right: values; columns: the result's
  /// What of the weights is multiplied: the epilogue of a "product" whose root is a parameter more, in the place of the
  /// softmax. Linear in it, so that it may come before the division by the row's sum.
  std::optional<ContractionProblem> dropout;
  double weight_scale = 1;               ///< a constant that all weights are multiplied by
  bool empty_is_zero = false;            ///< rows whose logits are all −∞ give 0 instead of NaN
  bool nan_is_zero = false;              ///< so do rows whose weights are NaN for any reason
  int result = 0;                        ///< the product's among the graph's results
  std::vector<RowStatistic> statistics;  ///< the others but what is updated
  /// Keys and values that are read with some of them replaced: scores.right and product.right are then the wholes,
  /// which lie as their parameters do.
  std::optional<UpdatedOperand> updated_keys, updated_values;
  /// Keys and values in pages: scores.right and product.right are then all that the table has, as a gather would leave
  /// it, and their parameters the caches.
  std::optional<PagedOperand> paged_keys, paged_values;
  /// All that the kernel computes; its parameters are the kernel's arguments, and both contractions' number them so.
  std::shared_ptr<const graph::Graph> graph;

  /// Heads that share keys and values count as rows where those are few.
  [[nodiscard]] std::int64_t batch() const { return scores.batch; }
  [[nodiscard]] std::int64_t rows() const { return scores.rows; }
  [[nodiscard]] std::int64_t keys() const { return scores.columns; }
  [[nodiscard]] std::int64_t depth() const { return scores.contracted; }
  [[nodiscard]] std::int64_t width() const { return product.columns; }
  /// Whether updated keys or values are results: whoever has a tile of them stores it, so that all are walked.
  [[nodiscard]] bool stores_operands() const {
    return (updated_keys && updated_keys->result >= 0) || (updated_values && updated_values->result >= 0);
  }
  /// Elements of them, of all batches.
  [[nodiscard]] std::int64_t stored_operands() const {
    std::int64_t elements = 0;
    for (const auto* updated : {&updated_keys, &updated_values})
      elements += *updated && (*updated)->result >= 0 ? (*updated)->elements : 0;
    return elements;
  }
  /// Bytes of arguments and results: what must cross device memory. Of pages those that the table has.
  [[nodiscard]] std::int64_t least_bytes() const;
};

/// Reads a graph that is one attention (graph/calls/attention.h). One result is the product's; others may be its
/// softmax's row statistics, or keys and values that are updated. Errors: unsupported (it is none; sums in f64 or
/// integers; operands that are computed; batch and rows of the two products that do not go together; other results:
/// row_statistics.h; other updates: updated_operand.h; other pages: paged_operand.h), with what is in the way.
Result<AttentionProblem> derive_attention(graph::Graph graph);

/// "bf16 64×[1024,64]·[1024,64], softmax, ·[1024,64] → bf16", with "softmax, dropout" of a dropout, and "…, with row
/// statistics" or "…, with updated keys and values" or "…, of paged keys and values" where there are some.
std::string to_string(const AttentionProblem& problem);
/// Names the problem by all that a kernel's code depends on.
Hash128 attention_hash(const AttentionProblem& problem);

}  // namespace stitch::kernel
