#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/attention/attention_schedule.h"

namespace stitch::kernel {

/// Tiles of keys that a tile of rows needs: [first, last).
struct KeyTiles {
  std::int64_t first = 0, last = 0;
  bool operator==(const KeyTiles&) const = default;
};

/// Which tiles of keys the rows of a batch need, as far as the graph says so by itself: where a mask is made of
/// positions (causal, a sliding window), logits outside are a constant of −10⁹ or less, or −∞, and their weights are 0
/// beside those of any other logit. Found by interval arithmetic over the logits, by tile of rows, in order. Rows that
/// might have no other logit need all keys. What it takes for granted: values that are finite where weights are 0, and
/// logits that are well above such a constant.
std::vector<KeyTiles> visible_keys(const AttentionProblem& problem, std::int64_t block_rows, std::int64_t block_keys);

/// Whether each row has a key that counts, as far as the graph says so by itself: its first one, its last one, or that
/// at its own place.
bool each_row_sees_some(const AttentionProblem& problem);

/// Whether each row sees the first key, where the node of `shown`, a comparison of the scores' graph, is true.
/// `turned`: rows are the keys, so that each column sees the first row.
bool each_row_sees_first(const AttentionProblem& problem, graph::Value shown, bool turned = false);

/// The same in the form that a kernel computes: of tile t of rows, with u = t mod period,
///
///     first = max(0, (u · block_rows + below) ÷ block_keys)           where there is `below`
///     last  = min(tiles, (u · block_rows + above) ÷ block_keys + 1)   where there is `above`
struct KeyWalk {
  std::int64_t period = 1;
  std::optional<std::int64_t> below, above;
  [[nodiscard]] KeyTiles of(std::int64_t row_tile, const AttentionSchedule& schedule, std::int64_t key_tiles) const;
};
/// Keys that are stored are all walked.
KeyWalk key_walk(const AttentionProblem& problem, const AttentionSchedule& schedule);

/// A logit of no more than this hides its key: it is nothing beside another one, since exp(−10⁹ − x) is 0 for every x
/// above −10⁹ + 150.
inline constexpr double hiding_logit = -1e9;

/// Of which tiles of keys all logits are visible by what the graph says of positions: there its selects that hide keys
/// need not be computed. In the walk's form, whole tiles of rows and keys alone. Nothing: of none. `shown`: a
/// comparison that is taken for true (key_limit.h).
std::optional<KeyWalk> seen_keys(const AttentionProblem& problem, const AttentionSchedule& schedule,
                                 std::optional<graph::Value> shown = {});

/// Where visible logits are the sums times a positive constant, and the others −∞: that constant.
std::optional<double> logit_factor(const AttentionProblem& problem);

}  // namespace stitch::kernel
