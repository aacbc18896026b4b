#pragma once

#include <cstdint>
#include <optional>

#include "kernel/attention/attention_problem.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::kernel {

/// Where a mask hides keys from some place on that is in memory, the length of a batch's sequence or the position of a
/// step of decoding:
///
///     logits[b, m, j] = select(j + c < bound[b], …, −10⁹ or less)
///
/// Keys from bound + shown on are nothing beside others, as those that visible_keys.h finds hidden.
struct KeyLimit {
  ItemId bound = -1;       ///< an integer of the batch alone
  std::int64_t shown = 0;  ///< keys before bound + shown are those that it shows
  graph::Value compared;   ///< the comparison, of the scores' graph; true: of these keys
};

/// Whose keys a limit is of: an attention's, or a chain's, whose columns or rows they are (product_chain.h). Of an
/// attention rows that see nothing are NaN whatever is left out, where what hides is −∞; of a chain weights would be.
enum class LimitOf : std::uint8_t { attention, columns, rows };

/// That of a problem, whose logits (of batch, row and column, the program's first three axes) are item `logits`. A
/// kernel may leave out what such a mask hides as long as it shows any key: each row sees the first key then, or it
/// does not matter. Nothing: there is no such mask.
std::optional<KeyLimit> key_limit(const AttentionProblem& problem, const ScalarProgram& program, ItemId logits,
                                  LimitOf of = LimitOf::attention);

}  // namespace stitch::kernel
