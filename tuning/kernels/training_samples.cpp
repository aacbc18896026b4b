#include "tuning/kernels/training_samples.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/device_class.h"
#include "costmodel/analytical.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "kernel/program/schedule_hash.h"

namespace stitch::tuning {
namespace {

using Json = nlohmann::json;
using costmodel::CompiledFacts;
using costmodel::TrainingSample;
using costmodel::TrainingSet;

/// Numbers, and null for what is missing.
Json row_document(const std::vector<float>& row) {
  Json document = Json::array();
  for (const float value : row) document.push_back(std::isnan(value) ? Json() : Json(value));
  return document;
}

std::vector<float> row_from(const Json& document) {
  std::vector<float> row;
  for (const Json& value : document)
    row.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>());
  return row;
}

/// Every page of a listing, item by item, until `visit` says that it is enough.
template <class Fetch, class Visit>
Status for_each_item(const Fetch& fetch, const Visit& visit) {
  db::Page page{.limit = 1000};
  do {
    const auto listing = fetch(page);
    if (!listing) return listing.error();
    for (const auto& item : listing->items) {
      STITCH_ASSIGN(const bool more, visit(item));
      if (!more) return {};
    }
    page.after = listing->next;
  } while (page.after != 0);
  return {};
}

/// The newest device times of a candidate with cold L2, one per device, as samples. Returns how many.
Result<std::size_t> add_measured(const db::Store& store, const Hash128& schedule, std::string_view target,
                                 TrainingSet& set) {
  STITCH_ASSIGN(const auto measurements, store.list_measurements(schedule));
  std::map<std::string, const db::MeasurementRecord*> newest;  // they come oldest first
  for (const db::MeasurementRecord& measurement : measurements) {
    if (measurement.kind == db::MeasurementRecord::Kind::device_time && measurement.cold_l2)
      newest[measurement.device] = &measurement;
  }
  std::size_t added = 0;
  for (const auto& [device, measurement] : newest) {
    auto facts = facts_in(measurement->conditions);
    if (!facts) return facts.error().within(fmt::format("measurement {}", measurement->id.hex()));
    if (!*facts || (*facts)->feature_set != costmodel::feature_set_hash() || (*facts)->target != target) continue;
    TrainingSample sample;
    sample.features = std::move((*facts)->row.features);
    sample.analytical_us = (*facts)->row.analytical_us;
    sample.measured = measurement->summary.median;
    sample.kernel = (*facts)->kernel;
    sample.family = (*facts)->family;
    sample.device = device;
    if (sample.measured <= 0) continue;
    set.samples.push_back(std::move(sample));
    ++added;
  }
  return added;
}

/// By entry of the device table; `only`: of one entry, or of all when empty.
Result<std::map<std::string, TrainingSet>> gather(const db::Store& store, std::string_view only, std::size_t most) {
  std::map<std::string, TrainingSet> sets;
  std::set<std::pair<std::string, Hash128>> seen;  // fragments share kernels, and so candidates
  std::size_t count = 0;
  db::CandidateFilter right;
  right.outcome = db::Outcome::correct;
  const auto visit = [&](const db::Candidate& candidate) -> Result<bool> {
    const std::string& device = candidate.key.target.device;
    if ((!only.empty() && device != only) || !seen.emplace(device, candidate.schedule_hash).second) return true;
    TrainingSet found;
    STITCH_ASSIGN(const std::size_t added, add_measured(store, candidate.schedule_hash, device, found));
    if (added == 0) return true;
    TrainingSet& set = sets[device];
    set.device = device;
    for (TrainingSample& sample : found.samples) set.samples.push_back(std::move(sample));
    count += added;
    return count < most;
  };
  STITCH_TRY(for_each_item([&](const db::Page& page) { return store.list_candidates(right, page); }, visit));
  return sets;
}

/// No feature is negative: −1 stands for what is missing.
std::vector<float> row_of_record(const std::vector<double>& features) {
  std::vector<float> row;
  for (const double value : features)
    row.push_back(value < 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value));
  return row;
}

CompiledFacts compiled_of(const profiler::RecordedCandidate& candidate) {
  return {candidate.registers, candidate.shared_bytes, candidate.spill_bytes, nullptr};
}

}  // namespace

CompiledFacts compiled_facts(const codegen::ResourceUsage& used, std::int64_t dynamic_shared_bytes) {
  return {used.registers, used.shared_bytes + dynamic_shared_bytes, used.spill_store_bytes + used.spill_load_bytes,
          nullptr};
}

CandidateRow candidate_row(const graph::Graph& kernel, const search::StitchCandidate& candidate,
                           const DeviceSpec& device, const CompiledFacts* compiled) {
  const auto quantities = costmodel::kernel_quantities(kernel, candidate.program, device);
  return {costmodel::analytical_us(quantities, device, {}),
          costmodel::to_row(costmodel::kernel_features(quantities, kernel, candidate.program, device, compiled))};
}

std::string with_facts(std::string_view conditions, const CandidateFacts& facts) {
  Json document = Json::parse(conditions, nullptr, false);
  if (!document.is_object()) document = Json::object();
  document["candidate"] = {{"target", facts.target},
                           {"kernel", facts.kernel.hex()},
                           {"family", facts.family.hex()},
                           {"analytical_us", facts.row.analytical_us},
                           {"feature_set", facts.feature_set.hex()},
                           {"features", row_document(facts.row.features)}};
  return document.dump();
}

