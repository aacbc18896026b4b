#include "tuning/plans/plan_maker.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "tuning/plans/measurement_record.h"
#include "tuning/plans/near_choices.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {
namespace {

/// Makes one plan.
class PlanMaker {
 public:
  PlanMaker(const TuningContext& context, const PlanRequest& request, bool verifies)
      : context_(context),
        request_(request),
        verifies_(verifies),
        measures_(verifies && context.timer != nullptr),
        workshop_(*context.workshop) {}

  Result<TunedFragment> make();

 private:
  /// A step that every distinct kernel of the plan takes, and which part of the whole it is.
  struct Stage {
    std::string_view name;
    double from = 0, until = 1;
    std::function<Attempts(const search::SharedKernel&)> step;
  };

  Status explore();
  void find_distinct();
  double run(const Stage& stage);
  Status make_kernels();
  Status measure_plan();

  const TuningContext& context_;
  const PlanRequest& request_;
  const bool verifies_, measures_;
  KernelWorkshop& workshop_;
  search::FusionPlan explored_;  ///< where the request has none
  const search::FusionPlan* fusion_ = nullptr;
  NearChoices near_;
  std::vector<search::SharedKernel> distinct_;             ///< equal kernels of a plan are worked on once
  std::map<Hash128, std::size_t> place_;                   ///< of a kernel among the distinct ones, by key
  std::vector<Attempts> attempts_;                         ///< of each distinct kernel
  std::vector<std::shared_ptr<const BuiltKernel>> built_;  ///< by launch
  TunedFragment tuned_;
};

Result<TunedFragment> PlanMaker::make() {
  STITCH_ASSIGN(tuned_.fragment, fragment_record(context_, request_.fragment, request_.name));
  STITCH_TRY(explore());
  if (request_.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped after planning");
  if (request_.history != nullptr && !measures_) near_ = choose_near(*fusion_, *context_.scorer, *request_.history);
  STITCH_TRY(make_kernels());
  STITCH_ASSIGN(tuned_.plan, build_plan(request_.fragment, *fusion_, built_));
  record_plan(context_, {*fusion_, built_, verifies_, near_.neighbour}, tuned_);
  if (measures_) STITCH_TRY(measure_plan());
  return std::move(tuned_);
}

Status PlanMaker::explore() {
  if (request_.progress) request_.progress({"plan", 0.0, std::string(request_.name)});
  const Stopwatch watch;
  fusion_ = request_.plan;
  if (fusion_ == nullptr) {
    STITCH_ASSIGN(explored_, search::explore_fusion(request_.fragment, *context_.kernels, context_.options.fusion));
    fusion_ = &explored_;
  }
  tuned_.seconds.plan = watch.seconds();
  return {};
}

void PlanMaker::find_distinct() {
  for (const search::PlannedKernel& kernel : fusion_->kernels) {
    if (place_.emplace(kernel.kernel->key, distinct_.size()).second) distinct_.push_back(kernel.kernel);
  }
  attempts_.resize(distinct_.size());
}

/// Returns how many seconds it took.
double PlanMaker::run(const Stage& stage) {
  std::atomic<std::size_t> done = 0;
  std::mutex reporting;
  const Stopwatch watch;
  tbb::parallel_for(std::size_t{0}, distinct_.size(), [&](std::size_t k) {
    if (request_.stop.stop_requested()) return;
    // A kernel's own parallel work must not pick up another kernel while this one's lock is held.
    tbb::this_task_arena::isolate([&] { attempts_[k] = stage.step(distinct_[k]); });
    const std::size_t ready = ++done;
    const std::lock_guard lock(reporting);
    if (!request_.progress) return;
    const double all = distinct_.size();
    request_.progress({std::string(stage.name), stage.from + (stage.until - stage.from) * (ready / all),
                       fmt::format("kernel {} of {}", ready, distinct_.size())});
  });
  return watch.seconds();
}

Status PlanMaker::make_kernels() {
  find_distinct();
  tuned_.seconds.codegen =
      run({"codegen", 0.2, verifies_ ? 0.5 : 1.0, [&](const search::SharedKernel& kernel) {
             if (const auto* candidates = near_.of(kernel->key)) return workshop_.first_of(*candidates, false);
             if (!verifies_) return workshop_.build(kernel);
             (void)workshop_.build_ahead(kernel);  // it remembers them, and takes one in what follows
             return Attempts();
           }});
  if (verifies_) {
    tuned_.seconds.verify =
        run({"verify", 0.5, measures_ ? 0.7 : 1.0, [&](const search::SharedKernel& kernel) {
               const auto* candidates = near_.of(kernel->key);
               return candidates != nullptr ? workshop_.first_of(*candidates, true) : workshop_.verify(kernel);
             }});
  }
  if (measures_) {
    tuned_.seconds.measure =
        run({"measure", 0.7, 1.0, [&](const search::SharedKernel& kernel) { return workshop_.measure(kernel); }});
  }
  if (request_.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
  for (std::size_t k = 0; k < distinct_.size(); ++k) {
    const search::ExploredKernel& kernel = *distinct_[k];
    record_trials(context_, tuned_.fragment.key, kernel, attempts_[k].all(), verifies_, tuned_.trials);
    if (!attempts_[k].best) return attempts_[k].why_none().within(fmt::format("kernel {}", kernel.key.hex()));
  }
  for (const search::PlannedKernel& kernel : fusion_->kernels) {
    built_.push_back(attempts_[place_.at(kernel.kernel->key)].best->built);
  }
  return {};
}

/// Times the whole plan, and the one that is served now beside it.
Status PlanMaker::measure_plan() {
  std::vector<RunnablePlan> plans = {{&request_.fragment, &tuned_.plan, {}}};
  for (const auto& kernel : built_) plans.front().images.push_back(image_of(*kernel));
  const RunnablePlan* incumbent = request_.incumbent;
  const bool other = incumbent != nullptr && incumbent->plan->id != tuned_.plan.id;
  if (other) plans.push_back(*incumbent);
  const Result<std::vector<profiler::Measurement>> measured = context_.timer->measure_plans(plans);
  if (!measured) {
    // A plan that could not be timed is still a verified one: a recording knows kernels only, and a GPU may throttle
    // all the time. A fault is another matter.
    const ErrorKind why = measured.error().kind;
    return why == ErrorKind::unsupported || why == ErrorKind::unavailable ? Status() : Status(measured.error());
  }
  const std::string& on = context_.timer->identity().key;
  const auto record_of = [&](std::size_t i) {
    return to_record((*measured)[i], db::MeasurementRecord::Subject::plan, plans[i].plan->id, on,
                     context_.provenance("measured", on));
  };
  const profiler::Measurement& mine = measured->front();
  const bool in_us = mine.kind == profiler::Measurement::Kind::device_time;
  tuned_.bundle.measurements.push_back(record_of(0));
  if (in_us) {
    tuned_.plan.label = "measured";
    tuned_.plan.measured_us = mine.median;
    tuned_.bundle.plan.label = db::Label::measured;
    tuned_.bundle.plan.measured_us = mine.median;
  }
  if (!other) return {};
  tuned_.trials.measurements.push_back(record_of(1));
  if (in_us) tuned_.comparison = profiler::compare_samples((*measured)[1].samples, mine.samples);
  return {};
}

}  // namespace

Result<TunedFragment> predict_plan(const TuningContext& context, const PlanRequest& request) {
  return PlanMaker(context, request, false).make();
}

Result<TunedFragment> tune_plan(const TuningContext& context, const PlanRequest& request) {
  return PlanMaker(context, request, true).make();
}

}  // namespace stitch::tuning
