#include "tuning/kernels/kernel_search.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/kernel_features.h"
#include "kernel/program/schedule_hash.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

constexpr std::size_t most_recalled = 3;
constexpr std::size_t most_near = 1024;  ///< trials of neighbours that are looked at

/// A time's logarithm, of a model's answer that may be anything.
float log_of(double us) { return static_cast<float>(std::log(std::clamp(us, 1e-6, 1e12))); }

std::vector<double> vector_of(const std::vector<float>& row, std::span<const costmodel::SearchColumn> columns) {
  return costmodel::search_vector(std::vector<double>(row.begin(), row.end()), columns);
}

/// What a cost model sees of each candidate.
std::vector<CandidateRow> rows_of(const graph::Graph& kernel, const std::vector<search::StitchCandidate>& candidates,
                                  const DeviceSpec& device) {
  std::vector<CandidateRow> rows(candidates.size());
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::size_t{0}, rows.size(),
                      [&](std::size_t i) { rows[i] = candidate_row(kernel, candidates[i], device, nullptr); });
  });
  return rows;
}

/// The predictions, as times of a neighbour.
search::TransferPrior predictions_of(const std::vector<search::StitchCandidate>& candidates) {
  search::TransferPrior prior;
  for (const search::StitchCandidate& candidate : candidates) prior.log_time.push_back(log_of(candidate.predicted_us));
  prior.failed.assign(candidates.size(), 0);
  return prior;
}

/// How far the near trials are off what the analytical model says of them, carried over to the candidates like them.
Result<search::TransferPrior> prior_of(const std::vector<CandidateRow>& rows, std::span<const KnownTrial> near,
                                       std::vector<std::vector<double>> vectors,
                                       std::span<const costmodel::SearchColumn> columns) {
  std::vector<float> base;
  for (const CandidateRow& row : rows) base.push_back(log_of(row.analytical_us));
  std::vector<float> errors;
  for (const KnownTrial& trial : near) {
    vectors.push_back(vector_of(trial.features, columns));
    errors.push_back(log_of(trial.outcome.time_us) - log_of(trial.analytical_us));
  }
  STITCH_ASSIGN(const auto joint, search::CandidateSpace::from_vectors(vectors));
  return search::carry_over(joint, base, errors);
}

/// The trials that can be carried over.
std::vector<KnownTrial> usable(const std::vector<KnownTrial>& near) {
  std::vector<KnownTrial> some;
  for (const KnownTrial& trial : near) {
    const bool known = trial.features.size() == costmodel::feature_columns().size() && trial.analytical_us > 0;
    if (known && !trial.outcome.failure && some.size() < most_near) some.push_back(trial);
  }
  return some;
}

const profiler::Measurement* measurement_of(const Trial& trial) {
  return trial.built && trial.built->measurement ? &*trial.built->measurement : nullptr;
}

/// Code of thousands of candidates that nobody will launch again would fill memory.
void drop_code(Trial& trial) {
  if (!trial.built) return;
  BuiltKernel known = *trial.built;
  known.generated.source.clear();
  known.compiled.ptx.clear();
  known.compiled.cubin.clear();
  trial.built = std::make_shared<const BuiltKernel>(std::move(known));
}

/// Side by side: a compiler and an emulator use one core each, a device waits for its turn.
std::vector<Trial> verified(KernelWorkshop& workshop, const std::vector<KernelCandidate>& batch,
                            const std::stop_token& stop) {
  std::vector<Trial> trials(batch.size());
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::size_t{0}, batch.size(), [&](std::size_t i) {
      Trial trial = workshop.build_candidate(batch[i], stop);
      trials[i] = trial.failure ? std::move(trial) : workshop.verify_candidate(std::move(trial), stop);
    });
  });
  return trials;
}

}  // namespace

Result<std::unique_ptr<KernelSearch>> KernelSearch::create(const search::SharedKernel& kernel,
                                                           const search::Scorer& scorer,
                                                           const KernelSearchOptions& options,
                                                           const KernelHistory& history, const KernelTimer* timer) {
  std::unique_ptr<KernelSearch> made(new KernelSearch());
  STITCH_ASSIGN(const KernelSpace space, kernel_space(kernel->graph, kernel->key, scorer, options.space));
  made->kernel_ = kernel;
  for (const search::StitchCandidate& candidate : space.kernel->candidates) {
    const Hash128 schedule = kernel::schedule_hash(candidate.schedule);
    if (timer != nullptr && !timer->has_candidate(kernel->key, schedule)) continue;
    made->by_schedule_[schedule] = made->wide_.size();
    made->wide_.push_back(candidate);
  }
  if (made->wide_.empty())
    return make_error(ErrorKind::constraint, "{} can measure none of its {} candidates", timer->identity().name,
                      space.kernel->candidates.size());
  const auto columns = costmodel::search_columns(costmodel::feature_names());
  const std::vector<CandidateRow> rows = rows_of(kernel->graph, made->wide_, scorer.device());
  std::vector<std::vector<double>> vectors;
  for (const CandidateRow& row : rows) vectors.push_back(vector_of(row.features, columns));
  STITCH_ASSIGN(made->space_, search::CandidateSpace::from_vectors(vectors));
  const std::vector<KnownTrial> near = usable(history.near);
  if (near.empty()) {
    made->prior_ = predictions_of(made->wide_);
  } else {
    STITCH_ASSIGN(made->prior_, prior_of(rows, near, std::move(vectors), columns));
  }
  search::TrialSearchOptions searching;
  searching.seed = mix(options.seed, kernel->key.low);
  searching.batch = options.batch;
  made->tried_.assign(made->wide_.size(), 0);
  made->search_ = std::make_unique<search::TrialSearch>(made->space_, searching, &made->prior_);
  made->recall(history);
  return made;
}

