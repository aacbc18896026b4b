#include "tuning/models/model_tuning.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "costmodel/uncertainty.h"
#include "graph/canonical.h"
#include "graph/simplify.h"
#include "tuning/models/model_search.h"
#include "tuning/models/tuning_steps.h"
#include "tuning/plans/fault_report.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::Op;

/// What the planning of one distinct fragment gave.
struct PlannedEntry {
  std::optional<search::FusionPlan> fused;
  std::optional<search::UnfusedFragment> unfused;
  std::string failure;
};

std::vector<PlannedEntry> plan_entries(const ModelFragments& model, const Tuner& tuner, const ProgressSink& progress,
                                       const std::stop_token& stop, double until) {
  std::vector<PlannedEntry> planned(model.entries.size());
  std::atomic<std::size_t> done = 0;
  std::mutex reporting;
  // Large fragments first: the last one to finish should be a small one.
  std::vector<std::size_t> order(model.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return model.entries[a].graph.size() > model.entries[b].graph.size();
  });
  tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
    if (stop.stop_requested()) return;
    const ModelFragments::Entry& entry = model.entries[order[i]];
    PlannedEntry& plan = planned[order[i]];
    const auto note = [&](std::string_view what, const Result<search::FusionPlan>& result) {
      if (!result)
        plan.failure +=
            fmt::format("{}{}: {}: {}", plan.failure.empty() ? "" : "; ", entry.name, what, result.error().message);
    };
    Result<search::FusionPlan> fused = tuner.explore(entry.graph, stop);
    note("plan", fused);
    Result<search::UnfusedFragment> unfused = tuner.unfused(entry.graph);
    if (fused) plan.fused = std::move(*fused);
    if (unfused) plan.unfused = std::move(*unfused);
    const std::size_t ready = ++done;
    const std::lock_guard lock(reporting);
    if (progress) {
      progress({"plan", until * ready / order.size(), fmt::format("fragment {} of {}", ready, order.size())});
    }
  });
  return planned;
}

/// How far the prediction of a kernel's best candidate may be off, µs.
double uncertainty_us(const search::ExploredKernel& kernel) {
  return costmodel::uncertainty_us(kernel.candidates.front().program, kernel.predicted_us());
}

void count(const ModelFragments& model, const std::vector<PlannedEntry>& planned, ModelReport& report) {
  std::set<Hash128> kernels;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const std::int64_t times = model.entries[i].occurrences;
    report.fragments += times;
    if (planned[i].fused) {
      for (const search::PlannedKernel& kernel : planned[i].fused->kernels) kernels.insert(kernel.kernel->key);
      report.launches += times * std::ssize(planned[i].fused->kernels);
      report.bytes += times * search::plan_bytes(*planned[i].fused);
      report.predicted_us += times * planned[i].fused->predicted_us;
      for (const search::PlannedKernel& kernel : planned[i].fused->kernels)
        report.uncertainty_us += times * uncertainty_us(*kernel.kernel);
    }
    if (planned[i].unfused) {
      report.launches_unfused += times * planned[i].unfused->launches();
      report.bytes_unfused += times * planned[i].unfused->bytes();
      report.predicted_unfused_us += times * planned[i].unfused->predicted_us();
    }
    if (!planned[i].failure.empty()) report.failures.push_back(planned[i].failure);
  }
  report.kernels = kernels.size();
}

/// Import, cut and plan: what plan_model and tune_model have in common.
struct PlannedModel {
  ModelFragments model;
  std::vector<PlannedEntry> planned;
  ModelTuning tuning;
};

