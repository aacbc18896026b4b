#include "tuning/models/fragment_tuning.h"

#include <algorithm>
#include <numeric>

#include "tuning/models/tuning_steps.h"
#include "tuning/plans/fault_report.h"

namespace stitch::tuning {
namespace {

using Entry = ModelFragments::Entry;

bool has_any(const search::FusionPlan& plan, const std::set<Hash128>& kernels) {
  return std::ranges::any_of(plan.kernels,
                             [&](const search::PlannedKernel& k) { return kernels.contains(k.kernel->key); });
}

}  // namespace

Status FragmentTuning::tune(double from, double until, const std::set<Hash128>& changed) {
  std::vector<std::size_t> order;
  for (const std::size_t i : by_gain()) {
    if (plans_[i].fused && !failed_.contains(entries_[i].key)) order.push_back(i);
  }
  const double span = (until - from) / std::max<std::size_t>(1, order.size());
  for (std::size_t step = 0; step < order.size(); ++step) {
    const Entry& entry = entries_[order[step]];
    const search::FusionPlan& plan = *plans_[order[step]].fused;
    if (is_settled(entry.key) && !has_any(plan, changed)) {
      for (const search::PlannedKernel& kernel : plan.kernels) verified_.insert(kernel.kernel->key);
      continue;
    }
    const double begun = from + span * step;
    STITCH_TRY(tune_one(entry, plan, [&](const Progress& p) {
      if (options_.progress) {
        options_.progress(
            {p.stage, begun + span * p.share, fmt::format("fragment {} of {}: {}", step + 1, order.size(), p.detail)});
      }
    }));
  }
  return {};
}

Result<std::set<Hash128>> FragmentTuning::search(double from, double until, std::int64_t trials) {
  const std::vector<ModelKernel> kernels = distinct_kernels();
  const ProgressSink inner = part_of(options_.progress, from, until);
  STITCH_ASSIGN(ModelSearch found, search_kernels(kernels, tuner_, memory_, trials, inner, options_.stop));
  noted_.search = {found.trials, found.failed, found.kernels, found.settled, std::ssize(found.changed), found.saved_us};
  noted_.seconds.search = found.seconds;
  return std::move(found.changed);
}

Status FragmentTuning::tune_and_search(double planned_until, std::int64_t trials) {
  constexpr double first_until = 0.5;
  const TuningSteps steps{
      [&](double from, double until, const std::set<Hash128>& changed) { return tune(from, until, changed); },
      [&](double from, double until) { return search(from, until, trials); }};
  return take_steps(steps, {trials, tuner_.measures_plans(), planned_until, first_until});
}

bool FragmentTuning::is_settled(const Hash128& fragment) const {
  if (memory_ == nullptr) return tuned_.contains(fragment);
  return options_.verifies ? memory_->is_settled(fragment) : memory_->has_plan(fragment);
}

void FragmentTuning::finish(ModelReport& report) const {
  report.verified_kernels = verified_.size();
  report.wrong_kernels = noted_.wrong_kernels;
  report.search = noted_.search;
  report.seconds.codegen = noted_.seconds.codegen;
  report.seconds.verify = noted_.seconds.verify;
  report.seconds.measure = noted_.seconds.measure;
  report.seconds.search = noted_.seconds.search;
  report.failed_candidates = noted_.failed_candidates;
  report.spilling_kernels = noted_.spilling_kernels;
  report.wrong_candidates = noted_.wrong_candidates;
  report.fault_fragments = noted_.fault_fragments;
  report.failures.insert(report.failures.end(), noted_.failures.begin(), noted_.failures.end());
}

std::vector<std::size_t> FragmentTuning::by_gain() const {
  const auto gain = [&](std::size_t i) {
    const PlannedEntry& plan = plans_[i];
    if (!plan.fused || !plan.unfused) return 0.0;
    return entries_[i].occurrences * (plan.unfused->predicted_us() - plan.fused->predicted_us);
  };
  std::vector<std::size_t> order(plans_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(a) > gain(b); });
  return order;
}

