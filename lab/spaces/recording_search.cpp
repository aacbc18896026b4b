#include "lab/spaces/recording_search.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "costmodel/kernel_features.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"

namespace stitch::lab {
namespace {

using profiler::RecordedCandidate;

/// Whether a search can go by what is recorded of a candidate.
Status check(const RecordedCandidate& candidate, std::size_t features) {
  const std::string schedule = candidate.schedule.hex();
  if (candidate.features.empty() || candidate.features.size() != features) {
    return make_error(ErrorKind::invalid_argument, "candidate {} was recorded without its features", schedule);
  }
  if (!std::isfinite(candidate.predicted_us)) {
    return make_error(ErrorKind::invalid_argument, "candidate {} is predicted at {}", schedule, candidate.predicted_us);
  }
  if (!candidate.failure && !(candidate.median > 0)) {
    return make_error(ErrorKind::invalid_argument, "candidate {} is recorded at {}", schedule, candidate.median);
  }
  return {};
}

/// Found after each trial, when candidates are tried in the order of their predictions.
std::vector<double> follow_predictions(const profiler::RecordedKernel& kernel, double fastest, std::size_t budget) {
  std::vector<std::size_t> order(kernel.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return kernel.candidates[i].predicted_us; });
  std::vector<double> curve;
  for (std::size_t trial = 0; trial < std::min(budget, order.size()); ++trial) {
    const RecordedCandidate& candidate = kernel.candidates[order[trial]];
    const double found = candidate.failure ? 0 : fastest / candidate.median;
    curve.push_back(std::max(found, curve.empty() ? 0.0 : curve.back()));
  }
  return curve;
}

std::vector<std::vector<double>> vectors_of(const profiler::RecordedKernel& kernel,
                                            std::span<const costmodel::SearchColumn> columns) {
  std::vector<std::vector<double>> vectors;
  for (const RecordedCandidate& candidate : kernel.candidates)
    vectors.push_back(costmodel::search_vector(candidate.features, columns));
  return vectors;
}

std::optional<Hash128> family_of(const profiler::RecordedKernel& kernel) {
  const auto graph = graph::decode(kernel.graph, graph::Encoding::cbor);
  if (!graph) return std::nullopt;
  const auto form = graph::canonicalise(*graph);
  return form ? std::optional(form->family_key) : std::nullopt;
}

/// Whether what a kernel took there says something of ours: the same one elsewhere, or another shape of it.
bool is_neighbour(const profiler::Recording& recording, const profiler::RecordedKernel& kernel,
                  const profiler::Recording& other, const profiler::RecordedKernel& there) {
  if (there.key == kernel.key) return other.device.key != recording.device.key;
  const auto family = family_of(kernel);
  return family && family == family_of(there);
}

/// The predictions of a kernel, corrected by the neighbours' trials. `used`: how many there were.
Result<search::TransferPrior> corrected(const profiler::Recording& recording, const profiler::RecordedKernel& kernel,
                                        const profiler::Recording& other, const search::TransferPrior& predicted,
                                        std::size_t& used) {
  const auto columns = costmodel::search_columns(recording.feature_names);
  std::vector<std::vector<double>> vectors = vectors_of(kernel, columns);
  std::vector<float> errors;
  for (const profiler::RecordedKernel& there : other.kernels) {
    if (!is_neighbour(recording, kernel, other, there)) continue;
    for (const RecordedCandidate& candidate : there.candidates) {
      if (const Status sound = check(candidate, other.feature_names.size()); !sound)
        return sound.error().within(fmt::format("neighbour {}", there.name));
      if (candidate.failure) continue;
      vectors.push_back(costmodel::search_vector(candidate.features, columns));
      errors.push_back(std::log(candidate.median / std::max(candidate.predicted_us, 1e-6)));
    }
  }
  used = errors.size();
  if (errors.empty()) return predicted;
  STITCH_ASSIGN(const auto joint, search::CandidateSpace::from_vectors(vectors));
  return search::carry_over(joint, predicted.log_time, errors);
}

Result<KernelReplay> replay_kernel(const profiler::Recording& recording, const profiler::RecordedKernel& kernel,
                                   const BeforeSearch& before, const SpaceSearchOptions& options) {
  KernelReplay done{kernel.name, kernel.key, 0, "", {}, {}};
  const Result<RecordedCandidates> space = recorded_candidates(recording, kernel);
  if (!space) {
    done.skipped = space.error().message;
    return done;
  }
  search::TransferPrior prior = space->predicted;
  if (before.neighbour != nullptr) {
    STITCH_ASSIGN(prior, corrected(recording, kernel, *before.neighbour, space->predicted, done.transferred));
  }
  STITCH_ASSIGN(done.search, search_space(space->recorded, before.predictions ? &prior : nullptr, options));
  done.by_prediction = follow_predictions(kernel, done.search.fastest_us, done.search.budget);
  return done;
}

}  // namespace

