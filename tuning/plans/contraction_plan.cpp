#include "tuning/plans/contraction_plan.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "costmodel/uncertainty.h"
#include "profiler/verify/verify.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/plans/plan_timing.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {
namespace {

/// Schedules that are built side by side before one is chosen, and that are tried at most where these fail.
constexpr int built_ahead = 4, most_tried = 12;

/// What became of one of the ranked schedules.
struct ContractionTrial {
  int place = 0;
  std::shared_ptr<const BuiltKernel> built;
  std::optional<Error> failure;
};

class ContractionMaker {
 public:
  ContractionMaker(const TuningContext& context, const PlanRequest& request, bool verifies)
      : context_(context), request_(request), verifies_(verifies) {}

  Result<TunedFragment> make() {
    STITCH_ASSIGN(tuned_.fragment, fragment_record(context_, request_.fragment, request_.name));
    report("plan", 0);
    const Stopwatch planning;
    STITCH_ASSIGN(kernels_, product_kernels(request_.fragment, context_.device, most_tried));
    tuned_.seconds.plan += planning.seconds();
    auto explored = std::make_shared<search::ExploredKernel>();
    explored->key = tuned_.fragment.key;
    explored->graph = request_.fragment;
    kernel_ = std::move(explored);
    report("codegen", 0.2);
    STITCH_TRY(find_kernel());
    STITCH_ASSIGN(tuned_.plan, build_plan(request_.fragment, {planned()}));
    const std::vector<std::shared_ptr<const BuiltKernel>> kernels = {built_};
    record_plan(context_, {{{kernel_->key, count()}}, kernels, verifies_, {}, "analytical contraction model v1"},
                tuned_);
    if (verifies_ && context_.timer != nullptr) STITCH_TRY(time_plan(context_, request_, kernels, tuned_));
    return std::move(tuned_);
  }

 private:
  void report(std::string_view stage, double progress) const {
    if (request_.progress) request_.progress({std::string(stage), progress, std::string(request_.name)});
  }
  [[nodiscard]] bool stopped() const { return request_.stop.stop_requested(); }
  [[nodiscard]] const ProductKernels::Ranked& ranked(int place) const { return kernels_.best[place]; }
  [[nodiscard]] int count() const { return static_cast<int>(kernels_.best.size()); }

  ContractionTrial build(int place) const {
    ContractionTrial trial{place, nullptr, {}};
    const Status made = [&]() -> Status {
      codegen::GenerateOptions options;
      options.name = "stitch_" + kernel_->key.hex().substr(0, 12);
      BuiltKernel built;
      built.candidate.kernel = kernel_;
      built.candidate.place = place;
      built.estimated_us = ranked(place).predicted_us;
      STITCH_ASSIGN(built.generated, ranked(place).generate(options));
      STITCH_ASSIGN(built.compiled, context_.workshop->compile(built.generated, request_.stop));
      STITCH_TRY(check_residency(built.generated, built.compiled, context_.device));
      trial.built = std::make_shared<const BuiltKernel>(std::move(built));
      return {};
    }();
    if (!made) trial.failure = made.error();
    return trial;
  }

  void verify(ContractionTrial& trial) const {
    profiler::VerifyOptions looking = context_.options.verify;
    looking.stop = request_.stop;
    const BuiltKernel& built = *trial.built;
    trial.failure = judge(trial.built,
                          profiler::verify_kernel(*context_.verifying, *kernels_.graph, ranked(trial.place).execution(),
                                                  built.generated, image_of(built), looking));
  }

  [[nodiscard]] static bool spills(const ContractionTrial& trial) {
    return trial.built && trial.built->compiled.resources.spill_store_bytes > 0;
  }

  Status find_kernel() {
    std::vector<ContractionTrial> ahead(std::min(verifies_ ? built_ahead : 1, count()));
    const Stopwatch building;
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(std::size_t{0}, ahead.size(), [&](std::size_t i) { ahead[i] = build(static_cast<int>(i)); });
    });
    tuned_.seconds.codegen += building.seconds();
    std::ranges::stable_sort(ahead, {}, [](const ContractionTrial& trial) { return spills(trial); });
    report("verify", 0.5);
    const Stopwatch verifying;
    std::vector<ContractionTrial> tried;
    for (int place = 0; place < count() && !built_; ++place) {
      if (stopped()) break;
      ContractionTrial trial = place < std::ssize(ahead) ? std::move(ahead[place]) : build(place);
      if (!trial.failure && verifies_) verify(trial);
      if (!trial.failure) built_ = trial.built;
      // That there is no device, or no memory, says nothing of the schedule.
      if (trial.failure && !is_outcome(trial.failure->kind)) return *trial.failure;
      tried.push_back(std::move(trial));
    }
    tuned_.seconds.verify += verifying.seconds();
    if (stopped()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
    for (const ContractionTrial& trial : tried) {
      tuned_.trials.candidates.push_back(
          candidate_record(context_, tuned_.fragment.key,
                           {kernel_->key, ranked(trial.place).schedule, ranked(trial.place).predicted_us,
                            trial.built.get(), trial.failure},
                           verifies_));
    }
    if (built_) return {};
    if (request_.failed) request_.failed(tuned_.fragment, tuned_.trials);
    return tried.back().failure->within("no schedule of the product is right");
  }

  /// The launch as the plan has it: arguments are the fragment's own.
  [[nodiscard]] PlannedLaunch planned() const {
    const ProductKernels::Ranked& chosen = ranked(built_->candidate.place);
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
  search::SharedKernel kernel_;  ///< without candidates of the memory-intensive kind
  std::shared_ptr<const BuiltKernel> built_;
  TunedFragment tuned_;
};

}  // namespace

Result<TunedFragment> contraction_plan(const TuningContext& context, const PlanRequest& request, bool verifies) {
  return ContractionMaker(context, request, verifies).make();
}

}  // namespace stitch::tuning
