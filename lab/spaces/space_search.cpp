#include "lab/spaces/space_search.h"

#include <oneapi/tbb/parallel_for.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace stitch::lab {
namespace {

/// Processor time of this thread, so that searches side by side do not count each other.
double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

std::vector<search::NeighbourTrial> trials_of(const RecordedSpace& recorded) {
  std::vector<search::NeighbourTrial> trials;
  for (std::size_t i = 0; i < recorded.trials.size(); ++i) {
    const RecordedTrial& trial = recorded.trials[i];
    trials.push_back({i, trial.failure ? std::optional<double>() : std::optional(trial.time_us)});
  }
  return trials;
}

Result<SpaceSearchRun> run_once(const RecordedSpace& recorded, const search::TransferPrior* prior,
                                const SpaceSearchOptions& options, std::size_t budget, double fastest_us, int seed) {
  SpaceSearchRun run;
  run.seed = seed;
  search::TrialSearchOptions with_seed = options.search;
  with_seed.seed = seed;
  search::TrialSearch search(recorded.space, with_seed, prior);
  double engine_ms = 0;
  while (run.curve.size() < budget) {
    const double before = thread_ms();
    const std::vector<search::Proposal> batch = search.propose();
    const double ms = thread_ms() - before;
    engine_ms += ms;
    run.most_proposal_ms = std::max(run.most_proposal_ms, ms);
    if (search.settled() && !run.settled_at) run.settled_at = run.curve.size();
    if (batch.empty() || (options.stop && run.settled_at)) break;
    for (const search::Proposal& proposal : batch) {
      if (run.curve.size() == budget) break;
      const RecordedTrial& trial = recorded.trials[proposal.candidate];
      STITCH_TRY(search.observe(proposal.candidate, {trial.time_us, trial.failure}));
      run.failed += trial.failure ? 1 : 0;
      run.curve.push_back(search.best() ? fastest_us / search.best()->time_us : 0);
    }
  }
  if (search.best()) run.best = search.best()->candidate;
  run.proposal_ms = engine_ms / std::max<std::size_t>(1, run.curve.size());
  return run;
}

nlohmann::ordered_json or_null(const std::optional<std::size_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

double mean_ms(const SpaceSearchReport& report) {
  double sum = 0;
  for (const SpaceSearchRun& run : report.runs) sum += run.proposal_ms;
  return sum / report.runs.size();
}

double most_ms(const SpaceSearchReport& report) {
  return std::ranges::max(report.runs, {}, &SpaceSearchRun::most_proposal_ms).most_proposal_ms;
}

}  // namespace

std::optional<std::size_t> trials_to(const std::vector<double>& curve, double share) {
  const auto at = std::ranges::find_if(curve, [&](double found) { return found >= share; });
  if (at == curve.end()) return std::nullopt;
  return at - curve.begin() + 1;
}

std::string or_never(const std::optional<std::size_t>& trials) { return trials ? fmt::format("{}", *trials) : "never"; }

std::optional<std::size_t> SpaceSearchRun::trials_to(double share) const { return lab::trials_to(curve, share); }

double SpaceSearchReport::mean() const {
  double sum = 0;
  for (const SpaceSearchRun& run : runs) sum += run.found();
  return sum / runs.size();
}

double SpaceSearchReport::worst() const { return std::ranges::min(runs, {}, &SpaceSearchRun::found).found(); }

std::optional<std::size_t> SpaceSearchReport::trials_to(double share) const {
  std::vector<std::size_t> trials;
  for (const SpaceSearchRun& run : runs) {
    if (const auto reached = run.trials_to(share)) trials.push_back(*reached);
  }
  if (2 * trials.size() <= runs.size()) return std::nullopt;
  std::ranges::sort(trials);
  return trials[(runs.size() - 1) / 2];
}

std::vector<double> SpaceSearchReport::mean_curve() const {
  std::vector<double> mean(budget);
  for (std::size_t t = 0; t < budget; ++t) {
    for (const SpaceSearchRun& run : runs) {  // a search that stopped keeps what it has
      if (!run.curve.empty()) mean[t] += run.curve[std::min(t, run.curve.size() - 1)] / runs.size();
    }
  }
  return mean;
}

Result<search::TransferPrior> prior_of(const RecordedSpace& recorded, const RecordedSpace& neighbour) {
  return search::make_transfer_prior(recorded.space, neighbour.space, trials_of(neighbour));
}

Result<SpaceSearchReport> search_space(const RecordedSpace& recorded, const search::TransferPrior* prior,
                                       const SpaceSearchOptions& options) {
  const auto fastest = recorded.fastest();
  if (!fastest) return make_error(ErrorKind::invalid_argument, "no configuration of the space succeeded");
  if (options.seeds < 1) return make_error(ErrorKind::invalid_argument, "{} seeds", options.seeds);
  SpaceSearchReport report;
  report.device = recorded.device;
  report.kernel = recorded.kernel;
  report.configurations = recorded.space.size();
  report.failures = recorded.failures();
  report.fastest_us = recorded.trials[*fastest].time_us;
  report.transferred = prior != nullptr ? prior->matched : 0;
  report.budget = options.budget > 0 ? options.budget : std::max<std::size_t>(20, report.configurations / 40);
  report.budget = std::min(report.budget, report.configurations);
  std::vector<std::optional<Result<SpaceSearchRun>>> runs(options.seeds);
  tbb::parallel_for(0, options.seeds, [&](int seed) {
    runs[seed] = run_once(recorded, prior, options, report.budget, report.fastest_us, seed);
  });
  for (auto& run : runs) {
    if (!*run) return run->error();
    report.best.push_back(recorded.space.describe((*run)->best));
    report.runs.push_back(std::move(**run));
  }
  return report;
}

nlohmann::ordered_json to_document(const SpaceSearchReport& report) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const SpaceSearchRun& run = report.runs[i];
    runs.push_back({{"seed", run.seed},
                    {"found", run.found()},
                    {"configuration", report.best[i]},
                    {"trials", run.curve.size()},
                    {"failed", run.failed},
                    {"trials_to_95", or_null(run.trials_to(0.95))},
                    {"trials_to_99", or_null(run.trials_to(0.99))},
                    {"settled_at", or_null(run.settled_at)},
                    {"curve", run.curve}});
  }
  return {{"device", report.device},
          {"kernel", report.kernel},
          {"configurations", report.configurations},
          {"failures", report.failures},
          {"fastest_us", report.fastest_us},
          {"budget", report.budget},
          {"transferred", report.transferred},
          {"mean", report.mean()},
          {"worst", report.worst()},
          {"trials_to_95", or_null(report.trials_to(0.95))},
          {"trials_to_99", or_null(report.trials_to(0.99))},
          {"proposal_ms", {{"mean", mean_ms(report)}, {"most", most_ms(report)}}},
          {"curve", report.mean_curve()},
          {"runs", std::move(runs)}};
}

