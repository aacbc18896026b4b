#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "emulator/decode/instruction.h"
#include "emulator/memory/vector_clock.h"

namespace stitch::emulator {

/// What releases to one address have made known to whoever acquires from it.
struct SyncLocation {
  VectorClock strong;   ///< by proper releases
  VectorClock cluster;  ///< by releases of cluster scope, for the blocks of that cluster
  VectorClock weak;     ///< as if every atomic access released and acquired
  std::uint32_t cluster_first = 0;
};

/// The synchronisation variables of a launch in global memory.
class SyncTable {
 public:
  /// Calls use(location) under the lock of the address's shard; makes the location when `create` is set.
  template <class F>
  void with(std::uint64_t address, bool create, F&& use) {
    Shard& shard = shards_[(address >> 2) % shard_count];
    const std::lock_guard guard(shard.mutex);
    if (create) {
      use(shard.locations[address]);
    } else if (const auto found = shard.locations.find(address); found != shard.locations.end()) {
      use(found->second);
    }
  }

 private:
  static constexpr std::size_t shard_count = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, SyncLocation> locations;
  };
  std::array<Shard, shard_count> shards_;
};

/// The happens-before relation among the warps of a unit (a cluster, or a single block), and what they know of other
/// units. Time is one counter per unit that advances at every synchronisation; an access is stamped with the time at
/// which it happens, and an agent knows, for every other agent, up to which time that one's accesses happened before.
///
/// Agents are the warps of the unit's blocks, per block one that stands for its asynchronous copies and, in kernels
/// that use tensor memory, per warp one for what it has the tensor core do. Order among the lanes of a warp is kept
/// apart (warp_floor and lanes_ordered), since most synchronisation is by whole warps.
class UnitClock {
 public:
  /// What a synchronisation variable inside the unit hands on (an mbarrier, an atomic in shared memory).
  struct Knowledge {
    std::vector<std::uint32_t> known;
    VectorClock foreign;
    void merge(const Knowledge& other);
  };

  UnitClock(std::uint32_t first_ordinal, std::uint32_t blocks, std::uint32_t warps_per_block,
            bool has_tensor_memory = false);