Result<PlannedModel> import_and_plan(std::string_view bytes, std::string_view name, const Tuner& tuner,
                                     const ProgressSink& progress, const std::stop_token& stop, double until,
                                     const import::ImportOptions& asked) {
  PlannedModel result;
  ModelReport& report = result.tuning.report;
  report.model = name;
  if (progress) progress({"import", 0, std::string(name)});
  const Stopwatch importing;
  STITCH_ASSIGN(auto imported, import::import_bytes(bytes, name, asked));
  report.constraints = to_string(imported.graph.constraints);
  result.tuning.workload.format = imported.format;
  const std::vector<std::string> parameters = imported.parameters, results = imported.results;
  STITCH_ASSIGN(result.model, cut_model(std::move(imported), tuner));
  report.seconds.import = importing.seconds();
  report.operators = result.model.operators;
  for (const graph::DonationOutcome& outcome : result.model.donations) {
    report.donations.push_back(
        {parameters[outcome.donation.parameter], results[outcome.donation.result], outcome.in_place, outcome.why});
  }
  report.distinct_fragments = result.model.entries.size();
  report.library_calls = result.model.library_calls;
  for (const import::Boundary& boundary : result.model.boundaries) {
    const auto known = std::find_if(report.boundaries.begin(), report.boundaries.end(),
                                    [&](const auto& entry) { return entry.op == boundary.op; });
    if (known == report.boundaries.end()) {
      report.boundaries.emplace_back(boundary.op, boundary.occurrences);
    } else {
      known->count += boundary.occurrences;
    }
  }
  const Stopwatch planning;
  result.planned = plan_entries(result.model, tuner, progress, stop, until);
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while planning {}", name);
  report.seconds.plan = planning.seconds();
  count(result.model, result.planned, report);
  db::Workload& workload = result.tuning.workload;
  workload.key = workload_key(bytes, asked.constraints);
  workload.name = name;
  for (const ModelFragments::Entry& entry : result.model.entries) {
    workload.parts.push_back({entry.key, entry.occurrences});
  }
  return result;
}

/// The part of a model's tuning that comes after planning.
class ModelTuner {
 public:
  ModelTuner(PlannedModel planned, std::string_view name, const Tuner& tuner, RememberingTuner* memory,
             std::stop_token stop, const ProgressSink& progress)
      : model_(std::move(planned.model)),
        plans_(std::move(planned.planned)),
        tuning_(std::move(planned.tuning)),
        name_(name),
        tuner_(tuner),
        memory_(memory),
        stop_(std::move(stop)),
        progress_(progress) {}

  /// Every fragment that is not settled, and those that have one of the `changed` kernels. Progress goes from one share
  /// to the other.
  Status tune_fragments(double from, double until, const std::set<Hash128>& changed) {
    std::vector<std::size_t> order;
    for (const std::size_t i : by_gain()) {
      if (plans_[i].fused && !failed_.contains(model_.entries[i].key)) order.push_back(i);
    }
    const double span = (until - from) / std::max<std::size_t>(1, order.size());
    for (std::size_t step = 0; step < order.size(); ++step) {
      const ModelFragments::Entry& entry = model_.entries[order[step]];
      const search::FusionPlan& plan = *plans_[order[step]].fused;
      if (is_settled(entry) && !has_any(plan, changed)) {
        for (const search::PlannedKernel& kernel : plan.kernels) verified_.insert(kernel.kernel->key);
        continue;
      }
      const double begun = from + span * step;
      STITCH_TRY(tune_fragment(entry, plan, [&](const Progress& p) {
        if (progress_) {
          progress_({p.stage, begun + span * p.share,
                     fmt::format("fragment {} of {}: {}", step + 1, order.size(), p.detail)});
        }
      }));
    }
    return {};
  }

  /// Gives the kernels that changed.
  Result<std::set<Hash128>> search(double from, double until, std::int64_t trials) {
    const std::vector<ModelKernel> kernels = distinct_kernels();
    const ProgressSink inner = part_of(progress_, from, until);
    STITCH_ASSIGN(ModelSearch found, search_kernels(kernels, tuner_, memory_, trials, inner, stop_));
    ModelReport& report = tuning_.report;
    report.search = {found.trials,  found.failed, found.kernels, found.settled, std::ssize(found.changed),
                     found.saved_us};
    report.seconds.search = found.seconds;
    return std::move(found.changed);
  }

  Result<ModelTuning> finish() {
    tuning_.report.verified_kernels = verified_.size();
    tuning_.workload.report = to_json(tuning_.report);
    if (memory_ != nullptr) STITCH_TRY(memory_->keep(tuning_.workload));
    return std::move(tuning_);
  }