std::string to_json(const SpaceSearchReport& report) {
  return to_document(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_table(const SpaceSearchReport& report) {
  std::string text = fmt::format("{} on {}: {} configurations, {} of them fail; the fastest takes {:.1f} us\n",
                                 report.kernel.empty() ? "a kernel" : report.kernel,
                                 report.device.empty() ? "a device" : report.device, report.configurations,
                                 report.failures, report.fastest_us);
  if (report.transferred > 0) text += fmt::format("transfer: {} of a neighbour's times\n", report.transferred);
  text += fmt::format("{:>4}  {:>6}  {:>6}  {:>6}  {:>6}  {:>7}  {}\n", "seed", "found", "to 95%", "to 99%", "failed",
                      "settled", "configuration");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const SpaceSearchRun& run = report.runs[i];
    text += fmt::format("{:>4}  {:>6.4f}  {:>6}  {:>6}  {:>6}  {:>7}  {}\n", run.seed, run.found(),
                        or_never(run.trials_to(0.95)), or_never(run.trials_to(0.99)), run.failed,
                        run.settled_at ? fmt::format("{}", *run.settled_at) : "no", report.best[i]);
  }
  text += fmt::format(
      "{} trials each: mean {:.4f}, worst {:.4f} of the fastest; median trials to 95 % {}, to 99 % {}\n", report.budget,
      report.mean(), report.worst(), or_never(report.trials_to(0.95)), or_never(report.trials_to(0.99)));
  text += fmt::format("the engine took {:.2f} ms per trial, {:.1f} ms at most", mean_ms(report), most_ms(report));
  return text;
}

}  // namespace stitch::lab
