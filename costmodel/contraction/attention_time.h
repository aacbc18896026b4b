#pragma once

#include <array>
#include <utility>

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/contraction/pipeline_turn.h"
#include "kernel/attention/visible_keys.h"

namespace stitch::costmodel {

/// How long an attention kernel takes, and what of it. As contraction_time.h's, with what is between the products: a
/// warp multiplies, takes exponentials and multiplies again, one after the other, and only other warps of its scheduler
/// hide that. Turns are those of the walk (kernel/attention/visible_keys.h), so that a causal mask halves them.
struct AttentionTime {
  // Rival limits, µs, of the SM that has most to do, or of the whole GPU. The largest decides.
  double multiply = 0;  ///< both products
  double special = 0;   ///< exponentials
  double shared = 0;
  double issue = 0;
  double l2 = 0;
  double dram = 0;
  double loop = 0;  ///< all turns with what follows one another in a warp, and the waits that stages do not hide
  // What no limit hides, µs.
  double fill = 0;      ///< first tiles of each round of blocks
  double epilogue = 0;  ///< results through shared memory, stores
  double partial = 0;   ///< results of blocks that share a tile's keys
  double launch = 0;

  double total = 0;   ///< µs
  double turns = 0;   ///< tiles of keys that a block walks, on average
  double rounds = 0;  ///< how often all SMs get as many blocks as they hold
  double l2_bytes = 0, dram_bytes = 0;
  PipelineTurn turn;  ///< of the rounds of most blocks

  [[nodiscard]] std::array<std::pair<const char*, double>, 7> limits() const;
  [[nodiscard]] std::pair<const char*, double> binding() const;
};

/// Of a legal schedule; `walk` is its key_walk.
AttentionTime attention_time(const kernel::AttentionProblem& problem, const kernel::AttentionSchedule& schedule,
                             const kernel::KeyWalk& walk, const DeviceSpec& device,
                             const AnalyticalConstants& constants = {});

/// What the same takes as three steps: the library's product of queries and keys, a kernel that reads the scores once
/// and writes the weights once, and the library's product of weights and values.
double unfused_attention_us(const kernel::AttentionProblem& problem, const DeviceSpec& device,
                            const AnalyticalConstants& constants = {});

}  // namespace stitch::costmodel
