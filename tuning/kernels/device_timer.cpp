#include "tuning/kernels/device_timer.h"

#include <algorithm>
#include <type_traits>

#include "tuning/kernels/plan_measurement.h"

namespace stitch::tuning {
namespace {

/// Adds a later round's samples to a measurement.
void append(profiler::Measurement& all, profiler::Measurement round) {
  if (all.samples.empty()) {
    all = std::move(round);
    return;
  }
  all.samples.insert(all.samples.end(), round.samples.begin(), round.samples.end());
  all.dropped_samples.insert(all.dropped_samples.end(), round.dropped_samples.begin(), round.dropped_samples.end());
  for (std::string& reason : round.dropped_reasons) {
    const auto& known = all.dropped_reasons;
    if (std::find(known.begin(), known.end(), reason) == known.end()) all.dropped_reasons.push_back(std::move(reason));
  }
  all.after = round.after;
  const std::string stopped = all.stopped + "; " + round.stopped;
  profiler::summarise(all, profiler::Verdict::stable);
  all.stopped = stopped;  // each round ended for a reason of its own
}

/// What `measure` finds in a session of its own, and in another one where the first was lost with a runner that
/// somebody asked to end. One that faults is the kernel's fault, and another kind of error.
template <class Measure>
auto measure_undisturbed(profiler::TimedDevice& device, const Measure& measure)
    -> std::invoke_result_t<Measure, profiler::TimedSession&> {
  constexpr int most = 4;
  for (int time = 1;; ++time) {
    STITCH_ASSIGN(const auto session, device.timed_session());
    auto measured = measure(*session);
    const bool left = !measured && measured.error().kind == ErrorKind::unavailable && session->is_gone();
    if (!left || time == most) return measured;
  }
}

}  // namespace

Result<profiler::Measurement> DeviceTimer::measure_kernel(const BuiltKernel& built) {
  const std::lock_guard lock(mutex_);
  return measure_undisturbed(device_, [&](profiler::TimedSession& session) {
    return profiler::measure_kernel(session, built.candidate.kernel->graph, built.generated, image_of(built),
                                    options_.kernel);
  });
}

Result<profiler::MeasuredCall> DeviceTimer::measure_call(const graph::Graph& call) {
  const std::lock_guard lock(mutex_);
  return measure_undisturbed(
      device_, [&](profiler::TimedSession& session) { return profiler::measure_call(session, call, options_.kernel); });
}

Result<std::vector<profiler::Measurement>> DeviceTimer::measure_plans(std::span<const RunnablePlan> plans) {
  const std::lock_guard lock(mutex_);
  return measure_undisturbed(device_, [&](profiler::TimedSession& session) { return measure_in(session, plans); });
}

Result<std::vector<profiler::Measurement>> DeviceTimer::measure_in(profiler::TimedSession& session,
                                                                   std::span<const RunnablePlan> plans) const {
  // What a graph of one kernel takes is the kernel, and half a microsecond of the graph that nobody needs. Plans that
  // are compared are timed in the same way.
  const bool as_graphs = !std::ranges::all_of(
      plans, [](const RunnablePlan& each) { return each.plan->launches.size() == 1 && each.plan->copies.empty(); });
  std::vector<profiler::Measurement> measured(plans.size());
  for (int round = 0; round < options_.plan_rounds; ++round) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // Buffers of one plan at a time: large ones would not fit side by side.
      STITCH_ASSIGN(auto ready, PlanOnDevice::prepare(session, plans[i], options_.kernel));
      STITCH_ASSIGN(auto one, ready.measure(options_.kernel.measure, as_graphs));
      append(measured[i], std::move(one));
    }
  }
  return measured;
}

}  // namespace stitch::tuning