 private:
  [[nodiscard]] std::vector<std::size_t> by_gain() const {
    const auto gain = [&](std::size_t i) {
      const PlannedEntry& plan = plans_[i];
      if (!plan.fused || !plan.unfused) return 0.0;
      return model_.entries[i].occurrences * (plan.unfused->predicted_us() - plan.fused->predicted_us);
    };
    std::vector<std::size_t> order(plans_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(a) > gain(b); });
    return order;
  }

  [[nodiscard]] bool is_settled(const ModelFragments::Entry& entry) const {
    if (memory_ != nullptr) return memory_->is_settled(entry.key);
    return std::ranges::any_of(tuning_.fragments,
                               [&](const TunedFragment& tuned) { return tuned.fragment.key == entry.key; });
  }

  static bool has_any(const search::FusionPlan& plan, const std::set<Hash128>& kernels) {
    return std::ranges::any_of(plan.kernels,
                               [&](const search::PlannedKernel& k) { return kernels.contains(k.kernel->key); });
  }

  [[nodiscard]] std::vector<ModelKernel> distinct_kernels() const {
    std::vector<ModelKernel> kernels;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const ModelFragments::Entry& entry = model_.entries[i];
      if (plans_[i].fused) {
        add_kernels(*plans_[i].fused, {nullptr, entry.key, entry.family, &entry.graph, entry.name, entry.occurrences},
                    kernels);
      }
    }
    return kernels;
  }

  Status tune_fragment(const ModelFragments::Entry& entry, const search::FusionPlan& plan,
                       const ProgressSink& progress) {
    const std::string title = fmt::format("{}: {}", name_, entry.name);
    const auto failed = [&](const db::FragmentRecord& fragment, const TrialRecords& trials) {
      note_failures(fragment, trials, false, entry.name);
    };
    const PlanRequest request{
        .fragment = entry.graph, .name = title, .plan = &plan, .progress = progress, .stop = stop_, .failed = failed};
    Result<TunedFragment> tuned = memory_ != nullptr ? memory_->tune(request) : tuner_.tune(request);
    ModelReport& report = tuning_.report;
    if (!tuned) {
      if (tuned.error().kind == ErrorKind::cancelled) return tuned.error();
      failed_.insert(entry.key);
      report.failures.push_back(fmt::format("{}: {}", entry.name, tuned.error().message));
      if (tuned.error().kind == ErrorKind::correctness || tuned.error().kind == ErrorKind::runtime)
        ++report.wrong_kernels;
      return {};
    }
    report.seconds.codegen += tuned->seconds.codegen;
    report.seconds.verify += tuned->seconds.verify;
    report.seconds.measure += tuned->seconds.measure;
    for (const KernelReport& kernel : tuned->kernels) {
      if (kernel.verification && kernel.verification->correct) verified_.insert(kernel.key);
    }
    note_failures(tuned->fragment, tuned->trials, true, entry.name);
    if (memory_ != nullptr) STITCH_TRY(memory_->keep(*tuned));
    std::erase_if(tuning_.fragments,
                  [&](const TunedFragment& before) { return before.fragment.key == tuned->fragment.key; });
    tuning_.fragments.push_back(std::move(*tuned));
    return {};
  }

  void note_fault(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served) {
    const std::string key = fragment.key.hex();
    if (std::ranges::count(tuning_.report.fault_fragments, key) > 0) return;
    if (!std::ranges::any_of(trials.candidates, is_fault, &db::Candidate::outcome)) return;
    tuning_.report.fault_fragments.push_back(key);
    if (auto document = fault_document(fragment, trials.candidates, served))
      tuning_.faults.emplace_back(key, *std::move(document));
  }

  /// Plans are made of what is right; that something was not must not go unseen.
  void note_failures(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served,
                     const std::string& place) {
    constexpr std::size_t most_shown = 8;
    ModelReport& report = tuning_.report;
    note_fault(fragment, trials, served);
    for (const db::Candidate& candidate : trials.candidates) {
      using db::Outcome;
      const Outcome outcome = candidate.outcome;
      if (outcome == Outcome::correct || outcome == Outcome::untested) continue;
      if (!failed_candidates_.insert(candidate.schedule_hash).second) continue;
      ++report.failed_candidates[std::string(db::to_string(outcome))];
      if (is_fault(outcome) && report.wrong_candidates.size() < most_shown) {
        report.wrong_candidates.push_back(
            fmt::format("{}, schedule {}: {}", place, candidate.schedule_hash.hex().substr(0, 12), candidate.detail));
      }
    }
  }

  const ModelFragments model_;
  const std::vector<PlannedEntry> plans_;
  ModelTuning tuning_;
  const std::string_view name_;
  const Tuner& tuner_;
  RememberingTuner* const memory_;
  const std::stop_token stop_;
  const ProgressSink& progress_;
  std::set<Hash128> verified_;           ///< kernels
  std::set<Hash128> failed_;             ///< fragments
  std::set<Hash128> failed_candidates_;  ///< schedules
};

}  // namespace

