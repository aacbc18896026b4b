#include "tuning/plans/remembering_tuner.h"

#include "base/version.h"
#include "graph/codec/codec.h"
#include "tuning/devices/calibrated_device.h"
#include "tuning/plans/admission.h"
#include "tuning/plans/plan_record.h"

namespace stitch::tuning {
namespace {

/// Whether tuning found kernels that give wrong results or fault. What was predicted before may be made of them.
bool found_wrong_kernels(const TunedFragment& tuned) {
  for (const db::Candidate& candidate : tuned.trials.candidates) {
    using db::Outcome;
    if (candidate.outcome == Outcome::correctness || candidate.outcome == Outcome::runtime) return true;
  }
  return false;
}

/// Errors: those of the store; corrupt (a document that is none); not_found (code that is not there).
Result<ServedPlan> with_code(const db::Store& store, const db::PlanRecord& record) {
  ServedPlan found;
  STITCH_ASSIGN(found.plan, plan_from_record(record));
  for (const api::KernelLaunch& launch : found.plan.launches) {
    STITCH_ASSIGN(db::Artifact ptx, store.get_artifact(launch.ptx));
    STITCH_ASSIGN(db::Artifact cubin, store.get_artifact(launch.cubin));
    found.images.push_back({launch.name, std::move(ptx.bytes), std::move(cubin.bytes), record.key.target.architecture});
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<RememberingTuner>> RememberingTuner::open(db::Store& store, const Tuner& tuner,
                                                                 const Clock& clock) {
  std::unique_ptr<RememberingTuner> opened(new RememberingTuner(store, tuner, clock));
  for (const profiler::DeviceIdentity& device : tuner.judges()) STITCH_TRY(opened->record(device));
  return opened;
}

Status RememberingTuner::record(const profiler::DeviceIdentity& device) {
  db::Device known;
  if (auto stored = store_.get_device(device.key)) known = std::move(*stored);
  db::Device record = device_record(device, std::move(known));
  record.provenance = provenance("present");
  record.provenance.device = device.key;
  return store_.put_device(record);
}

db::Provenance RememberingTuner::provenance(std::string_view judged) const {
  return {std::string(tool_version), tuner_.target().toolkit, tuner_.judges().front().key, clock_.wall_us(),
          std::string(judged)};
}

Result<TunedFragment> RememberingTuner::predict(PlanRequest request) const {
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner_.describe(request.fragment, request.name));
  STITCH_ASSIGN(const FragmentHistory known, history(fragment.key, fragment.family));
  request.history = &known;
  return tuner_.predict(request);
}

Result<TunedFragment> RememberingTuner::tune(PlanRequest request) {
  // Where no plan comes of it there is nothing else that would be kept.
  Status kept;
  request.failed = [&, told = request.failed](const db::FragmentRecord& failed, const TrialRecords& trials) {
    kept = keep(failed, trials);
    if (told) told(failed, trials);
  };
  Result<TunedFragment> tuned = tune_beside_known(std::move(request));
  return kept ? std::move(tuned) : kept.error();
}

Result<TunedFragment> RememberingTuner::tune_beside_known(PlanRequest request) const {
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner_.describe(request.fragment, request.name));
  if (!tuner_.measures()) {
    STITCH_ASSIGN(const FragmentHistory known, history(fragment.key, fragment.family));
    request.history = &known;
    return tuner_.tune(request);
  }
  const Result<std::optional<ServedPlan>> before_or_damage = served(fragment.key);
  // What is damaged cannot be compared with; what is stored now mends it or takes its place.
  const bool damaged = !before_or_damage && before_or_damage.error().kind == ErrorKind::corrupt;
  if (!before_or_damage && !damaged) return before_or_damage.error();
  if (damaged || !*before_or_damage) return tuner_.tune(request);
  const std::optional<ServedPlan>& before = *before_or_damage;
  const RunnablePlan incumbent{&request.fragment, &before->plan, before->images};
  request.incumbent = &incumbent;
  return tuner_.tune(request);
}

Status RememberingTuner::keep(const TunedFragment& tuned) {
  const db::PlanRecord& plan = tuned.bundle.plan;
  STITCH_TRY(store_.put_fragment(tuned.fragment));
  STITCH_ASSIGN(const db::Lookup before, store_.find_plan(plan.key, {}));
  const AdmissionRuling ruling = rule_on(before.plan, plan, tuned.comparison);
  STITCH_ASSIGN(const db::PutPlan put, store_.put_plan(tuned.bundle, ruling.admission));
  bool verified = plan.verified_share > 0;
  if (!put.inserted && compares_nothing(plan)) {
    STITCH_ASSIGN(const db::PlanRecord stored, store_.get_plan(put.id));
    verified = stored.verified_share <= 0;
  }
  if (!put.inserted && verified) {
    // That it is measured, the measurement in the bundle has said.
    const db::Label label = plan.label == db::Label::measured ? db::Label::predicted : plan.label;
    STITCH_TRY(
        store_.judge_plan(put.id, {label, plan.predicted_us, plan.verified_share, plan.neighbour, plan.provenance}));
  }
  STITCH_TRY(keep(tuned.trials));
  if (before.plan && before.plan->id == put.id) STITCH_TRY(announce_if_overtaking(*before.plan));
  const bool suspect = before.plan && before.plan->id != put.id && before.plan->verified_share <= 0;
  if (suspect && plan.verified_share > 0 && found_wrong_kernels(tuned)) {
    STITCH_TRY(store_.withdraw(before.plan->id, "tuning found wrong kernels in it", provenance("verification")));
  }
  return {};
}

/// What is served for the key has changed without a promotion where its incumbent is now as well founded as the plan of
/// another environment that was served in its place; those who run that one must be told.
Status RememberingTuner::announce_if_overtaking(const db::PlanRecord& before) {
  const auto standing = [](const db::PlanRecord& plan) {
    return standing_of(plan.verified_share, plan.label == db::Label::measured);
  };
  STITCH_ASSIGN(const db::PlanRecord now, store_.get_plan(before.id));
  if (now.status != db::PlanStatus::incumbent || standing(now) == standing(before)) return {};
  STITCH_ASSIGN(const std::optional<db::PlanRecord> stale, store_.find_stale_plan(now.key));
  if (!stale || standing(before) >= standing(*stale) || standing(now) < standing(*stale)) return {};
  const auto announced =
      store_.announce(now.id, "as well founded as the plan of another environment", provenance("verification"));
  return announced ? Status() : Status(announced.error());
}

Status RememberingTuner::keep(const TrialRecords& trials) {
  STITCH_TRY(store_.record_candidates(trials.candidates));
  for (const db::MeasurementRecord& measurement : trials.measurements) {
    STITCH_ASSIGN(const Hash128 id, store_.record_measurement(measurement));
    (void)id;
  }
  return {};
}

Status RememberingTuner::keep(const db::FragmentRecord& fragment, const TrialRecords& trials) {
  STITCH_TRY(store_.put_fragment(fragment));
  return keep(trials);
}

Status RememberingTuner::keep_call(const graph::Graph& call, const Result<profiler::MeasuredCall>& measured) {
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner_.describe(call, "a library's call"));
  return keep(fragment, call_records({fragment.key, tuner_.target()}, measured, tuner_.judges().back().key,
                                     provenance("measured")));
}

Result<std::optional<CallTime>> RememberingTuner::call_time(const graph::Graph& call) const {
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner_.describe(call, ""));
  STITCH_ASSIGN(const bool same, is_stored_as(fragment.key, call));
  if (!same) return std::optional<CallTime>();
  // Whoever measures has times of its own; others take those of any GPU of the class.
  const std::string device = tuner_.measures() ? tuner_.judges().back().key : std::string();
  return stored_call(store_, {fragment.key, tuner_.target()}, device);
}

