#include "cli/contractions/measured_products.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/interruption.h"
#include "graph/canonical.h"

namespace stitch::cli {
namespace {

using nlohmann::ordered_json;

std::vector<int> places_of(const MeasuredProductsOptions& options) {
  std::vector<int> places;
  for (int place = 0; place < options.best; ++place) places.push_back(place);
  for (int place = 2 * options.best; place <= options.ranks; place *= 2) places.push_back(place);
  return places;
}

const graph::Graph& graph_of(const NamedProblem& problem) {
  return std::visit([](const auto& one) -> const graph::Graph& { return *one.graph; }, problem.problem);
}

std::string text_of(const NamedProblem& problem) {
  return std::visit([](const auto& one) { return to_string(one); }, problem.problem);
}

void print(const ordered_json& line) {
  std::puts(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  std::fflush(stdout);  // whoever stops this has what was measured
}

/// Adds what became of a trial; whether it was found to be wrong.
bool add_trial(const tuning::ProductTrial& trial, ordered_json& line) {
  if (trial.built) {
    line["resources"] = trial.built->compiled.resources.describe();
    if (const auto& found = trial.built->verification) {
      line["worst"] = found->worst;
      line["share"] = found->share;
    }
    const auto& measured = trial.built->measurement;
    if (!trial.failure && measured) {
      line[measured->kind == profiler::Measurement::Kind::device_time ? "measured_us" : "sectors"] = measured->median;
      line["noise"] = measured->noise;
      line["samples"] = measured->samples.size();
    }
  }
  if (trial.failure) {
    line["failure"] = trial.failure->message;
    line["error"] = to_string(trial.failure->kind);
  }
  return trial.failure && trial.failure->kind == ErrorKind::correctness;
}

}  // namespace

Result<ExitCode> measure_products(const std::vector<NamedProblem>& problems, const MeasuredProductsOptions& options) {
  const Interruption interruption;
  tuning::TunerOptions planning;
  planning.verify.distributions = {profiler::Distribution::mixed};
  // There are thousands of schedules: of each some hundred places are compared.
  planning.verify.most_compared = 4096;
  tuning::TimerOptions timing;
  timing.kernel.measure.counters = false;
  timing.kernel.measure.warm_up_us = 3000;
  timing.kernel.measure.stopping.max_time_us = 80'000;
  timing.kernel.rotations = 2;
  STITCH_ASSIGN(const auto session, Session::open(options.common, planning, {}, timing));
  const std::vector<int> places = places_of(options), best(places.begin(), places.begin() + options.best);
  std::vector<search::PipelineAblation> spaces = {search::PipelineAblation::none};
  spaces.insert(spaces.end(), options.without.begin(), options.without.end());
  const Stopwatch watch;
  bool wrong = false;
  for (const NamedProblem& problem : problems) {
    if (interruption.token().stop_requested()) return ExitCode::interrupted;
    if (options.seconds > 0 && watch.seconds() > options.seconds) break;
    STITCH_ASSIGN(const auto form, graph::canonicalise(graph_of(problem)));
    for (const search::PipelineAblation ablation : spaces) {
      ordered_json line = {{"name", problem.name}, {"problem", text_of(problem)}};
      const bool whole = ablation == search::PipelineAblation::none;
      if (!whole) line["without"] = search::to_string(ablation);
      const auto judged = [&](const tuning::ProductKernels& kernels, const tuning::ProductTrial& trial) {
        const tuning::ProductKernels::Ranked& ranked = kernels.best[trial.place];
        ordered_json one = line;
        one["place"] = trial.place;
        one["schedule"] = ranked.schedule.hex();
        one["what"] = ranked.description;
        one["runs"] = ranked.runs;
        one["predicted_us"] = ranked.predicted_us;
        one["library_us"] = kernels.rival_us;
        wrong |= add_trial(trial, one);
        print(one);
      };
      const Status tried =
          session->tuner->try_product(form.graph, whole ? places : best, judged, interruption.token(), ablation);
      if (tried) continue;
      const ErrorKind why = tried.error().kind;
      if (why == ErrorKind::cancelled) return ExitCode::interrupted;
      if (why != ErrorKind::unsupported && why != ErrorKind::constraint) return tried.error().within(problem.name);
      line["failure"] = tried.error().message;
      line["error"] = to_string(why);
      print(line);
    }
  }
  return wrong ? ExitCode::failure : ExitCode::success;
}

}  // namespace stitch::cli
