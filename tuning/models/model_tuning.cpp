#include "tuning/models/model_tuning.h"

#include <algorithm>
#include <set>

#include "costmodel/uncertainty.h"
#include "tuning/models/entry_planning.h"
#include "tuning/models/fragment_tuning.h"

namespace stitch::tuning {
namespace {

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

void note_boundaries(const ModelFragments& model, ModelReport& report) {
  for (const import::Boundary& boundary : model.boundaries) {
    const auto known = std::find_if(report.boundaries.begin(), report.boundaries.end(),
                                    [&](const auto& entry) { return entry.op == boundary.op; });
    if (known == report.boundaries.end()) {
      report.boundaries.emplace_back(boundary.op, boundary.occurrences);
    } else {
      known->count += boundary.occurrences;
    }
  }
}

Result<PlannedModel> import_and_plan(std::string_view bytes, std::string_view name, const Tuner& tuner,
                                     const ProgressSink& progress, const std::stop_token& stop, double until,
                                     const import::ImportOptions& asked) {
  PlannedModel result;
  if (progress) progress({"import", 0, std::string(name)});
  const Stopwatch importing;
  STITCH_ASSIGN(auto imported, import::import_bytes(bytes, name, asked));
  STITCH_ASSIGN(CutModel cut, cut_for_tuning(std::move(imported), bytes, name, tuner, asked.constraints, stop));
  result.model = std::move(cut.fragments);
  result.tuning.report = std::move(cut.report);
  result.tuning.workload = std::move(cut.workload);
  ModelReport& report = result.tuning.report;
  report.seconds.import = importing.seconds();
  const Stopwatch planning;
  result.planned = plan_entries(result.model.entries, tuner, {.progress = progress, .until = until, .stop = stop});
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while planning {}", name);
  report.seconds.plan = planning.seconds();
  count(result.model, result.planned, report);
  return result;
}

}  // namespace

Sha256 workload_key(std::string_view bytes, const graph::Constraints& constraints) {
  if (!constraints.any()) return sha256(bytes);
  return sha256(fmt::format("{} {}", to_string(constraints), sha256(bytes).hex()));
}

Result<CutModel> cut_for_tuning(import::Imported imported, std::string_view bytes, std::string_view name,
                                const Tuner& tuner, const graph::Constraints& asked, const std::stop_token& stop) {
  CutModel cut;
  ModelReport& report = cut.report;
  report.model = name;
  report.constraints = to_string(imported.graph.constraints);
  cut.workload.format = imported.format;
  const std::vector<std::string> parameters = imported.parameters, results = imported.results;
  STITCH_ASSIGN(cut.fragments, cut_model(std::move(imported), tuner, stop));
  const ModelFragments& model = cut.fragments;
  report.operators = model.operators;
  for (const graph::DonationOutcome& outcome : model.donations) {
    report.donations.push_back(
        {parameters[outcome.donation.parameter], results[outcome.donation.result], outcome.in_place, outcome.why});
  }
  report.distinct_fragments = model.entries.size();
  report.library_calls = model.library_calls;
  note_boundaries(model, report);
  cut.workload.key = workload_key(bytes, asked);
  cut.workload.name = name;
  for (const ModelFragments::Entry& entry : model.entries) cut.workload.parts.push_back({entry.key, entry.occurrences});
  return cut;
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
  FragmentTuning tuning(planned.model.entries, planned.planned, tuner, memory,
                        {.model = name, .progress = progress, .stop = stop});
  STITCH_TRY(tuning.tune_and_search(planned_until, trials));
  tuning.finish(planned.tuning.report);
  planned.tuning.fragments = tuning.take_fragments();
  planned.tuning.faults = tuning.faults();
  planned.tuning.workload.report = to_json(planned.tuning.report);
  if (memory != nullptr) STITCH_TRY(memory->keep(planned.tuning.workload));
  return std::move(planned.tuning);
}

}  // namespace stitch::tuning
