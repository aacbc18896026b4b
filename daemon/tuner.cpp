#include "daemon/tuner.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <set>

#include "base/version.h"
#include "codegen/generator_version.h"
#include "costmodel/analytical.h"
#include "costmodel/combined.h"
#include "daemon/kernel_history.h"
#include "daemon/kernel_workshop.h"
#include "daemon/measurement_record.h"
#include "daemon/plan_builder.h"
#include "daemon/plan_document.h"
#include "daemon/training_samples.h"
#include "graph/canonical.h"
#include "graph/codec.h"
#include "graph/traffic.h"
#include "search/schedule_hash.h"

namespace stitch::daemon {
namespace {

/// "13.0" of "13.0.88": patch releases serve one another's plans.
std::string release_of(const std::string& toolkit) {
  const std::size_t first = toolkit.find('.');
  const std::size_t second = first == std::string::npos ? first : toolkit.find('.', first + 1);
  return toolkit.substr(0, second);
}

std::string launch_document(const codegen::GeneratedKernel& kernel) {
  return fmt::format(R"({{"blocks":{},"threads":{},"cluster":{},"shared_bytes":{},"cooperative":{}}})", kernel.blocks,
                     kernel.threads, kernel.cluster, kernel.shared_bytes, kernel.cooperative);
}

/// Argument table of one launch, as the store keeps it: [["parameter",0],["integer",768]].
std::string arguments_document(const KernelLaunch& launch) {
  std::string text = "[";
  for (const LaunchArgument& argument : launch.arguments) {
    text += fmt::format(R"({}["{}",{}])", text.size() == 1 ? "" : ",", to_string(argument.kind), argument.value);
  }
  return text + "]";
}

/// What compiling a candidate told of its time, as the store keeps it.
std::string estimate_document(const BuiltKernel& built) {
  return fmt::format(R"({{"compiled_us":{:.4f},"registers":{},"machine_code":{}}})", built.estimated_us,
                     built.compiled.resources.registers, built.machine_code.has_value());
}

}  // namespace

namespace {

/// Candidates of a plan's kernels in the order that measured neighbours give them.
struct NearChoices {
  std::map<Hash128, std::vector<KernelCandidate>> candidates;  ///< by kernel
  std::optional<Hash128> neighbour;  ///< the measured plan that says most; nothing unless all kernels have neighbours

  [[nodiscard]] const std::vector<KernelCandidate>* of(const Hash128& kernel) const {
    const auto found = candidates.find(kernel);
    return neighbour && found != candidates.end() ? &found->second : nullptr;
  }
};

}  // namespace

struct Tuner::State {
  TunerOptions options;
  DeviceSpec device;
  db::Target target;
  std::unique_ptr<codegen::NvrtcCompiler> nvrtc;  ///< null: explores only
  std::string toolkit;                            ///< of NVRTC: "13.0.88"
  std::unique_ptr<codegen::ArtifactCache> artifacts;
  std::unique_ptr<codegen::CachingCompiler> caching;
  std::unique_ptr<search::Scorer> scorer;
  std::string scorer_name;
  std::unique_ptr<search::KernelCache> kernels;
  std::unique_ptr<KernelWorkshop> workshop;  ///< null: explores only
  KernelTimer* timer = nullptr;
  std::vector<profiler::DeviceIdentity> judges;  ///< the first verifies, the last measures
  const Clock* clock = nullptr;
  mutable tbb::task_arena arena;

  [[nodiscard]] const std::string& verifier() const { return judges.front().key; }
  [[nodiscard]] db::Provenance provenance(std::string judged, std::string on) const {
    return {std::string(tool_version), toolkit, std::move(on), clock->wall_us(), std::move(judged)};
  }

