#include "tuning/plans/contraction_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "costmodel/uncertainty.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/plans/plan_timing.h"
#include "tuning/plans/product_trials.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {
namespace {

/// Schedules that are built side by side before one is chosen, and that are tried at most where these fail.
constexpr int built_ahead = 4, most_tried = 12;

class ContractionMaker {
 public:
  ContractionMaker(const TuningContext& context, const PlanRequest& request, bool verifies)
      : context_(context), request_(request), verifies_(verifies) {}

  Result<TunedFragment> make() {
    STITCH_ASSIGN(tuned_.fragment, fragment_record(context_, request_.fragment, request_.name));
    report("plan", 0);
    const Stopwatch planning;
    STITCH_ASSIGN(kernels_, product_kernels(request_.fragment, context_.device, std::max(most_tried, measured()),
                                            context_.options.cost_model.get()));
    trials_.emplace(context_, kernels_, tuned_.fragment.key, request_.stop);
    tuned_.seconds.plan += planning.seconds();
    report("codegen", 0.2);
    STITCH_TRY(request_.code == nullptr ? find_kernel() : make_again());
    STITCH_ASSIGN(tuned_.plan, build_plan(request_.fragment, {planned()}));
    const std::vector<std::shared_ptr<const BuiltKernel>> kernels = {built_};
    record_plan(context_, {{{trials_->kernel()->key, count()}}, kernels, verifies_, {}, predicted_by()}, tuned_);
    if (verifies_ && context_.timer != nullptr) STITCH_TRY(time_plan(context_, request_, kernels, tuned_));
    return std::move(tuned_);
  }

 private:
  void report(std::string_view stage, double progress) const {
    if (request_.progress) request_.progress({std::string(stage), progress, std::string(request_.name)});
  }
  /// The formula, unless a trained model orders kernels of this class better.
  [[nodiscard]] std::string predicted_by() const {
    const ProductKernels::Ranked& first = kernels_.best.front();
    const bool is_corrected = first.predicted_us != first.analytical_us;
    return is_corrected ? context_.scorer_name : "analytical contraction model v2";
  }
  [[nodiscard]] bool stopped() const { return request_.stop.stop_requested(); }
  [[nodiscard]] int count() const { return static_cast<int>(kernels_.best.size()); }
  /// Right ones that are wanted: the fastest of several where times are measured, else the first.
  [[nodiscard]] int measured() const {
    return verifies_ && context_.timer != nullptr ? std::max(1, context_.options.measured_candidates) : 1;
  }

  [[nodiscard]] bool spills(const ProductTrial& trial) const {
    return trial.spills(trials_->ranked(trial.place).idle_spills);
  }
  /// The best ones, and as many more as it takes until one of them does not spill.
  [[nodiscard]] std::vector<ProductTrial> build_ahead() {
    const Stopwatch building;
    const int each = verifies_ ? std::max(built_ahead, measured()) : 1;
    std::vector<ProductTrial> ahead;
    const auto all_spill = [&] { return std::ranges::all_of(ahead, [&](const auto& trial) { return spills(trial); }); };
    while (std::ssize(ahead) < count() && !stopped() && all_spill()) {
      std::vector<int> places(std::min(each, count() - static_cast<int>(ahead.size())));
      std::iota(places.begin(), places.end(), static_cast<int>(ahead.size()));
      std::ranges::move(trials_->build_all(places), std::back_inserter(ahead));
    }
    tuned_.seconds.codegen += building.seconds();
    std::ranges::stable_sort(ahead, {}, [&](const ProductTrial& trial) { return spills(trial); });
    return ahead;
  }

  /// A trial with all that it is put through; one that fails as no schedule can fail stops everything.
  Status judge_trial(ProductTrial& trial) const {
    if (!trial.failure && verifies_) trials_->verify(trial);
    if (!trial.failure && measured() > 1) trials_->measure(trial);
    // That there is no device, or no memory, says nothing of the schedule.
    if (trial.failure && !is_outcome(trial.failure->kind)) return *trial.failure;
    return {};
  }

