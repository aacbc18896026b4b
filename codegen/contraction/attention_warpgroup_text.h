#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "codegen/writer.h"
#include "kernel/attention/attention_schedule.h"

// What attention by wgmma prints otherwise than the others (codegen/device/warpgroup_attention.cuh).
namespace stitch::codegen {

/// The structure `name`: the instruction of 64 rows and so many columns of a product of tiles in shared memory, which
/// begins with it or adds it.
void print_score_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& scores, int columns);
/// And that of one whose left operand is in registers, which adds it.
void print_weighted_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& product, int columns);

/// The structures `ScoreProduct` and `WeightedProduct`: the instructions of 64 rows, of queries in shared memory and of
/// weights in registers.
void print_attention_wgmma(Writer& out, const kernel::AttentionProblem& problem, const kernel::AttentionShape& shape);

/// The types of the two products' sums and of the weights between them: Scores, Weights, Weighted.
void print_attention_cores(Writer& out, const kernel::AttentionProblem& problem, const kernel::AttentionShape& shape);

/// What the loop over tiles of keys and values says of a block.
struct WarpgroupLoop {
  const kernel::AttentionSchedule& schedule;
  std::string turns;   ///< how many tiles of keys the block walks
  bool some = false;   ///< whether that may be none
  bool drops = false;  ///< whether weights have a dropout
  /// Asks for tile `tile` of keys, or of values, which goes to `place`.
  std::function<void(bool keys, const std::string& place, const std::string& tile)> copy;
  /// Whether no key of a tile is hidden from the block's rows.
  std::function<std::string(const std::string& tile)> seen;
};

/// The loop. Of its stages one is multiplied while the others are on their way; what is copied goes where nobody reads
/// any more, which the barrier says. Where products overlap, the scores of the next keys are multiplied first, and
/// become weights while this turn's are multiplied with the values.
void print_warpgroup_attention(Writer& out, const WarpgroupLoop& loop);

}  // namespace stitch::codegen
