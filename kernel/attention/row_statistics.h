#pragma once

#include <span>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/calls/attention.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_results.h"

// What an attention's kernel stores of its softmax besides the result, for a backward pass that makes the weights anew
// (Dao et al. 2022, FlashAttention, §3.1) instead of reading them: of each row
//
//     max   maxⱼ logits[b, m, j]
//     sum   Σⱼ exp(logits[b, m, j] − max)
//
// A row whose logits are all −∞ has a maximum of −∞ and a sum of NaN, as the graph has it.

namespace stitch::kernel {

struct RowStatistic {
  int result = 0;                                   ///< of the graph's, by number
  graph::ReduceKind kind = graph::ReduceKind::max;  ///< max or sum
  ContractionDigits batch, rows;                    ///< where it is stored, in f32

  bool operator==(const RowStatistic&) const = default;
};

/// The graph's results but those whose numbers `others` are, in their order. `logits`: how these would lie in memory.
/// Errors: unsupported (a result that is neither of both, or not in f32; a softmax with guards for rows of −∞ or NaN),
/// with the result's number.
Result<std::vector<RowStatistic>> row_statistics_of(const graph::Graph& graph, const graph::Attention& attention,
                                                    std::span<const int> others, const ContractionResult& logits);

void hash_statistics(Hasher& hasher, const std::vector<RowStatistic>& statistics);

}  // namespace stitch::kernel