Result<FragmentHistory> RememberingTuner::history(const Hash128& fragment, const Hash128& family) const {
  return FragmentHistory::read(store_, {fragment, tuner_.target()}, family, tuner_.judges().back().key);
}

Status RememberingTuner::keep(db::Workload workload) {
  std::erase_if(workload.parts,
                [&](const db::Workload::Part& part) { return !store_.get_fragment(part.fragment).ok(); });
  workload.provenance = provenance("tuned");
  return store_.put_workload(workload);
}

bool RememberingTuner::is_settled(const Hash128& fragment) const {
  const auto served = store_.find_plan({fragment, tuner_.target()}, {});
  if (!served || !served->plan) return false;
  const db::PlanRecord& plan = *served->plan;
  return is_settled(plan.verified_share > 0 || compares_nothing(plan), plan.label == db::Label::measured);
}

bool RememberingTuner::is_settled(const api::Plan& served) const {
  return is_settled(served.verified_share > 0, served.label == to_string(db::Label::measured));
}

bool RememberingTuner::is_settled(bool verified, bool measured) const {
  return verified && (measured || !tuner_.measures());
}

bool RememberingTuner::has_plan(const Hash128& fragment) const {
  const auto served = store_.find_plan({fragment, tuner_.target()}, {});
  return served && served->plan;
}