  [[nodiscard]] std::uint32_t now() const { return now_; }
  [[nodiscard]] std::uint32_t agent(std::uint32_t block, std::uint32_t warp) const { return block * stride_ + warp; }
  [[nodiscard]] std::uint32_t async_agent(std::uint32_t block) const { return block * stride_ + stride_ - 1; }
  /// What the warp `agent` has the tensor core do; only where there is tensor memory.
  [[nodiscard]] std::uint32_t tensor_agent(std::uint32_t agent) const { return agent + warps_; }
  [[nodiscard]] bool is_tensor_agent(std::uint32_t agent) const {
    return agent % stride_ >= warps_ && agent % stride_ + 1 < stride_;
  }
  [[nodiscard]] std::uint32_t agents() const { return agents_; }
  [[nodiscard]] std::uint32_t block_of(std::uint32_t agent) const { return agent / stride_; }
  [[nodiscard]] std::uint32_t first_ordinal() const { return first_ordinal_; }
  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }

  /// Accesses of the block's own warps before this time happened before every warp of the block went on.
  [[nodiscard]] std::uint32_t block_floor(std::uint32_t block) const { return block_floor_[block]; }
  /// Accesses of the warp before this time are ordered for all its lanes.
  [[nodiscard]] std::uint32_t warp_floor(std::uint32_t agent) const { return warp_floor_[agent]; }
  /// Whether `other`'s accesses at `time` happened before what `me` does now.
  [[nodiscard]] bool ordered(std::uint32_t me, std::uint32_t other, std::uint32_t time) const {
    return me == other || known_[std::size_t{me} * agents_ + other] >= time;
  }
  /// Up to which time the agent knows of each agent's accesses.
  [[nodiscard]] std::span<const std::uint32_t> known_times(std::uint32_t agent) const {
    return {known_.data() + std::size_t{agent} * agents_, agents_};
  }
  /// The same for two lanes of one warp.
  [[nodiscard]] bool lanes_ordered(std::uint32_t agent, std::uint32_t lane, std::uint32_t other,
                                   std::uint32_t time) const;
  /// Whether anything that happened in the block is known to `me`.
  [[nodiscard]] bool knows_block(std::uint32_t me, std::uint32_t block) const;

  /// Lanes of a warp met; `all` when they are all that are left.
  void synchronise_lanes(std::uint32_t agent, std::uint32_t lanes, bool all);
  /// Agents met at a barrier: afterwards each knows what any of them knew.
  void join(std::span<const std::uint32_t> agents);
  /// As join, of all warps of a block that are left.
  void join_block(std::uint32_t block, std::span<const std::uint32_t> agents);

  /// All warps of the block know what the others did before `time`.
  void raise_block_floor(std::uint32_t block, std::uint32_t time) {
    if (block_floor_[block] < time) block_floor_[block] = time;
  }
  /// Lets time pass, so that what follows can be told from what went before.
  void advance() { ++now_; }

  [[nodiscard]] Knowledge release(std::uint32_t agent);
  void acquire(std::uint32_t agent, const Knowledge& knowledge);
  /// What the warp issues to the tensor core now happens after all that it did and knows.
  void begin_tensor_work(std::uint32_t agent);
  /// As release, of the warp and of the work that it has issued to the tensor core.
  [[nodiscard]] Knowledge release_tensor_work(std::uint32_t agent);

  // Between units, through global memory.
  /// fence.{acq_rel, sc} of device or system scope.
  void fence(std::uint32_t agent);
  void release_to(SyncLocation& location, std::uint32_t agent, Semantics semantics, Scope scope, bool replaces);
  void acquire_from(const SyncLocation& location, std::uint32_t agent, Semantics semantics, Scope scope);
  /// Whether an access by a warp of another unit happened before what `me` does now; `any_warp`: by some warp of it.
  [[nodiscard]] bool foreign_ordered(std::uint32_t me, std::uint32_t ordinal, std::uint32_t warp, bool any_warp,
                                     std::uint32_t time) const;
  /// The same, had every atomic access been a release and an acquire.
  [[nodiscard]] bool weakly_ordered(std::uint32_t me, std::uint32_t ordinal, std::uint32_t warp, bool any_warp,
                                    std::uint32_t time) const;

 private:
  struct Foreign {
    VectorClock known;
    VectorClock fenced;    ///< known at the last fence
    VectorClock observed;  ///< read by relaxed accesses: known after the next fence
    VectorClock weak;
  };

  [[nodiscard]] std::span<std::uint32_t> known(std::uint32_t agent) {
    return {known_.data() + std::size_t{agent} * agents_, agents_};
  }
  [[nodiscard]] std::span<std::uint32_t> fenced(std::uint32_t agent) {
    return {fenced_.data() + std::size_t{agent} * agents_, agents_};
  }
  /// Most kernels never synchronise blocks: what that needs is made when one does.
  void use_foreign();
  void learn(std::uint32_t agent, const VectorClock& clock);
  void publish(VectorClock& into, std::uint32_t agent, std::span<const std::uint32_t> known, const VectorClock& foreign,
               std::uint32_t own_time);

  std::uint32_t first_ordinal_;
  std::uint32_t blocks_;
  std::uint32_t warps_;  ///< per block
  std::uint32_t stride_;
  std::uint32_t agents_;
  std::uint32_t now_ = 1;
  std::vector<std::uint32_t> known_;   ///< agents × agents; an agent's own entry is the time of its last release
  std::vector<std::uint32_t> fenced_;  ///< what of `known` a fence has since made visible to the device
  std::vector<std::uint32_t> block_floor_;
  std::vector<std::uint32_t> warp_floor_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> lanes_known_;  ///< 32 × 32, of warps that met in part
  std::vector<Foreign> foreign_;
  bool foreign_used_ = false;
};

}  // namespace stitch::emulator
