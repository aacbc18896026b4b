#include "tuning/plans/plan_timing.h"

#include "tuning/plans/measurement_record.h"

namespace stitch::tuning {

Status time_plan(const TuningContext& context, const PlanRequest& request,
                 const std::vector<std::shared_ptr<const BuiltKernel>>& built, TunedFragment& tuned) {
  std::vector<RunnablePlan> plans = {{&request.fragment, &tuned.plan, {}}};
  for (const auto& kernel : built) plans.front().images.push_back(image_of(*kernel));
  const RunnablePlan* incumbent = request.incumbent;
  const bool other = incumbent != nullptr && incumbent->plan->id != tuned.plan.id;
  if (other) plans.push_back(*incumbent);
  const Result<std::vector<profiler::Measurement>> measured = context.timer->measure_plans(plans);
  if (!measured) {
    // A plan that could not be timed is still a verified one: a recording knows kernels only, and a GPU may throttle
    // all the time. A fault is another matter.
    const ErrorKind why = measured.error().kind;
    return why == ErrorKind::unsupported || why == ErrorKind::unavailable ? Status() : Status(measured.error());
  }
  const std::string& on = context.timer->identity().key;
  const auto record_of = [&](std::size_t i) {
    return to_record((*measured)[i], db::MeasurementRecord::Subject::plan, plans[i].plan->id, on,
                     context.provenance("measured", on));
  };
  const profiler::Measurement& mine = measured->front();
  const bool in_us = mine.kind == profiler::Measurement::Kind::device_time;
  tuned.bundle.measurements.push_back(record_of(0));
  if (in_us) {
    tuned.plan.label = "measured";
    tuned.plan.measured_us = mine.median;
    tuned.bundle.plan.label = db::Label::measured;
    tuned.bundle.plan.measured_us = mine.median;
  }
  if (!other) return {};
  tuned.trials.measurements.push_back(record_of(1));
  if (in_us) tuned.comparison = profiler::compare_measurements((*measured)[1], mine);
  return {};
}

}  // namespace stitch::tuning