Result<RecordedCandidates> recorded_candidates(const profiler::Recording& recording,
                                               const profiler::RecordedKernel& kernel) {
  if (kernel.candidates.size() < 2) {
    return make_error(ErrorKind::invalid_argument, "{} recorded candidates", kernel.candidates.size());
  }
  for (const RecordedCandidate& candidate : kernel.candidates) {
    STITCH_TRY(check(candidate, recording.feature_names.size()));
  }
  RecordedCandidates space;
  space.recorded.device = recording.device.name;
  space.recorded.kernel = kernel.name;
  STITCH_ASSIGN(space.recorded.space, search::CandidateSpace::from_vectors(
                                          vectors_of(kernel, costmodel::search_columns(recording.feature_names))));
  for (const RecordedCandidate& candidate : kernel.candidates) {
    const auto failure = candidate.failure ? std::optional(candidate.failure->kind) : std::nullopt;
    space.recorded.trials.push_back({failure, candidate.median, {}});
    space.predicted.log_time.push_back(std::log(std::max(candidate.predicted_us, 1e-6)));
  }
  if (!space.recorded.fastest()) return make_error(ErrorKind::invalid_argument, "no candidate is right");
  space.predicted.failed.assign(kernel.candidates.size(), 0);
  return space;
}

std::size_t RecordingSearchReport::searched() const { return std::ranges::count(kernels, "", &KernelReplay::skipped); }

Result<RecordingSearchReport> search_recording(const profiler::Recording& recording, const BeforeSearch& before,
                                               const SpaceSearchOptions& options) {
  if (before.neighbour != nullptr && before.neighbour->feature_names != recording.feature_names)
    return make_error(ErrorKind::invalid_argument, "the neighbour was recorded with other features");
  RecordingSearchReport report{recording.device.name, recording.unit, recording.scorer, {}};
  for (const profiler::RecordedKernel& kernel : recording.kernels) {
    auto done = replay_kernel(recording, kernel, before, options);
    if (!done) return done.error().within(kernel.name);
    report.kernels.push_back(*std::move(done));
  }
  if (report.searched() > 0) return report;
  if (report.kernels.empty()) return make_error(ErrorKind::invalid_argument, "no kernel is recorded");
  return make_error(ErrorKind::invalid_argument, "{}: {}", report.kernels[0].name, report.kernels[0].skipped);
}

std::string to_json(const RecordingSearchReport& report) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelReplay& kernel : report.kernels) {
    nlohmann::ordered_json document = {{"name", kernel.name}, {"key", kernel.key.hex()}};
    if (!kernel.skipped.empty()) {
      document["skipped"] = kernel.skipped;
    } else {
      document["transferred"] = kernel.transferred;
      document["search"] = to_document(kernel.search);
      document["by_prediction"] = {{"found", kernel.by_prediction.back()}, {"curve", kernel.by_prediction}};
    }
    kernels.push_back(std::move(document));
  }
  const nlohmann::ordered_json document = {{"device", report.device},
                                           {"unit", report.unit},
                                           {"scorer", report.scorer},
                                           {"searched", report.searched()},
                                           {"kernels", std::move(kernels)}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_table(const RecordingSearchReport& report) {
  std::string text = fmt::format("{} of {} kernels recorded on {}, in {}; predictions by {}\n", report.searched(),
                                 report.kernels.size(), report.device, report.unit, report.scorer);
  text += fmt::format("{:>10} {:>6}  {:>6} {:>6} {:>6}  {:>9} {:>6}  {}\n", "candidates", "budget", "mean", "worst",
                      "to 99%", "predicted", "to 99%", "kernel");
  for (const KernelReplay& kernel : report.kernels) {
    if (!kernel.skipped.empty()) {
      text += fmt::format("{:>10} {}: not searched: {}\n", "", kernel.name, kernel.skipped);
      continue;
    }
    const SpaceSearchReport& search = kernel.search;
    const std::string near =
        kernel.transferred > 0 ? fmt::format(" ({} trials of neighbours)", kernel.transferred) : "";
    text +=
        fmt::format("{:>10} {:>6}  {:>6.4f} {:>6.4f} {:>6}  {:>9.4f} {:>6}  {}{}\n", search.configurations,
                    search.budget, search.mean(), search.worst(), or_never(search.trials_to(0.99)),
                    kernel.by_prediction.back(), or_never(trials_to(kernel.by_prediction, 0.99)), kernel.name, near);
  }
  text += "predicted: the same budget spent in the order of the predictions";
  return text;
}

}  // namespace stitch::lab