/// The fastest of an earlier run wait to be tried; of all others it is known what comes of them.
void KernelSearch::recall(const KernelHistory& history) {
  std::vector<std::pair<double, std::size_t>> timed;
  for (const KnownTrial& trial : history.own) {
    const auto found = by_schedule_.find(trial.schedule);
    if (found == by_schedule_.end() || tried_[found->second] != 0) continue;
    tried_[found->second] = 1;
    if (trial.outcome.failure)
      (void)search_->observe(found->second, trial.outcome);
    else
      timed.emplace_back(trial.outcome.time_us, found->second);
  }
  std::ranges::sort(timed);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const auto [time, place] = timed[i];
    if (i < most_recalled)
      recalled_.push_back(place);
    else
      (void)search_->observe(place, {time, {}});
  }
  std::ranges::reverse(recalled_);
  for (const std::size_t place : recalled_) tried_[place] = 0;
}

KernelCandidate KernelSearch::candidate(std::size_t place) const {
  KernelCandidate candidate;
  candidate.kernel = kernel_;
  // A copy: what is tried must not keep the whole space alive.
  candidate.scheduled = std::make_shared<const search::StitchCandidate>(wide_[place]);
  candidate.place = place;
  return candidate;
}

std::vector<KernelCandidate> KernelSearch::propose(std::size_t most) {
  std::vector<KernelCandidate> batch;
  while (batch.size() < most && !recalled_.empty()) {
    const std::size_t place = recalled_.back();
    recalled_.pop_back();
    if (tried_[place] != 0) continue;
    tried_[place] = 1;
    batch.push_back(candidate(place));
  }
  if (!batch.empty()) return batch;
  // One that was recalled and could not be timed may be proposed again.
  while (batch.empty()) {
    const std::vector<search::Proposal> proposals = search_->propose(most);
    if (proposals.empty()) break;
    for (const search::Proposal& proposal : proposals) {
      if (std::exchange(tried_[proposal.candidate], 1) == 0) batch.push_back(candidate(proposal.candidate));
    }
  }
  return batch;
}

void KernelSearch::observe(const Trial& trial) {
  const auto found = by_schedule_.find(kernel::schedule_hash(trial.candidate.scheduled->schedule));
  if (found == by_schedule_.end()) return;
  tried_[found->second] = 1;
  search::TrialOutcome outcome;
  if (trial.failure) {
    if (!is_outcome(trial.failure->kind)) return;
    outcome.failure = trial.failure->kind;
  } else if (trial.built->measurement) {
    outcome.time_us = trial.built->measurement->median;
  }
  (void)search_->observe(found->second, outcome);  // refuses what has no time, and what it knows
}

Result<std::vector<KernelCandidate>> near_candidates(const search::SharedKernel& kernel, const search::Scorer& scorer,
                                                     const std::vector<KnownTrial>& near) {
  constexpr int looked_at = 64;
  const std::vector<KnownTrial> known = usable(near);
  if (known.empty()) return std::vector<KernelCandidate>();
  STITCH_ASSIGN(auto usual, search::explore_stitches(kernel->graph, scorer, {.keep = looked_at}));
  const auto columns = costmodel::search_columns(costmodel::feature_names());
  const std::vector<CandidateRow> rows = rows_of(kernel->graph, usual, scorer.device());
  std::vector<std::vector<double>> vectors;
  for (const CandidateRow& row : rows) vectors.push_back(vector_of(row.features, columns));
  STITCH_ASSIGN(const search::TransferPrior prior, prior_of(rows, known, std::move(vectors), columns));
  std::vector<KernelCandidate> candidates(usual.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].kernel = kernel;
    candidates[i].scheduled = std::make_shared<const search::StitchCandidate>(std::move(usual[i]));
    candidates[i].place = i;
  }
  std::ranges::stable_sort(candidates, {},
                           [&](const KernelCandidate& candidate) { return prior.log_time[candidate.place]; });
  return candidates;
}

Result<SearchOutcome> search_kernel(KernelWorkshop& workshop, const search::SharedKernel& kernel, KernelSearch& search,
                                    int trials, const std::stop_token& stop, const std::function<void(int)>& progress) {
  if (!workshop.measures()) return make_error(ErrorKind::unavailable, "nothing measures here");
  const Attempts first = workshop.measure(kernel, stop);
  if (!first.best) return first.why_none();
  SearchOutcome done;
  if (const auto* measured = measurement_of(*first.best)) {
    done.before = measured->median;
    done.in_us = measured->kind == profiler::Measurement::Kind::device_time;
  }
  for (const Trial& trial : first.all()) search.observe(trial);
  while (std::ssize(done.trials) < trials && !stop.stop_requested()) {
    const auto batch = search.propose(trials - done.trials.size());
    if (batch.empty() || search.settled()) {
      done.settled = true;
      break;
    }
    // One after the other: kernels that run side by side would slow each other down.
    bool answers = false;
    std::vector<Trial> tried = verified(workshop, batch, stop);
    if (stop.stop_requested()) break;  // half-made trials say nothing
    for (Trial& trial : tried) {
      if (!trial.failure) trial = workshop.measure_candidate(std::move(trial));
      search.observe(trial);
      if (workshop.promote(trial)) done.changed = true;
      answers = answers || trial.failure || measurement_of(trial) != nullptr;
      done.failed += trial.failure ? 1 : 0;
      drop_code(trial);
      done.trials.push_back(std::move(trial));
    }
    if (progress) progress(std::ssize(done.trials));
    if (!answers) break;  // the device is gone, or throttles all the time
  }
  const Attempts now = workshop.measure(kernel);
  if (const auto* measured = now.best ? measurement_of(*now.best) : nullptr) done.after = measured->median;
  return done;
}

}  // namespace stitch::tuning