  /// Whether a right trial takes the place of the best so far.
  [[nodiscard]] bool is_better(const ProductTrial& trial) const {
    if (!built_ || !trial.built->measurement) return !built_;
    return !built_->measurement || is_faster(*trial.built, *built_);
  }

  Status find_kernel() {
    std::vector<ProductTrial> ahead = build_ahead();
    report("verify", 0.5);
    const Stopwatch verifying;
    std::vector<ProductTrial> tried;
    for (int place = 0, right = 0; place < count() && right < measured(); ++place) {
      if (stopped()) break;
      ProductTrial trial = place < std::ssize(ahead) ? std::move(ahead[place]) : trials_->build(place);
      STITCH_TRY(judge_trial(trial));
      right += trial.failure ? 0 : 1;
      if (!trial.failure && is_better(trial)) built_ = trial.built;
      tried.push_back(std::move(trial));
    }
    tuned_.seconds.verify += verifying.seconds();
    if (stopped()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
    for (const ProductTrial& trial : tried) {
      const ProductKernels::Ranked& ranked = trials_->ranked(trial.place);
      tuned_.trials.candidates.push_back(candidate_record(
          context_, tuned_.fragment.key,
          {trials_->kernel()->key, ranked.schedule, ranked.predicted_us, trial.built.get(), trial.failure}, verifies_));
      context_.faults->note(tuned_.trials.candidates.back());
      if (trial.built == nullptr || trial.failure || !trial.built->measurement) continue;
      const auto compiled = compiled_facts(trial.built->compiled.resources, trial.built->generated.shared_bytes);
      tuned_.trials.measurements.push_back(
          measurement_record(context_, *trial.built, tuned_.trials.candidates.back().schedule_hash,
                             CandidateFacts{context_.device.name,
                                            tuned_.fragment.key,
                                            tuned_.fragment.family,
                                            costmodel::feature_set_hash(),
                                            {ranked.analytical_us, ranked.features(&compiled)}}));
    }
    if (built_) return {};
    if (request_.failed) request_.failed(tuned_.fragment, tuned_.trials);
    return tried.back().failure->within("no schedule of the product is right");
  }

  /// The schedule of the wanted code, of those that are ever tried.
  Status make_again() {
    std::vector<int> places(count());
    std::iota(places.begin(), places.end(), 0);
    for (const ProductTrial& trial : trials_->build_all(places)) {
      if (!built_ && !trial.failure && is_made_of(*trial.built, *request_.code)) built_ = trial.built;
    }
    if (stopped()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
    return built_ ? Status()
                  : make_error(ErrorKind::not_found, "none of the product's {} schedules has that code", count());
  }

  /// The launch as the plan has it: arguments are the fragment's own.
  [[nodiscard]] PlannedLaunch planned() const {
    const ProductKernels::Ranked& chosen = trials_->ranked(built_->candidate.place);
    PlannedLaunch launch;
    launch.built = built_.get();
    for (std::size_t p = 0; p < request_.fragment.parameters().size(); ++p)
      launch.arguments.push_back({request_.fragment.parameters()[p], 0});
    launch.results.assign(request_.fragment.results().begin(), request_.fragment.results().end());
    launch.description = chosen.description;
    launch.bytes = chosen.dram_bytes;
    launch.predicted_us = chosen.predicted_us;
    launch.uncertainty_us = costmodel::uncertainty_us(costmodel::KernelKind::contraction, chosen.predicted_us);
    return launch;
  }

  const TuningContext& context_;
  const PlanRequest& request_;
  const bool verifies_;
  ProductKernels kernels_;
  std::optional<ProductTrials> trials_;
  std::shared_ptr<const BuiltKernel> built_;
  TunedFragment tuned_;
};

}  // namespace

Result<TunedFragment> contraction_plan(const TuningContext& context, const PlanRequest& request, bool verifies) {
  return ContractionMaker(context, request, verifies).make();
}

}  // namespace stitch::tuning
