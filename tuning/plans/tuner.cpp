#include "tuning/plans/tuner.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "base/processors.h"
#include "codegen/generator_version.h"
#include "costmodel/analytical.h"
#include "costmodel/combined.h"
#include "search/partition/loop_choice.h"
#include "tuning/plans/measurement_record.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/plans/tuner_state.h"

namespace stitch::tuning {
namespace {

/// "13.0" of "13.0.88": patch releases serve one another's plans.
std::string release_of(const std::string& toolkit) {
  const std::size_t first = toolkit.find('.');
  const std::size_t second = first == std::string::npos ? first : toolkit.find('.', first + 1);
  return toolkit.substr(0, second);
}

}  // namespace

Tuner::Tuner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tuner::~Tuner() = default;
const db::Target& Tuner::target() const { return state_->target; }
const search::Scorer& Tuner::scorer() const { return *state_->scorer; }
const std::string& Tuner::scorer_name() const { return state_->scorer_name; }

const std::vector<profiler::DeviceIdentity>& Tuner::judges() const { return state_->judges; }
bool Tuner::measures() const { return state_->timer != nullptr; }
bool Tuner::measures_plans() const { return measures() && state_->timer->has_plans(); }

Result<std::unique_ptr<Tuner>> Tuner::create(TunerOptions options, profiler::Device& device, KernelTimer* timer,
                                             FileSystem& files, const Clock& clock) {
  auto state = std::make_unique<State>();
  if (options.device) {
    state->device = *options.device;
  } else {
    STITCH_ASSIGN(state->device, find_device(options.target));
  }
  if (options.architecture.empty()) options.architecture = state->device.architecture();
  if (options.compiles) {
    STITCH_ASSIGN(state->nvrtc, codegen::NvrtcCompiler::create());
    state->toolkit = state->nvrtc->nvrtc().toolkit();
  }
  codegen::Compiler* compiler = state->nvrtc.get();
  if (options.compiles && !options.artifact_folder.empty()) {
    state->artifacts =
        std::make_unique<codegen::ArtifactCache>(files, clock, codegen::ArtifactCacheOptions{options.artifact_folder});
    state->caching = std::make_unique<codegen::CachingCompiler>(*compiler, *state->artifacts);
    compiler = state->caching.get();
  }
  state->target = {state->device.name, options.architecture, release_of(state->toolkit), codegen::generator_version()};
  if (options.model != nullptr) {
    STITCH_ASSIGN(state->scorer, costmodel::CombinedScorer::create(options.model, state->device));
    state->scorer_name = "combined, trained on " + options.model->training_set.hex().substr(0, 8);
  } else {
    state->scorer = std::make_unique<costmodel::AnalyticalScorer>(state->device);
    state->scorer_name = costmodel::AnalyticalScorer::version;
  }
  WorkshopOptions making;
  making.architecture = options.architecture, making.verify = options.verify;
  making.measured_candidates = options.measured_candidates, making.compiled_candidates = options.compiled_candidates;
  if (timer != nullptr)
    options.stitch.keep = std::max({options.stitch.keep, making.measured_candidates, making.built_ahead(true)});
  options.search.seed = options.verify.seed;
  // A recording has the candidates of a recording's space.
  if (timer != nullptr && !timer->has_plans()) options.search.space = KernelSpaceOptions();
  state->kernels = std::make_unique<search::KernelCache>(*state->scorer, options.stitch);
  if (options.compiles) {
    state->workshop = std::make_unique<KernelWorkshop>(*compiler, device, timer, state->device, std::move(making));
  }
  state->timer = timer;
  state->judges = {device.identity()};
  if (timer != nullptr && timer->identity().key != device.identity().key) state->judges.push_back(timer->identity());
  state->clock = &clock;
  state->arena.initialize(options.threads > 0 ? options.threads : usable_processors());
  state->options = std::move(options);
  return std::unique_ptr<Tuner>(new Tuner(std::move(state)));
}

Result<db::Fragment> Tuner::describe(const graph::Graph& canonical, std::string_view name) const {
  return state_->describe(canonical, name);
}

Result<search::FusionPlan> Tuner::explore(const graph::Graph& canonical) const {
  return state_->arena.execute(
      [&] { return search::explore_fusion(canonical, *state_->kernels, state_->options.fusion); });
}

Status Tuner::State::make_kernels(const search::FusionPlan& fusion, bool verify, const NearChoices& near,
                                  const ProgressSink& progress, const std::stop_token& stop,
                                  std::vector<std::shared_ptr<const BuiltKernel>>& built, TunedFragment& tuned) const {
  // Equal kernels of a plan are worked on once.
  std::map<Hash128, std::size_t> first;
  std::vector<search::SharedKernel> distinct;
  for (const search::PlannedKernel& kernel : fusion.kernels) {
    if (first.emplace(kernel.kernel->key, distinct.size()).second) distinct.push_back(kernel.kernel);
  }
  std::vector<std::vector<Trial>> trials(distinct.size());
  const auto stage = [&](std::string_view name, double from, double to, auto&& step) {
    std::atomic<std::size_t> done = 0;
    std::mutex reporting;
    const Stopwatch watch;
    tbb::parallel_for(std::size_t{0}, distinct.size(), [&](std::size_t k) {
      if (stop.stop_requested()) return;
      // A kernel's own parallel work must not pick up another kernel while this one's lock is held.
      tbb::this_task_arena::isolate([&] { trials[k] = step(distinct[k]); });
      const std::size_t ready = ++done;
      const std::lock_guard lock(reporting);
      if (progress) {
        progress({std::string(name),
                  from + (to - from) * static_cast<double>(ready) / static_cast<double>(distinct.size()),
                  fmt::format("kernel {} of {}", ready, distinct.size())});
      }
    });
    return watch.seconds();
  };
  const bool measure = verify && timer != nullptr;
  tuned.seconds.codegen = stage("codegen", 0.2, verify ? 0.5 : 1.0, [&](const search::SharedKernel& kernel) {
    if (const auto* candidates = near.of(kernel->key)) return workshop->first_of(*candidates, false);
    return verify ? workshop->build_ahead(kernel) : workshop->build(kernel);
  });
  if (verify) {
    tuned.seconds.verify = stage("verify", 0.5, measure ? 0.7 : 1.0, [&](const search::SharedKernel& kernel) {
      const auto* candidates = near.of(kernel->key);
      return candidates != nullptr ? workshop->first_of(*candidates, true) : workshop->verify(kernel);
    });
  }
  if (measure) {
    tuned.seconds.measure =
        stage("measure", 0.7, 1.0, [&](const search::SharedKernel& kernel) { return workshop->measure(kernel); });
  }
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while kernels were made");
  for (std::size_t k = 0; k < distinct.size(); ++k) {
    record_trials(tuned.fragment.key, *distinct[k], trials[k], verify, tuned.candidates, tuned.measurements);
    if (trials[k].empty() || trials[k].back().failure) {
      const Error why =
          trials[k].empty() ? make_error(ErrorKind::internal, "it has no candidates") : *trials[k].back().failure;
      return why.within(fmt::format("kernel {}", distinct[k]->key.hex()));
    }
  }
  for (const search::PlannedKernel& kernel : fusion.kernels) {
    built.push_back(trials[first.at(kernel.kernel->key)].back().built);
  }
  return {};
}

/// Times the whole plan, and the one that is served now beside it.
Status Tuner::State::measure_plan(const graph::Graph& canonical,
                                  const std::vector<std::shared_ptr<const BuiltKernel>>& built,
                                  const RunnablePlan* incumbent, TunedFragment& tuned) const {
  std::vector<RunnablePlan> plans = {{&canonical, &tuned.plan, {}}};
  for (const auto& kernel : built) plans.front().images.push_back(image_of(*kernel));
  const bool other = incumbent != nullptr && incumbent->plan->id != tuned.plan.id;
  if (other) plans.push_back(*incumbent);
  const Result<std::vector<profiler::Measurement>> measured = timer->measure_plans(plans);
  if (!measured) {
    // A plan that could not be timed is still a verified one: a recording knows kernels only, and a GPU may throttle
    // all the time. A fault is another matter.
    const ErrorKind why = measured.error().kind;
    return why == ErrorKind::unsupported || why == ErrorKind::unavailable ? Status() : Status(measured.error());
  }
  const std::string& on = timer->identity().key;
  const auto record_of = [&](std::size_t i) {
    return to_record((*measured)[i], db::Measurement::Subject::plan, plans[i].plan->id, on, provenance("measured", on));
  };
  const profiler::Measurement& mine = measured->front();
  tuned.bundle.measurements.push_back(record_of(0));
  if (mine.kind == profiler::Measurement::Kind::device_time) {
    tuned.plan.label = "measured";
    tuned.plan.measured_us = mine.median;
    tuned.bundle.plan.label = db::Label::measured;
    tuned.bundle.plan.measured_us = mine.median;
  }
  if (!other) return {};
  tuned.measurements.push_back(record_of(1));
  if (mine.kind == profiler::Measurement::Kind::device_time)
    tuned.comparison = profiler::compare_samples((*measured)[1].samples, mine.samples);
  return {};
}

Result<TunedFragment> Tuner::State::work(const graph::Graph& canonical, std::string_view name,
                                         const search::FusionPlan* plan, bool verify, const ProgressSink& progress,
                                         std::stop_token stop, const RunnablePlan* incumbent,
                                         const FragmentHistory* history) const {
  if (workshop == nullptr) return make_error(ErrorKind::unavailable, "this tuner was made to explore only");
  TunedFragment tuned;
  STITCH_ASSIGN(tuned.fragment, describe(canonical, name));
  if (progress) progress({"plan", 0.0, std::string(name)});
  const Stopwatch watch;
  search::FusionPlan explored;
  if (plan == nullptr) {
    STITCH_ASSIGN(explored, search::explore_fusion(canonical, *kernels, options.fusion));
    plan = &explored;
  }
  const search::FusionPlan& fusion = *plan;
  tuned.seconds.plan = watch.seconds();
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped after planning");
  std::vector<std::shared_ptr<const BuiltKernel>> built;
  NearChoices near;
  if (history != nullptr && !(verify && timer != nullptr)) near = choose_near(fusion, *history);
  STITCH_TRY(make_kernels(fusion, verify, near, progress, stop, built, tuned));
  STITCH_ASSIGN(tuned.plan, build_plan(canonical, fusion, built));
  record(fusion, built, verify, near.neighbour, tuned);
  if (verify && timer != nullptr) STITCH_TRY(measure_plan(canonical, built, incumbent, tuned));
  return tuned;
}

std::int64_t Tuner::trials_at_once() const { return static_cast<std::int64_t>(state_->options.search.batch); }

double Tuner::headroom_us(const search::SharedKernel& kernel) const {
  if (state_->workshop == nullptr || !kernel->feasible()) return 0;
  return state_->arena.execute([&] { return state_->headroom_us(kernel); });
}

Result<KernelTuning> Tuner::search(const search::SharedKernel& kernel, const Hash128& fragment, std::int64_t trials,
                                   const KernelHistory& history, const ProgressSink& progress,
                                   const std::stop_token& stop) const {
  if (!measures() || state_->workshop == nullptr)
    return make_error(ErrorKind::unavailable, "there is nothing to measure kernels on");
  return state_->arena.execute([&] { return state_->search(kernel, fragment, trials, history, progress, stop); });
}

std::shared_ptr<const BuiltKernel> Tuner::built(const search::SharedKernel& kernel) const {
  if (state_->workshop == nullptr) return nullptr;
  const std::vector<Trial> trials = state_->workshop->build(kernel);
  return trials.empty() || trials.back().failure ? nullptr : trials.back().built;
}

bool Tuner::runs_in_one_kernel(const graph::Graph& loop) const {
  return state_->arena.execute(
      [&] { return search::runs_in_one_kernel(loop, *state_->kernels, state_->options.fusion); });
}

Result<search::UnfusedFragment> Tuner::unfused(const graph::Graph& canonical) const {
  return state_->arena.execute([&] { return search::unfused_fragment(canonical, *state_->kernels); });
}

Result<TunedFragment> Tuner::predict(const graph::Graph& canonical, std::string_view name,
                                     const FragmentHistory* history) const {
  return state_->arena.execute([&] { return state_->work(canonical, name, nullptr, false, {}, {}, nullptr, history); });
}

Result<TunedFragment> Tuner::tune(const graph::Graph& canonical, std::string_view name, const ProgressSink& progress,
                                  std::stop_token stop, const search::FusionPlan* plan, const RunnablePlan* incumbent,
                                  const FragmentHistory* history) const {
  return state_->arena.execute(
      [&] { return state_->work(canonical, name, plan, true, progress, stop, incumbent, history); });
}

}  // namespace stitch::tuning