Sha256 workload_key(std::string_view bytes, const graph::Constraints& constraints) {
  if (!constraints.any()) return sha256(bytes);
  return sha256(fmt::format("{} {}", to_string(constraints), sha256(bytes).hex()));
}

Result<ModelFragments> cut_model(import::Imported imported, const Tuner& tuner) {
  return cut_model(std::move(imported), [&](const graph::Graph& loop) { return tuner.runs_in_one_kernel(loop); });
}

Result<ModelFragments> cut_model(import::Imported imported,
                                 const std::function<bool(const graph::Graph&)>& whole_loop) {
  ModelFragments model;
  model.operators = graph::operator_count(imported.graph);
  model.boundaries = std::move(imported.boundaries);
  STITCH_TRY(graph::simplify(imported.graph));
  const graph::Constraints constraints = imported.graph.constraints;  // bodies of loops are under them as well
  std::map<Hash128, std::size_t> known;
  Status status;
  std::set<std::pair<const graph::Graph*, graph::NodeId>> whole;
  const auto enters = [&](const graph::Graph& graph, graph::NodeId id) { return !whole.contains({&graph, id}); };
  const auto visit = [&](const graph::RegionSite& site) {
    if (site.occurrences == 0 || !status) return;
    graph::CutOptions options;
    options.carried = site.is_loop_body;
    options.whole_loop = whole_loop;
    options.constraints = constraints;
    if (site.path.empty()) options.donations = imported.donations;
    const graph::CutGraph cut = graph::cut(site.graph, options);
    if (site.path.empty()) model.donations = cut.donations;
    for (const graph::NodeId id : cut.loops) whole.emplace(&site.graph, id);
    model.library_calls += site.occurrences * std::ssize(cut.calls);
    for (const graph::NodeId id : cut.others) {
      const Op op = site.graph.node(id).op;
      if (op != Op::loop && op != Op::conditional) model.library_calls += site.occurrences;
    }
    std::vector<std::size_t> entries;
    for (const graph::FragmentSite& fragment : cut.fragments) {
      Result<graph::CanonicalForm> form = graph::canonicalise(fragment.graph);
      const std::string place =
          fmt::format("{}level {}", site.path.empty() ? "" : site.path.substr(1) + ", ", fragment.level);
      if (!form) {
        status = form.error().within(place);
        return;
      }
      const auto [entry, added] = known.emplace(form->key, model.entries.size());
      if (added) model.entries.push_back({form->key, form->family_key, std::move(form->graph), 0, place});
      model.entries[entry->second].occurrences += site.occurrences;
      entries.push_back(entry->second);
    }
    add_region(site, cut, entries, model.outline);
  };
  graph::for_each_region(imported.graph, visit, enters);
  if (!status) return status.error();
  return model;
}

Result<ModelTuning> plan_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop, const import::ImportOptions& asked) {
  STITCH_ASSIGN(auto planned, import_and_plan(bytes, name, tuner, progress, stop, 1.0, asked));
  planned.tuning.workload.report = to_json(planned.tuning.report);
  return std::move(planned.tuning);
}

Result<ModelTuning> tune_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop, RememberingTuner* memory,
                               std::int64_t trials, const import::ImportOptions& asked) {
  if (trials > 0 && !tuner.measures())
    return make_error(ErrorKind::invalid_argument, "{} trials, and no device that measures", trials);
  constexpr double planned_until = 0.3;
  STITCH_ASSIGN(auto planned, import_and_plan(bytes, name, tuner, progress, stop, planned_until, asked));
  ModelTuner tuning(std::move(planned), name, tuner, memory, stop, progress);
  const TuningSteps steps{[&](double from, double until, const std::set<Hash128>& changed) {
                            return tuning.tune_fragments(from, until, changed);
                          },
                          [&](double from, double until) { return tuning.search(from, until, trials); }};
  STITCH_TRY(take_steps(steps, {trials, tuner.measures_plans(), planned_until, 0.5}));
  return tuning.finish();
}

}  // namespace stitch::tuning
