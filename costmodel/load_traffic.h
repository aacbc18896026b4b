#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// What the loads of a group ask of L1 and what L1 passes on. Requests are collected for as long as one finds what
/// another has brought, a sweep, and then added up:
///
///     for (const ItemId load : loads) traffic.request(load, width, times);
///     traffic.pass_to_l2();
///
/// count_reads does so for the loads in front of all sweeps, and adds the bytes that device memory is asked for;
/// count_sweep for those of each sweep. All amounts go into the features that it was made with.
class LoadTraffic {
 public:
  LoadTraffic(const CountedGroup& counted, GroupFeatures& features);

  /// Loads before all sweeps, and what all loads take from device memory: the distinct bytes of each buffer, once per
  /// sweep that loads from it.
  void count_reads();
  /// A load that each thread makes `times` times in a tile, `width` elements at once.
  void request(kernel::ItemId load, double width, double times);
  /// What L1 passes on of the requests since the last call. It has what the block asked for before, as far as the
  /// block's part of it holds what was asked for since, twice over, since not all is used at once: of one buffer, by
  /// loads that together want more of it than there is and thus want the same in turn (windows); of all buffers, by the
  /// turn of a loop before this one. Shared memory is taken from L1.
  void pass_to_l2();

 private:
  /// What a sweep asks of one buffer, bytes.
  struct Asked {
    double requested = 0;  ///< by all warps, what several lanes of one want once
    double distinct = 0;   ///< what each load wants of its tile, once, added up
    double largest = 0;    ///< of the loads: the most that one of them wants
    double turn = 0;       ///< `largest` of what is wanted between two turns of a block's loops
    double sectors = 0;    ///< requested, with what the sectors waste in L2
  };
  void read_once(kernel::ItemId id, PerBuffer<double>& reads) const;
  /// Bytes of L1 that a block has for what it loads.
  [[nodiscard]] double l1_room() const;
  /// Takes what comes from shared memory off a request; what is left of `requested` and `requests`.
  void take_retained(kernel::ItemId load, double& requested, double& requests);

  const CountedGroup& counted_;
  GroupFeatures& features_;
  PerBuffer<Asked> asked_;  ///< of the sweep that is counted
};

}  // namespace stitch::costmodel
