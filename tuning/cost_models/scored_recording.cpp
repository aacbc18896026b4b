#include "tuning/cost_models/scored_recording.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/device_class.h"
#include "costmodel/analytical.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "kernel/program/schedule_hash.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

using costmodel::TrainedCostModel;
using costmodel::TrainingSet;

/// The candidate's estimate after building it, over its prediction.
double compiled_share(KernelWorkshop& workshop, const search::SharedKernel& kernel, int place) {
  const Trial trial = workshop.build_candidate({kernel, place});
  if (trial.failure) return 1;
  return trial.built->estimated_us / kernel->candidates[place].predicted_us;
}

}  // namespace

Result<std::vector<ScoredKernel>> score_recording(const profiler::Recording& recording, KernelWorkshop* workshop,
                                                  const costmodel::TrainingOptions& training) {
  if (recording.kind != profiler::Measurement::Kind::device_time)
    return make_error(ErrorKind::invalid_argument, "the recording holds {}, which are no times", recording.unit);
  STITCH_ASSIGN(const DeviceClass planned, find_device_class(recording.target));
  const costmodel::AnalyticalScorer scorer(planned.spec);
  TrainingSet set;
  set.device = planned.spec.name;
  std::vector<ScoredKernel> scored;
  for (const profiler::RecordedKernel& kernel : recording.kernels) {
    const auto graph = graph::decode(kernel.graph, graph::Encoding::cbor);
    if (!graph) return graph.error().within(kernel.name);
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(*graph));
    STITCH_ASSIGN(const RereadKernel again, reread_kernel(kernel, *graph, scorer));
    ScoredKernel& into = scored.emplace_back();
    into.key = kernel.key;
    into.name = kernel.name;
    double fastest = 0;
    for (const profiler::RecordedCandidate& candidate : kernel.candidates) {
      const auto found = again.by_schedule.find(candidate.schedule);
      if (found == again.by_schedule.end()) continue;  // an explorer of another version found it
      const search::StitchCandidate& scheduled = again.candidate(found->second);
      const costmodel::CompiledFacts facts = {candidate.registers, candidate.shared_bytes, candidate.spill_bytes};
      CandidateRow row =
          candidate_row(again.space.kernel->graph, scheduled, planned.spec, candidate.registers > 0 ? &facts : nullptr);
      ScoredCandidate one;
      one.schedule = candidate.schedule;
      one.failed = candidate.failure.has_value();
      one.measured_us = one.failed ? 0 : candidate.median;
      one.noise = candidate.noise;
      one.analytical_us = row.analytical_us;
      if (workshop != nullptr)
        one.compiled_us = row.analytical_us * compiled_share(*workshop, again.space.kernel, found->second);
      if (!one.failed && (fastest == 0 || one.measured_us < fastest)) {
        fastest = one.measured_us;
        into.kind = costmodel::kind_of(scheduled.program);
      }
      into.candidates.push_back(one);
      set.samples.push_back({std::move(row.features), row.analytical_us, one.measured_us, one.failed, kernel.key,
                             form.family_key, recording.device.key});
    }
  }
  costmodel::TrainingOptions options = training;
  for (const auto& [kind, field] : {std::pair{TrainedCostModel::Kind::learned, &ScoredCandidate::learned_us},
                                    std::pair{TrainedCostModel::Kind::combined, &ScoredCandidate::combined_us}}) {
    options.kind = kind;
    STITCH_ASSIGN(const std::vector<double> predictions, costmodel::held_out_predictions(set, options));
    auto next = predictions.begin();
    for (ScoredKernel& kernel : scored) {
      for (ScoredCandidate& candidate : kernel.candidates) {
        if (next != predictions.end()) candidate.*field = *next++;
      }
    }
  }
  for (ScoredKernel& kernel : scored) {
    for (ScoredCandidate& each : kernel.candidates) {
      if (each.combined_us && each.compiled_us)
        each.combined_compiled_us = *each.combined_us * *each.compiled_us / each.analytical_us;
    }
  }
  return scored;
}

nlohmann::json to_document(const ScoredKernel& kernel) {
  nlohmann::json document = {{"key", kernel.key.hex()}, {"name", kernel.name}, {"kind", to_string(kernel.kind)}};
  nlohmann::json& candidates = document["candidates"] = nlohmann::json::array();
  for (const ScoredCandidate& each : kernel.candidates) {
    nlohmann::json& one = candidates.emplace_back(nlohmann::json{{"schedule", each.schedule.hex()},
                                                                 {"measured_us", each.measured_us},
                                                                 {"noise", each.noise},
                                                                 {"failed", each.failed},
                                                                 {"analytical", each.analytical_us}});
    for (const auto& [name, value] : {std::pair{"learned", each.learned_us},
                                      {"combined", each.combined_us},
                                      {"analytical, compiled", each.compiled_us},
                                      {"combined, compiled", each.combined_compiled_us}}) {
      if (value) one[name] = *value;
    }
  }
  return document;
}

}  // namespace stitch::tuning
