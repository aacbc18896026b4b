#include "tuning/plans/call_record.h"

#include <nlohmann/json.hpp>

#include "tuning/plans/measurement_record.h"

namespace stitch::tuning {
namespace {

/// Names the candidate: the same for all versions of a library, of which the newest is asked.
std::string call_document(const Hash128& call) { return fmt::format(R"({{"call":"{}"}})", call.hex()); }

/// What `detail` of a candidate says; empty: another one wrote it.
std::string library_in(const std::string& detail) {
  const auto document = nlohmann::json::parse(detail, nullptr, false);
  const auto library = document.is_object() ? document.find("library") : document.end();
  return library != document.end() && library->is_string() ? library->get<std::string>() : std::string();
}

std::optional<ErrorKind> failure_of_call(db::Outcome outcome) {
  if (outcome == db::Outcome::timeout) return ErrorKind::timeout;
  if (outcome == db::Outcome::runtime) return ErrorKind::runtime;
  return std::nullopt;
}

}  // namespace

CallTime call_time_of(const Result<profiler::MeasuredCall>& measured) {
  if (!measured) return {.library = {}, .us = 0, .noise = 0, .failure = measured.error()};
  const auto summary = db::summarise(measured->measurement.samples);
  return {measured->library, summary.median, summary.rsd};
}

TrialRecords call_records(const db::PlanKey& key, const Result<profiler::MeasuredCall>& measured,
                          const std::string& device, const db::Provenance& provenance) {
  TrialRecords records;
  db::Candidate candidate;
  candidate.key = key;
  candidate.scope = db::Candidate::Scope::plan;
  candidate.schedule = call_document(key.fragment);
  candidate.schedule_hash = hash_bytes(candidate.schedule);
  candidate.outcome = measured ? db::Outcome::correct : db::outcome_of(measured.error().kind);
  candidate.detail = measured ? nlohmann::json{{"library", measured->library}}.dump() : measured.error().message;
  candidate.provenance = provenance;
  candidate.provenance.device = device;
  if (measured) {
    records.measurements.push_back(to_record(measured->measurement, db::MeasurementRecord::Subject::schedule,
                                             candidate.schedule_hash, device, candidate.provenance));
  }
  records.candidates.push_back(std::move(candidate));
  return records;
}

Result<std::optional<CallTime>> stored_call(const db::Store& store, const db::PlanKey& key, const std::string& device) {
  const Hash128 schedule = hash_bytes(call_document(key.fragment));
  db::CandidateFilter filter;
  filter.fragment = key.fragment;
  filter.target = key.target;
  filter.schedule = schedule;
  STITCH_ASSIGN(const auto listing, store.list_candidates(filter, {.limit = 1}));
  for (const db::Candidate& candidate : listing.items) {
    if (const auto failure = failure_of_call(candidate.outcome)) {
      if (!device.empty() && candidate.provenance.device != device) return std::optional<CallTime>();
      return std::optional(CallTime{.library = {}, .us = 0, .noise = 0, .failure = Error{*failure, candidate.detail}});
    }
    STITCH_ASSIGN(const auto measurements, store.list_measurements(schedule));
    for (auto one = measurements.rbegin(); one != measurements.rend(); ++one) {  // they come oldest first
      const bool is_time = one->kind == db::MeasurementRecord::Kind::device_time && one->summary.median > 0;
      const bool is_asked_for = device.empty() || one->device == device;
      if (!is_asked_for || !is_time || !one->cold_l2) continue;
      return std::optional(CallTime{library_in(candidate.detail), one->summary.median, one->summary.rsd});
    }
  }
  return std::optional<CallTime>();
}

}  // namespace stitch::tuning
