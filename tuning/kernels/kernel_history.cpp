#include "tuning/kernels/kernel_history.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/kernel_features.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

using db::Outcome;

constexpr int most_neighbours = 8;  ///< measured plans
constexpr int most_candidates = 1000;

struct CandidateName {
  Hash128 kernel, schedule;
};

Result<CandidateName> name_of(const db::Candidate& candidate) {
  const auto document = nlohmann::json::parse(candidate.schedule, nullptr, false);
  const auto hash = [&](const char* member) {
    return document.is_object() ? Hash128::from_hex(document.value(member, std::string())) : std::nullopt;
  };
  const auto kernel = hash("kernel"), schedule = hash("schedule");
  if (!kernel || !schedule)
    return make_error(ErrorKind::corrupt, "candidate {}: no kernel and schedule", candidate.schedule_hash.hex());
  return CandidateName{*kernel, *schedule};
}

std::optional<ErrorKind> failure_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::constraint: return ErrorKind::constraint;
    case Outcome::compile: return ErrorKind::compile;
    case Outcome::timeout: return ErrorKind::timeout;
    case Outcome::runtime: return ErrorKind::runtime;
    case Outcome::correctness: return ErrorKind::correctness;
    case Outcome::untested:
    case Outcome::correct: break;
  }
  return std::nullopt;
}

/// The newest measurement of a candidate with cold L2; on one device, or device times of any when `device` is empty.
Result<std::optional<db::MeasurementRecord>> newest(const db::Store& store, const Hash128& candidate,
                                                    const std::string& device) {
  STITCH_ASSIGN(auto measurements, store.list_measurements(candidate));  // oldest first
  for (auto measurement = measurements.rbegin(); measurement != measurements.rend(); ++measurement) {
    const bool wanted =
        device.empty() ? measurement->kind == db::MeasurementRecord::Kind::device_time : measurement->device == device;
    if (wanted && measurement->cold_l2 && measurement->summary.median > 0)
      return std::optional(std::move(*measurement));
  }
  return std::optional<db::MeasurementRecord>();
}

Result<std::vector<db::Candidate>> candidates_of(const db::Store& store, const db::PlanKey& key) {
  db::CandidateFilter filter;
  filter.fragment = key.fragment;
  filter.target = key.target;
  STITCH_ASSIGN(auto listing, store.list_candidates(filter, {.limit = most_candidates, .newest_first = true}));
  std::erase_if(listing.items, [](const db::Candidate& c) { return c.scope != db::Candidate::Scope::kernel; });
  return std::move(listing.items);
}

}  // namespace

std::string schedule_document(const Hash128& kernel, const Hash128& schedule) {
  return fmt::format(R"({{"kernel":"{}","schedule":"{}"}})", kernel.hex(), schedule.hex());
}

Result<FragmentHistory> FragmentHistory::read(const db::Store& store, const db::PlanKey& key, const Hash128& family,
                                              const std::string& device) {
  FragmentHistory history;
  STITCH_ASSIGN(const auto own, candidates_of(store, key));
  for (const db::Candidate& candidate : own) {
    STITCH_ASSIGN(const CandidateName name, name_of(candidate));
    KnownTrial trial;
    trial.schedule = name.schedule;
    trial.outcome.failure = failure_of(candidate.outcome);
    if (!trial.outcome.failure) {
      STITCH_ASSIGN(const auto measured, newest(store, candidate.schedule_hash, device));
      if (!measured) continue;
      trial.outcome.time_us = measured->summary.median;
    }
    history.own_[name.kernel].push_back(std::move(trial));
  }

  db::PlanFilter measured_plans;
  measured_plans.family = family;
  measured_plans.label = db::Label::measured;
  measured_plans.status = db::PlanStatus::incumbent;
  STITCH_ASSIGN(const auto plans, store.list_plans(measured_plans, {.limit = most_neighbours, .newest_first = true}));
  for (const db::PlanRecord& plan : plans.items) {
    if (plan.key == key) continue;
    STITCH_ASSIGN(const auto candidates, candidates_of(store, plan.key));
    for (const db::Candidate& candidate : candidates) {
      if (candidate.outcome != Outcome::correct) continue;
      STITCH_ASSIGN(const auto measured, newest(store, candidate.schedule_hash, ""));
      if (!measured) continue;
      STITCH_ASSIGN(auto facts, facts_in(measured->conditions));
      if (!facts || facts->feature_set != costmodel::feature_set_hash()) continue;
      STITCH_ASSIGN(const CandidateName name, name_of(candidate));
      KnownTrial trial;
      trial.schedule = name.schedule;
      trial.outcome.time_us = measured->summary.median;
      trial.analytical_us = facts->row.analytical_us;
      trial.features = std::move(facts->row.features);
      trial.plan = plan.id;
      history.near_[facts->family].push_back(std::move(trial));
    }
  }
  return history;
}

KernelHistory FragmentHistory::of(const Hash128& kernel, const Hash128& family) const {
  KernelHistory history;
  if (const auto own = own_.find(kernel); own != own_.end()) history.own = own->second;
  if (const auto near = near_.find(family); near != near_.end()) history.near = near->second;
  return history;
}

}  // namespace stitch::tuning
