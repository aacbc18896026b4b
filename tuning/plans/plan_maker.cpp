#include "tuning/plans/plan_maker.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "tuning/plans/near_choices.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/plans/plan_timing.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {
namespace {

/// How often a fragment is partitioned again because of kernels that are wrong, before every operator gets its own.
constexpr int most_partitions = 6;

/// Whether a kernel that failed like this may be left out of the plan: it is the kernel that is to blame, or what was
/// made of it, and not the machine.
bool blames_kernel(ErrorKind kind) {
  return kind != ErrorKind::unavailable && kind != ErrorKind::io && kind != ErrorKind::cancelled;
}

/// Makes one plan. A kernel of which no candidate is right costs the plan this kernel: the fragment is partitioned
/// again without it, and in the last resort every operator has a kernel of its own.
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
  Status partition();
  bool partition_again();
  void find_distinct();
  double run(const Stage& stage);
  Attempts attempt(const search::SharedKernel& kernel, bool verifies);
  void run_stages();
  Status make_kernels();
  Status choose_kernels();
  void load_unwaited();
  [[nodiscard]] std::set<kernel::UnwaitedInputs> unwaited_of(const search::SharedKernel& kernel) const;
  Error give_up(const Error& why);

  const TuningContext& context_;
  const PlanRequest& request_;
  const bool verifies_, measures_;
  KernelWorkshop& workshop_;
  search::FusionPlan explored_;  ///< where the request has none
  const search::FusionPlan* fusion_ = nullptr;
  NearChoices near_;
  std::atomic<bool> strayed_ = false;           ///< none of what the neighbours chose is right for some kernel
  std::vector<search::SharedKernel> distinct_;  ///< equal kernels of a plan are worked on once
  std::map<Hash128, std::size_t> place_;        ///< of a kernel among the distinct ones, by key
  std::vector<Attempts> attempts_;              ///< of each distinct kernel
  std::vector<std::shared_ptr<const BuiltKernel>> built_;  ///< by launch
  std::set<Hash128> recorded_;                             ///< kernels whose trials are written down
  search::FusionOptions partitioning_;                     ///< with the kernels that were excluded
  int partitions_ = 0;                                     ///< made so far, beyond the first one
  TunedFragment tuned_;
};

