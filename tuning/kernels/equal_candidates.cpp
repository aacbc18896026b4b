#include "tuning/kernels/equal_candidates.h"

#include <algorithm>
#include <tuple>

#include "search/schedule/equals_of_best.h"

namespace stitch::tuning {

std::size_t simplest_of_equals(std::span<const Contender> contenders) {
  const auto effort = [](const Contender& one) { return std::tuple(one.waits, one.phases, one.cluster); };
  const Contender& best = contenders.front();
  const auto is_equal = [&](const Contender& other) {
    return other.us - best.us <= best.uncertainty_us && other.bytes <= best.bytes;
  };
  auto least = effort(best);
  for (const Contender& other : contenders) {
    if (is_equal(other)) least = std::min(least, effort(other));
  }
  search::EqualsOfBest<std::size_t> simplest;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Contender& other = contenders[i];
    if (is_equal(other) && effort(other) == least) simplest.enter(other.us, other.bytes, i);
  }
  return simplest.taken();
}

}  // namespace stitch::tuning