  Result<TunedFragment> work(const graph::Graph& canonical, std::string_view name, const search::FusionPlan* plan,
                             bool verify, const ProgressSink& progress, std::stop_token stop,
                             const RunnablePlan* incumbent, const FragmentHistory* history) const;
  Status make_kernels(const search::FusionPlan& fusion, bool verify, const NearChoices& near,
                      const ProgressSink& progress, const std::stop_token& stop,
                      std::vector<std::shared_ptr<const BuiltKernel>>& built, TunedFragment& tuned) const;
  [[nodiscard]] NearChoices choose_near(const search::FusionPlan& fusion, const FragmentHistory& history) const;
  void record_trials(const Hash128& fragment, const search::ExploredKernel& kernel, std::span<const Trial> trials,
                     bool verified, std::vector<db::Candidate>& candidates,
                     std::vector<db::Measurement>& measurements) const;
  Status measure_plan(const graph::Graph& canonical, const std::vector<std::shared_ptr<const BuiltKernel>>& built,
                      const RunnablePlan* incumbent, TunedFragment& tuned) const;
  void record(const search::FusionPlan& fusion, const std::vector<std::shared_ptr<const BuiltKernel>>& built,
              bool verified, const std::optional<Hash128>& neighbour, TunedFragment& tuned) const;
  Result<db::Fragment> describe(const graph::Graph& canonical, std::string_view name) const;
  [[nodiscard]] double headroom_us(const search::SharedKernel& kernel) const;
  Result<KernelTuning> search(const search::SharedKernel& kernel, const Hash128& fragment, std::int64_t trials,
                              const KernelHistory& history, const ProgressSink& progress,
                              const std::stop_token& stop) const;
};

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
  state->kernels = std::make_unique<search::KernelCache>(*state->scorer, options.stitch);
  if (options.compiles) {
    state->workshop = std::make_unique<KernelWorkshop>(*compiler, device, timer, state->device, std::move(making));
  }
  state->timer = timer;
  state->judges = {device.identity()};
  if (timer != nullptr && timer->identity().key != device.identity().key) state->judges.push_back(timer->identity());
  state->clock = &clock;
  state->arena.initialize(options.threads > 0 ? options.threads : tbb::task_arena::automatic);
  state->options = std::move(options);
  return std::unique_ptr<Tuner>(new Tuner(std::move(state)));
}

Result<db::Fragment> Tuner::State::describe(const graph::Graph& canonical, std::string_view name) const {
  STITCH_ASSIGN(const auto form, graph::canonicalise(canonical));
  db::Fragment fragment;
  fragment.key = form.key;
  fragment.family = form.family_key;
  fragment.name = name;
  fragment.graph = graph::encode(canonical, graph::Encoding::cbor);
  fragment.operator_count = graph::operator_count(canonical);
  fragment.parameter_bytes = graph::interface_bytes(canonical);
  fragment.provenance = provenance("", "");
  return fragment;
}

Result<db::Fragment> Tuner::describe(const graph::Graph& canonical, std::string_view name) const {
  return state_->describe(canonical, name);
}

Result<search::FusionPlan> Tuner::explore(const graph::Graph& canonical) const {
  return state_->arena.execute(
      [&] { return search::explore_fusion(canonical, *state_->kernels, state_->options.fusion); });
}