Result<TunedFragment> PlanMaker::make() {
  STITCH_ASSIGN(tuned_.fragment, fragment_record(context_, request_.fragment, request_.name));
  STITCH_TRY(explore());
  if (request_.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped after planning");
  for (Status made = make_kernels(); !made; made = make_kernels()) {
    // Another partition than the first would have been another plan.
    if (!blames_kernel(made.error().kind) || request_.code != nullptr) return made.error();
    if (!partition_again()) return give_up(made.error());
  }
  STITCH_ASSIGN(tuned_.plan, build_plan(request_.fragment, *fusion_, built_));
  std::vector<ChosenKernels::Origin> origins;
  for (const search::PlannedKernel& planned : fusion_->kernels)
    origins.push_back({planned.kernel->key, static_cast<int>(planned.kernel->candidates.size())});
  record_plan(context_, {origins, built_, verifies_, strayed_ ? std::nullopt : near_.neighbour, {}}, tuned_);
  if (measures_) STITCH_TRY(time_plan(context_, request_, built_, tuned_));
  return std::move(tuned_);
}

Status PlanMaker::explore() {
  if (request_.progress) request_.progress({"plan", 0.0, std::string(request_.name)});
  partitioning_ = context_.options.fusion;
  partitioning_.stop = request_.stop;
  fusion_ = request_.plan;
  return fusion_ == nullptr ? partition() : Status();
}

/// Partitions the fragment without the kernels that are excluded.
Status PlanMaker::partition() {
  const Stopwatch watch;
  STITCH_ASSIGN(explored_, search::explore_fusion(request_.fragment, *context_.kernels, partitioning_));
  fusion_ = &explored_;
  tuned_.seconds.plan += watch.seconds();
  return {};
}

/// Excludes the kernels that failed and partitions the fragment anew. False when nothing is left to be tried.
bool PlanMaker::partition_again() {
  for (std::size_t k = 0; k < distinct_.size(); ++k) {
    if (!attempts_[k].best) partitioning_.excluded.insert(distinct_[k]->key);
  }
  if (++partitions_ < most_partitions && partition()) return true;
  if (partitions_ > most_partitions) return false;
  partitions_ = most_partitions;
  Result<search::FusionPlan> unfused = search::unfused_plan(request_.fragment, *context_.kernels);
  if (!unfused) return false;
  explored_ = std::move(*unfused);
  fusion_ = &explored_;
  const auto excluded = [&](const search::PlannedKernel& planned) {
    return partitioning_.excluded.contains(planned.kernel->key);
  };
  return std::ranges::none_of(fusion_->kernels, excluded);
}

void PlanMaker::find_distinct() {
  place_.clear();
  distinct_.clear();
  attempts_.clear();
  built_.clear();
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

/// What the neighbours chose of a kernel, or else its own candidates; those of the wanted code where any is.
Attempts PlanMaker::attempt(const search::SharedKernel& kernel, bool verifies) {
  if (request_.code != nullptr) return workshop_.made_of(kernel, *request_.code, unwaited_of(kernel), request_.stop);
  Attempts near;
  if (const auto* candidates = near_.of(kernel->key)) {
    near = workshop_.first_of(*candidates, verifies, request_.stop);
    if (near.best) return near;
    strayed_ = true;
  }
  Attempts own = verifies ? workshop_.verify(kernel, request_.stop) : workshop_.build(kernel, request_.stop);
  own.others.insert(own.others.begin(), near.others.begin(), near.others.end());
  return own;
}

void PlanMaker::run_stages() {
  tuned_.seconds.codegen +=
      run({"codegen", 0.2, verifies_ ? 0.5 : 1.0, [&](const search::SharedKernel& kernel) {
             if (!verifies_) return attempt(kernel, false);
             if (near_.of(kernel->key) == nullptr)
               (void)workshop_.build_ahead(kernel, request_.stop);  // it remembers them, and takes one in what follows
             return Attempts();
           }});
  if (verifies_) {
    tuned_.seconds.verify += run({"verify", 0.5, measures_ ? 0.7 : 1.0,
                                  [&](const search::SharedKernel& kernel) { return attempt(kernel, true); }});
  }
  if (measures_) {
    tuned_.seconds.measure += run({"measure", 0.7, 1.0, [&](const search::SharedKernel& kernel) {
                                     return workshop_.measure(kernel, request_.stop);
                                   }});
  }
}

/// Every kernel of the partition, made as far as is wanted. Error: why there is none of the first that failed.
Status PlanMaker::make_kernels() {
  find_distinct();
  strayed_ = false;
  near_ = {};
  if (request_.history != nullptr && request_.code == nullptr && !measures_)
    near_ = choose_near(*fusion_, *context_.scorer, *request_.history);
  run_stages();
  if (request_.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
  for (std::size_t k = 0; k < distinct_.size(); ++k) {
    if (request_.code != nullptr) continue;                     // nothing was found out of any
    if (!recorded_.insert(distinct_[k]->key).second) continue;  // as it was in a partition before
    record_trials(context_, tuned_.fragment.key, *distinct_[k], attempts_[k].all(), verifies_, tuned_.trials);
  }
  return choose_kernels();
}

Status PlanMaker::choose_kernels() {
  for (std::size_t k = 0; k < distinct_.size(); ++k) {
    if (!attempts_[k].best) return attempts_[k].why_none().within(fmt::format("kernel {}", distinct_[k]->key.hex()));
  }
  for (const search::PlannedKernel& kernel : fusion_->kernels) {
    built_.push_back(attempts_[place_.at(kernel.kernel->key)].best->built);
  }
  load_unwaited();
  return {};
}

/// The inputs that a kernel may load before it waits, at each of its places in the plan.
std::set<kernel::UnwaitedInputs> PlanMaker::unwaited_of(const search::SharedKernel& kernel) const {
  std::set<kernel::UnwaitedInputs> all;
  for (std::size_t at = 0; at < fusion_->kernels.size(); ++at) {
    const search::PlannedKernel& planned = fusion_->kernels[at];
    if (planned.kernel->key == kernel->key)
      all.insert(search::unwaited_inputs(request_.fragment, planned.arguments, at));
  }
  return all;
}

/// Has kernels behind another one load what that does not write before they wait for it, where what was chosen has such
/// loads. What does not come of it, or does not become faster by it, stays as it was chosen.
void PlanMaker::load_unwaited() {
  if (context_.device.dependent_saving_us() <= 0) return;
  tbb::parallel_for(std::size_t{1}, std::max<std::size_t>(1, built_.size()), [&](std::size_t at) {
    const BuiltKernel& chosen = *built_[at];
    Trial early = workshop_.build_unwaited(
        chosen, search::unwaited_inputs(request_.fragment, fusion_->kernels[at].arguments, at), request_.stop);
    if (early.built == nullptr || early.failure) return;
    if (request_.code != nullptr) {
      if (is_made_of(*early.built, *request_.code)) built_[at] = early.built;
      return;
    }
    if (early.built->estimated_us - early.built->unwaited_saving_us > chosen.estimated_us) return;
    if (verifies_) early = workshop_.verify_candidate(std::move(early), request_.stop);
    if (!early.failure) built_[at] = early.built;
  });
}

/// What was found out is kept although there is no plan: that the fragment has none is our fault.
Error PlanMaker::give_up(const Error& why) {
  if (request_.failed) request_.failed(tuned_.fragment, tuned_.trials);
  return why;
}

}  // namespace

Result<TunedFragment> predict_plan(const TuningContext& context, const PlanRequest& request) {
  return PlanMaker(context, request, false).make();
}

Result<TunedFragment> tune_plan(const TuningContext& context, const PlanRequest& request) {
  return PlanMaker(context, request, true).make();
}

}  // namespace stitch::tuning
