#pragma once

#include "driver/state/stream_clock.h"
#include "driver/state/work.h"

namespace stitch::driver {

/// What is known to have ended when the last operation of a queue comes to a point, where kernels may begin before
/// their predecessor has ended (programmatic dependent launch). An ordinary operation begins after all that stands
/// before it. A dependent kernel begins when its predecessor lets it: then only what that one's blocks began after, or
/// had waited for, has ended. Its wait tells it of its predecessor's end, and so of what that one knew then: of all
/// that stands before, if every kernel of the chain waited. That a kernel of the chain did not cannot be told here: a
/// clock that knows an operation of a queue knows all before it.
struct LaunchOrder {
  StreamClock released;  ///< when its dependents may begin
  StreamClock ended;     ///< when it has ended

  void join(const StreamClock& clock) {
    released.join(clock);
    ended.join(clock);
  }
};

/// Whether this is a kernel that may begin before what stands before it has ended.
inline bool is_dependent(const Work& work) {
  const auto* kernel = std::get_if<KernelWork>(&work);
  return kernel != nullptr && kernel->overlaps;
}

/// What a dependent kernel knows.
struct DependentOrder {
  StreamClock early;   ///< before its wait
  StreamClock waited;  ///< behind it; the same where it has none

  DependentOrder(const KernelWork& work, const LaunchOrder& before)
      : early(before.released), waited(work.kernel->declared->waits_for_primary ? before.ended : before.released) {}

  /// Of what stands behind it, where it is operation `time` of `queue`.
  [[nodiscard]] LaunchOrder after(const KernelWork& work, std::uint32_t queue, std::uint64_t time) const {
    LaunchOrder order{work.kernel->declared->releases_early ? early : waited, waited};
    order.ended.advance(queue, time);
    return order;
  }
};

}  // namespace stitch::driver