/// A plan is as near as the least of its kernels: one that nobody measured anything like makes it a predicted one.
NearChoices Tuner::State::choose_near(const search::FusionPlan& fusion, const FragmentHistory& history) const {
  NearChoices near;
  std::map<Hash128, int> says;  // by plan: kernels that it has something to say of
  for (const search::PlannedKernel& planned : fusion.kernels) {
    const search::SharedKernel& kernel = planned.kernel;
    if (near.candidates.contains(kernel->key)) continue;
    const auto form = graph::canonicalise(kernel->graph);
    if (!form) return {};
    const KernelHistory known = history.of(kernel->key, form->family_key);
    auto candidates = near_candidates(kernel, *scorer, known.near);
    if (!candidates || candidates->empty()) return {};
    near.candidates.emplace(kernel->key, *std::move(candidates));
    std::set<Hash128> plans;
    for (const KnownTrial& trial : known.near) plans.insert(trial.plan);
    for (const Hash128& plan : plans) ++says[plan];
  }
  const auto most = std::ranges::max_element(says, {}, [](const auto& entry) { return entry.second; });
  if (most != says.end()) near.neighbour = most->first;
  return near;
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

/// Keeps what became of a kernel's candidates.
void Tuner::State::record_trials(const Hash128& fragment, const search::ExploredKernel& kernel,
                                 std::span<const Trial> trials, bool verified, std::vector<db::Candidate>& candidates,
                                 std::vector<db::Measurement>& measurements) const {
  std::optional<Hash128> family;  // the same for all; a kernel without a canonical form could not have been explored
  if (timer != nullptr) {
    if (const auto form = graph::canonicalise(kernel.graph)) family = form->family_key;
  }
  for (const Trial& trial : trials) {
    db::Candidate candidate;
    candidate.key = {fragment, target};
    candidate.scope = db::Candidate::Scope::kernel;
    const search::StitchCandidate& scheduled = *trial.candidate.scheduled;
    candidate.schedule = schedule_document(kernel.key, search::schedule_hash(scheduled.schedule));
    candidate.schedule_hash = hash_bytes(candidate.schedule);
    candidate.outcome = trial.failure ? db::outcome_of(trial.failure->kind)
                        : verified    ? db::Outcome::correct
                                      : db::Outcome::untested;
    if (trial.failure)
      candidate.detail = trial.failure->message;
    else
      candidate.detail = estimate_document(*trial.built);
    candidate.seed = options.verify.seed;
    candidate.predicted_us = scheduled.predicted_us;
    if (trial.built && trial.built->verification) candidate.verified_share = trial.built->verification->share;
    candidate.provenance = provenance(verified ? fmt::format("verified on {}", verifier()) : "compiled", verifier());
    if (trial.built && trial.built->measurement) {
      const std::string& on = timer->identity().key;
      db::Measurement record = to_record(*trial.built->measurement, db::Measurement::Subject::schedule,
                                         candidate.schedule_hash, on, provenance("measured", on));
      // Cost models are trained on it.
      if (family) {
        auto compiled = compiled_facts(trial.built->compiled.resources, trial.built->generated.shared_bytes);
        if (trial.built->machine_code) compiled.machine_code = &*trial.built->machine_code;
        record.conditions =
            with_facts(record.conditions, {device.name, kernel.key, *family, costmodel::feature_set_hash(),
                                           candidate_row(kernel.graph, scheduled, device, &compiled)});
      }
      measurements.push_back(std::move(record));
    }
    candidates.push_back(std::move(candidate));
  }
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

void Tuner::State::record(const search::FusionPlan& fusion,
                          const std::vector<std::shared_ptr<const BuiltKernel>>& built, bool verified,
                          const std::optional<Hash128>& neighbour, TunedFragment& tuned) const {
  const std::string predicted =
      neighbour ? "schedules by what was measured of plan " + neighbour->hex() : "predicted by " + scorer_name;
  const db::Provenance origin = verified
                                    ? provenance(fmt::format("verified on {}, {}", verifier(), predicted), verifier())
                                    : provenance(predicted, "");
  std::set<Hash128> known;
  const auto artifact = [&](db::Artifact::Kind kind, const std::string& bytes) {
    const Hash128 hash = hash_bytes(bytes);
    if (known.insert(hash).second) tuned.bundle.artifacts.push_back({hash, kind, bytes, origin});
    return hash;
  };
  double share = built.empty() ? 1.0 : 0.0, weight = 0;
  std::set<Hash128> distinct;
  for (std::size_t launch = 0; launch < built.size(); ++launch) {
    const BuiltKernel& one = *built[launch];
    const codegen::ResourceUsage& used = one.compiled.resources;
    db::Kernel kernel;
    kernel.name = one.generated.name;
    kernel.architecture = one.compiled.architecture;
    kernel.options = "--prec-div=false --prec-sqrt=false";
    kernel.source = artifact(db::Artifact::Kind::source, one.generated.source);
    kernel.ptx = artifact(db::Artifact::Kind::ptx, one.compiled.ptx);
    kernel.cubin = artifact(db::Artifact::Kind::cubin, one.compiled.cubin);
    kernel.launch = launch_document(one.generated);
    kernel.resources = {used.registers, used.shared_bytes, used.stack_bytes, used.spill_store_bytes,
                        used.spill_load_bytes};
    kernel.provenance = origin;
    kernel.hash = db::kernel_hash(kernel);
    tuned.bundle.plan.steps.push_back({kernel.hash, arguments_document(tuned.plan.launches[launch])});
    if (distinct.insert(kernel.hash).second) tuned.bundle.kernels.push_back(kernel);
    const double bytes = static_cast<double>(std::max<std::int64_t>(1, tuned.plan.launches[launch].bytes));
    share += bytes * (one.verification ? one.verification->share : 0.0);
    weight += bytes;
    const search::ExploredKernel& explored = *fusion.kernels[launch].kernel;
    tuned.kernels.push_back({explored.key, one.generated.name, one.generated.source, used,
                             tuned.plan.launches[launch].predicted_us, one.estimated_us, one.candidate.place,
                             static_cast<int>(explored.candidates.size()), one.overtaken, one.verification,
                             one.measurement});
  }
  Plan& plan = tuned.plan;
  plan.fragment = tuned.fragment.key;
  plan.target = {target.device, target.architecture, target.toolkit, target.version};
  plan.label = db::to_string(neighbour ? db::Label::near : db::Label::predicted);
  plan.verified_share = weight > 0 ? share / weight : share;
  plan.judged = origin.judged;
  db::Plan& stored = tuned.bundle.plan;
  stored.key = {tuned.fragment.key, target};
  stored.document = plan_document(plan);
  stored.bytes = plan.bytes;
  stored.label = neighbour ? db::Label::near : db::Label::predicted;
  stored.neighbour = neighbour;
  stored.predicted_us = plan.predicted_us;
  stored.verified_share = plan.verified_share;
  stored.provenance = origin;
  stored.id = db::plan_id(stored);
  plan.id = stored.id;
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

double Tuner::State::headroom_us(const search::SharedKernel& kernel) const {
  double us = kernel->predicted_us();
  std::int64_t bytes = search::scheduled_bytes(kernel->graph, kernel->candidates.front().program);
  if (timer != nullptr) {
    const std::vector<Trial> trials = workshop->measure(kernel);
    if (trials.empty() || trials.back().failure) return 0;
    const auto& measurement = trials.back().built->measurement;
    if (measurement && measurement->kind == profiler::Measurement::Kind::device_time) us = measurement->median;
  }
  // Of what is gathered a schedule knows better than the interface how much is read, of what is read twice worse.
  bytes = std::min(bytes, graph::interface_bytes(kernel->graph));
  const double least = device.launch_us + static_cast<double>(bytes) / device.reachable_bandwidth() * 1e6;
  return std::max(0.0, us - least);
}

double Tuner::headroom_us(const search::SharedKernel& kernel) const {
  if (state_->workshop == nullptr || !kernel->feasible()) return 0;
  return state_->arena.execute([&] { return state_->headroom_us(kernel); });
}

Result<KernelTuning> Tuner::State::search(const search::SharedKernel& kernel, const Hash128& fragment,
                                          std::int64_t trials, const KernelHistory& history,
                                          const ProgressSink& progress, const std::stop_token& stop) const {
  STITCH_ASSIGN(const auto space, KernelSearch::create(kernel, *scorer, options.search, history));
  const auto most = static_cast<int>(std::min<std::int64_t>(trials, std::numeric_limits<int>::max()));
  STITCH_ASSIGN(const SearchedKernel found, search_kernel(*workshop, kernel, *space, most, stop, [&](int tried) {
                  if (progress)
                    progress({"search", static_cast<double>(tried) / static_cast<double>(trials),
                              fmt::format("trial {} of {}", tried, trials)});
                }));
  KernelTuning tuning;
  tuning.kernel = kernel->key;
  tuning.tried = std::ssize(found.trials), tuning.failed = found.failed;
  tuning.settled = found.settled, tuning.changed = found.changed;
  tuning.before = found.before, tuning.after = found.after;
  tuning.in_us = found.in_us;
  record_trials(fragment, *kernel, found.trials, true, tuning.candidates, tuning.measurements);
  return tuning;
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

Result<search::FusionPlan> Tuner::unfused(const graph::Graph& canonical) const {
  return state_->arena.execute([&] { return search::unfused_plan(canonical, *state_->kernels); });
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

}  // namespace stitch::daemon
