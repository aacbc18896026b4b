#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stitch::tuning {

/// What a choice between two candidates of one kernel looks at.
struct Contender {
  double us = 0;              ///< estimate
  double uncertainty_us = 0;  ///< how far that may be off (costmodel/uncertainty.h)
  bool waits = false;         ///< its blocks wait for one another: a cooperative launch
  int phases = 1;             ///< barriers of the grid, or of the last block, are one fewer
  int cluster = 1;            ///< blocks that wait for each other in a cluster
  std::int64_t bytes = 0;     ///< of device memory, as scheduled
};

/// Candidates that are nearer to the best than its uncertainty are called equal, and of those the simplest is taken:
/// one whose blocks do not wait, then with fewer phases, then in smaller clusters; of equally simple ones the fastest,
/// or what search::EqualsOfBest takes beside it. One that moves more bytes than the best is not equal to it, since
/// bytes are counted and not estimated. `contenders` are in the order of their estimates, at least one. Gives the place
/// of what is taken.
std::size_t simplest_of_equals(std::span<const Contender> contenders);

}  // namespace stitch::tuning
