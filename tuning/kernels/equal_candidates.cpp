#include "tuning/kernels/equal_candidates.h"

#include <tuple>

namespace stitch::tuning {

std::size_t simplest_of_equals(std::span<const Contender> contenders) {
  const auto effort = [](const Contender& one) { return std::tuple(one.waits, one.phases, one.cluster); };
  const Contender& best = contenders.front();
  std::size_t simplest = 0;
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    const Contender& other = contenders[i];
    if (other.us - best.us > best.uncertainty_us || other.bytes > best.bytes) continue;
    if (effort(other) < effort(contenders[simplest])) simplest = i;
  }
  return simplest;
}

}  // namespace stitch::tuning
