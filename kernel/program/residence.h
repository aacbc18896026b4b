#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// Where the buffers of a kernel lie while its phases run, and who runs them.
///
/// Most kernels run their phases once and hand everything on through device memory. A recurrent kernel
/// (kernel/loop/recurrent_step.h) takes turns: its blocks run all phases in every turn, each for rows of its own, and
/// what phases and turns hand on stays in the block's shared memory. In a layer of an LSTM
///
///     h' = o(x[t], h) * tanh(c')
///
/// x[t] comes from device memory, anew in every turn; h and c are resident, since a turn reads what the last one left;
/// the weights behind o are the same in every turn: L1 or registers have them from the second turn on.
///
/// It is made from a program when its code is printed (codegen), when its cost is counted (costmodel) and when blocks
/// are picked for a check (profiler). Of a kernel that takes no turns it answers "one turn" and "in device memory", so
/// that none of them asks what kind of kernel it has.
class Residence {
 public:
  /// Of a kernel that takes no turns.
  Residence() = default;
  explicit Residence(const KernelProgram& program) : step_(program.recurrent), cluster_(program.schedule.cluster) {}

  /// Whether the phases run more than once, with registers that live on from turn to turn.
  [[nodiscard]] bool takes_turns() const { return step_ != nullptr; }
  /// How often every phase runs.
  [[nodiscard]] std::int64_t turns() const { return takes_turns() ? step_->turns : 1; }
  /// How many blocks, or clusters, run all tiles of every phase for a part of the rows each. 1: tiles are shared out.
  [[nodiscard]] std::int64_t parts() const { return takes_turns() ? step_->blocks : 1; }
  /// Whether phases hand on within a block, or cluster: then a barrier stands behind every group, and no block has
  /// anything to do with those of other rows.
  [[nodiscard]] bool hands_on_in_block() const { return takes_turns(); }

  /// Whether a buffer lies in the block's shared memory for the whole kernel.
  [[nodiscard]] bool is_resident(const Buffer& buffer) const;
  /// Whether a turn may find other values in an input than the turn before did.
  [[nodiscard]] bool changes(const Buffer& input) const;
  /// Whether an input is read in order, a place a turn, and is asked for RecurrentStep::turns_ahead turns before.
  [[nodiscard]] bool is_sequence(const Buffer& input) const;
  /// Blocks into whose shared memory a group stores what is resident: all of the cluster, of which each computes a
  /// part; only its own where every block computes all.
  [[nodiscard]] int copies(const GroupProgram& group) const { return group.shares_cluster() ? cluster_ : 1; }
  /// Whether every block of a cluster computes what the group stores to `buffer`, so that only one may store it.
  [[nodiscard]] bool is_stored_by_one(const GroupProgram& group, const Buffer& buffer) const {
    return takes_turns() && cluster_ > 1 && copies(group) == 1 && !is_resident(buffer);
  }
  /// Whether L1 keeps from turn to turn what it has: a cluster barrier invalidates it (CCTL.IVALL in the code of its
  /// acquire).
  [[nodiscard]] bool keeps_l1() const { return takes_turns() && cluster_ == 1; }

 private:
  std::shared_ptr<const RecurrentStep> step_;  ///< null: the kernel takes no turns
  int cluster_ = 1;
};

/// Where each load of a group finds its element, from the second turn on.
class LoadPlaces {
 public:
  enum class Place : std::uint8_t {
    device,     ///< device memory, or L2
    l2,         ///< sequences, asked for some turns ahead; what all turns read alike and L1 does not hold
    registers,  ///< loaded once, before the turns
    l1,         ///< every turn reads the same, and the block's L1 has room for all of that
    shared,     ///< what turns and phases hand on
  };

  /// `l1_bytes`: what the block's L1 holds of what every turn reads alike.
  LoadPlaces(const Residence& residence, const GroupProgram& group, double l1_bytes);

  [[nodiscard]] Place of(ItemId load) const { return places_.empty() ? Place::device : places_[load]; }
  /// Whether every turn reads the same.
  [[nodiscard]] bool is_lasting(ItemId load) const { return !lasting_.empty() && lasting_[load]; }
  /// How many turns before it is read a load has been asked for.
  [[nodiscard]] int turns_ahead(ItemId load) const {
    return of(load) == Place::l2 && !is_lasting(load) ? RecurrentStep::turns_ahead : 0;
  }

 private:
  std::vector<Place> places_;  ///< per item; empty: all in device memory
  std::vector<bool> lasting_;  ///< per item; empty: none
};

}  // namespace stitch::kernel
