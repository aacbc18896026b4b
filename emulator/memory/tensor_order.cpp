#include "emulator/memory/tensor_order.h"

#include <algorithm>
#include <limits>

namespace stitch::emulator {
namespace {

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

/// The first of the ascending times that is not before `time`.
std::uint32_t first_since(const std::vector<std::uint32_t>& times, std::uint32_t time) {
  const auto found = std::ranges::lower_bound(times, time);
  return found == times.end() ? never : *found;
}

void raise_all(std::vector<std::uint32_t>& into, std::span<const std::uint32_t> from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

void TensorOrder::wait(std::uint32_t agent, bool stores, std::uint32_t now) {
  (stores ? progress_[agent].store_waits : progress_[agent].load_waits).push_back(now);
}

void TensorOrder::fence_before(std::uint32_t agent, std::uint32_t now) { progress_[agent].fences.push_back(now); }

void TensorOrder::fence_after(std::uint32_t agent, const UnitClock& clock) {
  Progress& progress = progress_[agent];
  raise_all(progress.ordered, clock.known_times(agent));
  raise_all(progress.ordered, progress.observed);
}

void TensorOrder::observe(std::uint32_t agent, std::span<const std::uint32_t> times) {
  raise_all(progress_[agent].observed, times);
}

std::vector<std::uint32_t> TensorOrder::told_by(std::uint32_t agent, const UnitClock& clock) const {
  const std::span<const std::uint32_t> times = clock.known_times(agent);
  std::vector<std::uint32_t> told(times.begin(), times.end());
  raise_all(told, progress_[agent].observed);
  told[agent] = clock.now();
  return told;
}

std::uint32_t TensorOrder::known(std::uint32_t me, std::uint32_t other, const UnitClock& clock) const {
  const std::vector<std::uint32_t>& observed = progress_[me].observed;
  return std::max(clock.known_times(me)[other], observed.empty() ? 0 : observed[other]);
}

std::uint32_t TensorOrder::ordered(std::uint32_t me, std::uint32_t other) const {
  const std::vector<std::uint32_t>& times = progress_[me].ordered;
  return times.empty() ? 0 : times[other];
}

TensorVerdict TensorOrder::of_own(std::uint32_t me, bool core, TensorStamp earlier, const UnitClock& clock) const {
  if (earlier.access == TensorAccess::free) return TensorVerdict::ordered;
  if (earlier.access == TensorAccess::core) {
    if (core || ordered(me, clock.tensor_agent(me)) >= earlier.time) return TensorVerdict::ordered;
    return known(me, clock.tensor_agent(me), clock) >= earlier.time ? TensorVerdict::unfenced
                                                                    : TensorVerdict::incomplete;
  }
  const Progress& progress = progress_[me];
  const bool stored = earlier.access == TensorAccess::store;
  const std::uint32_t complete = first_since(stored ? progress.store_waits : progress.load_waits, earlier.time);
  return complete == never ? TensorVerdict::incomplete : TensorVerdict::ordered;
}

/// The earlier operation is that of another warp's tensor core.
TensorVerdict TensorOrder::of_core(std::uint32_t me, bool core, TensorStamp earlier, const UnitClock& clock) const {
  const std::uint32_t by_commit = clock.tensor_agent(earlier.agent);
  if (ordered(me, by_commit) >= earlier.time) return TensorVerdict::ordered;
  const std::uint32_t fence = first_since(progress_[earlier.agent].fences, earlier.time);
  if (core && fence != never && ordered(me, earlier.agent) >= fence) return TensorVerdict::ordered;
  if (known(me, by_commit, clock) >= earlier.time) return TensorVerdict::unfenced;
  if (known(me, earlier.agent, clock) < earlier.time) return TensorVerdict::unordered;
  return core ? TensorVerdict::unfenced : TensorVerdict::incomplete;
}

TensorVerdict TensorOrder::verdict(std::uint32_t me, TensorAccess access, TensorStamp earlier,
                                   const UnitClock& clock) const {
  const bool core = access == TensorAccess::core;
  if (earlier.agent == me) return of_own(me, core, earlier, clock);
  if (earlier.access == TensorAccess::core) return of_core(me, core, earlier, clock);
  const Progress& other = progress_[earlier.agent];
  const std::uint32_t complete =
      earlier.access == TensorAccess::free
          ? earlier.time
          : first_since(earlier.access == TensorAccess::store ? other.store_waits : other.load_waits, earlier.time);
  const std::uint32_t heard = known(me, earlier.agent, clock);
  if (heard < earlier.time) return TensorVerdict::unordered;
  if (heard < complete) return TensorVerdict::incomplete;
  if (earlier.access == TensorAccess::free) return TensorVerdict::ordered;
  const std::uint32_t fence = first_since(other.fences, complete);
  return fence != never && ordered(me, earlier.agent) >= fence ? TensorVerdict::ordered : TensorVerdict::unfenced;
}

}  // namespace stitch::emulator