Result<bool> RememberingTuner::is_stored_as(const Hash128& fragment, const graph::Graph& graph) const {
  const auto stored = store_.get_fragment(fragment);
  if (!stored && stored.error().kind != ErrorKind::not_found) return stored.error();
  if (!stored) return true;
  const std::string bytes = graph::encode(graph, graph::Encoding::cbor);
  if (bytes == stored->graph) return true;
  // Another version of Stitch may have written other bytes.
  const auto before = graph::decode(stored->graph, graph::Encoding::cbor);
  return before && graph::encode(*before, graph::Encoding::cbor) == bytes;
}

Result<std::optional<api::Plan>> RememberingTuner::plan_of(const Hash128& fragment) const {
  STITCH_ASSIGN(const db::Lookup found, store_.find_plan({fragment, tuner_.target()}, {}));
  if (!found.plan) return std::optional<api::Plan>();
  STITCH_ASSIGN(api::Plan plan, plan_from_record(*found.plan));
  return std::optional(std::move(plan));
}

Result<std::optional<api::Plan>> RememberingTuner::stale(const Hash128& fragment, const api::Plan* own) const {
  const auto standing = [](const api::Plan& plan) {
    return standing_of(plan.verified_share, plan.label == to_string(db::Label::measured));
  };
  STITCH_ASSIGN(const std::optional<db::PlanRecord> other, store_.find_stale_plan({fragment, tuner_.target()}));
  if (!other) return std::optional<api::Plan>();
  STITCH_ASSIGN(api::Plan plan, plan_from_record(*other));
  if (own != nullptr && standing(*own) >= standing(plan)) return std::optional<api::Plan>();
  return std::optional(std::move(plan));
}

Result<std::optional<ServedPlan>> RememberingTuner::served(const Hash128& fragment) const {
  STITCH_ASSIGN(const db::Lookup found, store_.find_plan({fragment, tuner_.target()}, {}));
  if (!found.plan) return std::optional<ServedPlan>();
  STITCH_ASSIGN(ServedPlan served, with_code(store_, *found.plan));
  return std::optional(std::move(served));
}

Result<std::optional<ServedPlan>> RememberingTuner::stored(const Hash128& plan) const {
  const Result<db::PlanRecord> record = store_.get_plan(plan);
  if (record && record->status == db::PlanStatus::withdrawn)
    return make_error(ErrorKind::constraint, "it was withdrawn: what it computes was found to be wrong");
  Result<ServedPlan> found = record ? with_code(store_, *record) : record.error();
  if (found) return std::optional(*std::move(found));
  const ErrorKind why = found.error().kind;
  if (why != ErrorKind::not_found && why != ErrorKind::corrupt) return found.error();
  return std::optional<ServedPlan>();
}

Status RememberingTuner::withdraw_unverified(const Hash128& fragment, std::string_view reason) {
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan({fragment, tuner_.target()}, {}));
  if (!served.plan || served.plan->verified_share > 0) return {};
  return store_.withdraw(served.plan->id, reason, provenance("verification"));
}

}  // namespace stitch::tuning
