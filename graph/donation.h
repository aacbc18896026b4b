#pragma once

#include <cstdint>
#include <string>

namespace stitch::graph {

/// A parameter whose memory one of the results may take: the caller has no use for its contents afterwards. Both by
/// their positions, in Graph::parameters() and Graph::results().
struct Donation {
  std::int64_t parameter = 0;
  std::int64_t result = 0;

  bool operator==(const Donation&) const = default;
};

/// What became of a donation when its graph was cut.
struct DonationOutcome {
  Donation donation;
  bool in_place = false;  ///< the result lies in the parameter's memory; else it is written whole, to memory of its own
  std::string why;        ///< for people

  bool operator==(const DonationOutcome&) const = default;
};

}  // namespace stitch::graph