std::vector<ModelKernel> FragmentTuning::distinct_kernels() const {
  std::vector<ModelKernel> kernels;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (plans_[i].fused) {
      add_kernels(*plans_[i].fused, {nullptr, entry.key, entry.family, &entry.graph, entry.name, entry.occurrences},
                  kernels);
    }
  }
  return kernels;
}

Result<TunedFragment> FragmentTuning::make_plan(const PlanRequest& request) {
  if (options_.verifies) return memory_ != nullptr ? memory_->tune(request) : tuner_.tune(request);
  return memory_ != nullptr ? memory_->predict(request) : tuner_.predict(request);
}

Status FragmentTuning::tune_one(const Entry& entry, const search::FusionPlan& plan, const ProgressSink& progress) {
  const std::string title = options_.model.empty() ? entry.name : fmt::format("{}: {}", options_.model, entry.name);
  const auto failed = [&](const db::FragmentRecord& fragment, const TrialRecords& trials) {
    note_failures(fragment, trials, false, entry.name);
  };
  Result<TunedFragment> tuned = make_plan({.fragment = entry.graph,
                                           .name = title,
                                           .plan = &plan,
                                           .progress = progress,
                                           .stop = options_.stop,
                                           .failed = failed});
  if (!tuned) {
    if (tuned.error().kind == ErrorKind::cancelled) return tuned.error();
    failed_.emplace(entry.key, tuned.error().message);
    noted_.failures.push_back(fmt::format("{}: {}", entry.name, tuned.error().message));
    if (tuned.error().kind == ErrorKind::correctness || tuned.error().kind == ErrorKind::runtime)
      ++noted_.wrong_kernels;
    return {};
  }
  noted_.seconds.codegen += tuned->seconds.codegen;
  noted_.seconds.verify += tuned->seconds.verify;
  noted_.seconds.measure += tuned->seconds.measure;
  for (const KernelReport& kernel : tuned->kernels) {
    if (kernel.verification && kernel.verification->correct) verified_.insert(kernel.key);
    if (kernel.spills_in_loop) noted_.spilling_kernels.push_back(fmt::format("{}: {}", entry.name, kernel.name));
  }
  note_failures(tuned->fragment, tuned->trials, true, entry.name);
  if (memory_ != nullptr) STITCH_TRY(memory_->keep(*tuned));
  tuned_.insert(entry.key);
  if (options_.tuned) options_.tuned(entry, *tuned);
  if (!options_.keeps_fragments) return {};
  std::erase_if(fragments_, [&](const TunedFragment& before) { return before.fragment.key == tuned->fragment.key; });
  fragments_.push_back(std::move(*tuned));
  return {};
}

void FragmentTuning::note_fault(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served) {
  const std::string key = fragment.key.hex();
  if (std::ranges::count(noted_.fault_fragments, key) > 0) return;
  if (!std::ranges::any_of(trials.candidates, is_fault, &db::Candidate::outcome)) return;
  noted_.fault_fragments.push_back(key);
  if (auto document = fault_document(fragment, trials.candidates, served))
    faults_.emplace_back(key, *std::move(document));
}

/// Plans are made of what is right; that something was not must not go unseen.
void FragmentTuning::note_failures(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served,
                                   const std::string& place) {
  constexpr std::size_t most_shown = 8;
  note_fault(fragment, trials, served);
  for (const db::Candidate& candidate : trials.candidates) {
    using db::Outcome;
    const Outcome outcome = candidate.outcome;
    if (outcome == Outcome::correct || outcome == Outcome::untested) continue;
    if (!failed_candidates_.insert(candidate.schedule_hash).second) continue;
    ++noted_.failed_candidates[std::string(db::to_string(outcome))];
    if (is_fault(outcome) && noted_.wrong_candidates.size() < most_shown) {
      noted_.wrong_candidates.push_back(
          fmt::format("{}, schedule {}: {}", place, candidate.schedule_hash.hex().substr(0, 12), candidate.detail));
    }
  }
}

}  // namespace stitch::tuning
