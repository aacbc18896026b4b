#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_problem.h"

// Keys and values that an attention reads with some of them replaced, as a step of decoding has them: its cache with
// the new token's,
//
//     keys = dynamic_update_slice(cache, new keys, 0, 0, position, 0)
//
// and that are a result, too, where the caller wants the cache as it is then. The kernel brings tiles of the cache to
// shared memory, takes the new keys over there, and stores what it has: the cache is read once and written once, by
// whom multiplies it. Where nobody wants it, nothing is written at all.

namespace stitch::kernel {

struct UpdatedOperand {
  /// The new ones: batch and free or contracted digits as of the operand, and along the keys those of the update.
  ContractionOperand update;
  std::int64_t keys = 1;      ///< that are new
  int start = -1;             ///< parameter that says where they begin, of any integer type; −1: `first` does
  std::int64_t first = 0;     ///< clamped, as the parameter is when it is read, so that all new keys are within
  int result = -1;            ///< which of the graph's results is the whole; −1: none is
  std::int64_t elements = 0;  ///< of the whole

  bool operator==(const UpdatedOperand&) const = default;
};

/// The number of the parameter that a value is, reshaped at most; −1: none.
int reshaped_parameter(const graph::Graph& graph, graph::Value value);

/// The update whose result an operand of a dot reads, through layouts: a dynamic-update-slice of a parameter by a
/// parameter, both reshaped at most, at a constant or a parameter. Nothing: of any other.
std::optional<graph::NodeId> update_before(const graph::Graph& graph, graph::Value operand);
/// The number of the parameter that such an update replaces a part of.
int updated_parameter_of(const graph::Graph& graph, graph::NodeId update);

/// How a kernel finds what `update` has new: of the operand `whole` (of `batches`), which lies as the update's result
/// does. `free`: its keys are the free dimension, not the contracted one. `stored`: the graph's result that the whole
/// is, or −1. Errors: unsupported (the update is not of whole keys; keys or batches that are not all of the tensor;
/// elements side by side along the keys), with what is in the way.
Result<UpdatedOperand> updated_operand(const graph::Graph& graph, graph::NodeId update, const ContractionOperand& whole,
                                       std::int64_t batches, bool free, int stored);

void hash_update(Hasher& hasher, const UpdatedOperand& updated);

}  // namespace stitch::kernel