Result<std::optional<CandidateFacts>> facts_in(std::string_view conditions) {
  try {
    const Json document = Json::parse(conditions);
    if (!document.is_object() || !document.contains("candidate")) return std::optional<CandidateFacts>();
    const Json& said = document.at("candidate");
    CandidateFacts facts;
    const auto kernel = Hash128::from_hex(said.at("kernel").get<std::string>());
    const auto family = Hash128::from_hex(said.at("family").get<std::string>());
    const auto set = Hash128::from_hex(said.at("feature_set").get<std::string>());
    if (!kernel || !family || !set) return make_error(ErrorKind::corrupt, "a candidate's facts: no hash");
    facts.target = said.at("target").get<std::string>();
    facts.kernel = *kernel;
    facts.family = *family;
    facts.feature_set = *set;
    facts.row.analytical_us = said.at("analytical_us").get<double>();
    facts.row.features = row_from(said.at("features"));
    if (*set == costmodel::feature_set_hash() && facts.row.features.size() != costmodel::feature_columns().size())
      return make_error(ErrorKind::corrupt, "a candidate's facts: {} features", facts.row.features.size());
    return std::optional(std::move(facts));
  } catch (const Json::exception& error) {
    return make_error(ErrorKind::corrupt, "a candidate's facts: {}", error.what());
  }
}

std::vector<double> features_for_record(const std::vector<float>& row) {
  std::vector<double> features;
  for (const float value : row) features.push_back(std::isnan(value) ? -1.0 : value);
  return features;
}

Result<std::map<std::string, TrainingSet>> samples_by_device(const db::Store& store, std::size_t most) {
  return gather(store, "", most);
}

Result<TrainingSet> samples_of_store(const db::Store& store, std::string_view device, std::size_t most) {
  STITCH_ASSIGN(auto sets, gather(store, device, most));
  TrainingSet& set = sets[std::string(device)];
  set.device = device;
  return std::move(set);
}

Result<RereadKernel> reread_kernel(const profiler::RecordedKernel& kernel, const graph::Graph& graph,
                                   const search::Scorer& scorer) {
  RereadKernel reread;
  KernelSpaceOptions options;
  options.candidates = std::max(options.candidates, static_cast<int>(kernel.wanted));
  STITCH_ASSIGN(reread.space, kernel_space(graph, kernel.key, scorer, options));
  const auto& candidates = reread.space.kernel->candidates;
  for (int place = 0; place < std::ssize(candidates); ++place)
    reread.by_schedule[kernel::schedule_hash(candidates[place].schedule)] = place;
  return reread;
}

Result<TrainingSet> samples_of_recording(const profiler::Recording& recording) {
  STITCH_ASSIGN(const DeviceClass planned, find_device_class(recording.target));
  const DeviceSpec& device = planned.spec;
  const costmodel::AnalyticalScorer scorer(device);
  const bool known =
      recording.feature_names == costmodel::feature_names() && recording.scorer == costmodel::AnalyticalScorer::version;
  TrainingSet set;
  set.device = device.name;
  set.unit = recording.kind == profiler::Measurement::Kind::device_time ? "us" : recording.unit;
  for (const profiler::RecordedKernel& kernel : recording.kernels) {
    const auto graph = graph::decode(kernel.graph, graph::Encoding::cbor);
    if (!graph) return graph.error().within(kernel.name);
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(*graph));
    std::optional<RereadKernel> reread;
    for (const profiler::RecordedCandidate& candidate : kernel.candidates) {
      TrainingSample sample;
      sample.analytical_us = candidate.predicted_us;
      if (known && !candidate.features.empty()) {
        sample.features = row_of_record(candidate.features);
      } else {
        if (!reread) {
          STITCH_ASSIGN(reread, reread_kernel(kernel, *graph, scorer));
        }
        const auto found = reread->by_schedule.find(candidate.schedule);
        if (found == reread->by_schedule.end()) continue;  // an explorer of another version found it
        const CompiledFacts compiled = compiled_of(candidate);
        CandidateRow row = candidate_row(reread->space.kernel->graph, reread->candidate(found->second), device,
                                         candidate.registers > 0 ? &compiled : nullptr);
        sample.analytical_us = row.analytical_us;
        sample.features = std::move(row.features);
      }
      sample.measured = candidate.failure ? 0 : candidate.median;
      sample.failed = candidate.failure.has_value();
      sample.kernel = kernel.key;
      sample.family = form.family_key;
      sample.device = recording.device.key;
      set.samples.push_back(std::move(sample));
    }
  }
  return set;
}

Result<std::vector<costmodel::FitSample>> fit_samples_of(const profiler::Recording& recording) {
  if (recording.kind != profiler::Measurement::Kind::device_time)
    return make_error(ErrorKind::invalid_argument, "the recording holds {}, which are no times: nothing can be fitted",
                      recording.unit);
  STITCH_ASSIGN(const DeviceClass planned, find_device_class(recording.target));
  const DeviceSpec& device = planned.spec;
  const costmodel::AnalyticalScorer scorer(device);
  std::vector<costmodel::FitSample> samples;
  for (const profiler::RecordedKernel& kernel : recording.kernels) {
    STITCH_ASSIGN(const graph::Graph graph, graph::decode(kernel.graph, graph::Encoding::cbor));
    STITCH_ASSIGN(const RereadKernel reread, reread_kernel(kernel, graph, scorer));
    for (const profiler::RecordedCandidate& candidate : kernel.candidates) {
      const auto found = reread.by_schedule.find(candidate.schedule);
      if (candidate.failure || candidate.median <= 0 || found == reread.by_schedule.end()) continue;
      samples.push_back(
          {costmodel::kernel_quantities(reread.space.kernel->graph, reread.candidate(found->second).program, device),
           candidate.median, kernel.key});
    }
  }
  return samples;
}

}  // namespace stitch::tuning
