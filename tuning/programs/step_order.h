#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stitch::tuning {

/// A step before it has a place: what it reads and writes, by the numbers of the values.
struct UnorderedStep {
  std::vector<int> reads, writes;
  std::int64_t scratch = 0;  ///< bytes that it needs for itself
  int first = 0, last = 0;   ///< the first and the last of its operators in the source's order
};

/// Orders in which every step comes after those that write what it reads, that with the fewest bytes alive at once
/// first: the source's; those that always take the step which leaves least alive; and such from the last step back,
/// which have what is made of little wait until it is wanted. No two are the same. `bytes`: per value what it takes
/// from its first write on; 0 for memory that nothing else can have before. `kept`: values that are read after the last
/// step. None when steps wait for each other.
std::vector<std::vector<std::size_t>> step_orders(std::span<const UnorderedStep> steps,
                                                  std::span<const std::int64_t> bytes, std::span<const int> kept);

}  // namespace stitch::tuning
