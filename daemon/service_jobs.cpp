#include <nlohmann/json.hpp>

#include "daemon/admission.h"
#include "daemon/model_tuning.h"
#include "daemon/service.h"
#include "graph/codec.h"

// What background jobs do. Each may be interrupted anywhere and started again: every fragment is stored as soon as it
// is tuned, and one that is settled is not tuned again.
namespace stitch::daemon {
namespace {

using Json = nlohmann::json;

struct Payload {
  Hash128 subject;
  std::string name;
};

/// What enqueue wrote: {"fragment" or "model": hash, "name": text}.
Result<Payload> read_payload(const db::Job& job, const char* subject) {
  const auto document = graph::parse_document(job.payload, graph::Encoding::json);
  if (!document) return document.error().within(fmt::format("payload of job {}", job.id));
  const auto hash = Hash128::from_hex(document->value(subject, std::string()));
  if (!hash) return make_error(ErrorKind::corrupt, "payload of job {}: no {}", job.id, subject);
  return Payload{*hash, document->value("name", std::string())};
}

/// Whether tuning found kernels that give wrong results or fault. What was predicted before may be made of them.
bool found_wrong_kernels(const TunedFragment& tuned) {
  for (const db::Candidate& candidate : tuned.candidates) {
    using db::Outcome;
    if (candidate.outcome == Outcome::correctness || candidate.outcome == Outcome::runtime) return true;
  }
  return false;
}

}  // namespace

/// Stores a fragment with its plan, what was found out about candidates, and who is served from now on.
Status Service::store_tuned(const TunedFragment& tuned) {
  const db::Plan& plan = tuned.bundle.plan;
  STITCH_TRY(store_.put_fragment(tuned.fragment));
  STITCH_ASSIGN(const db::Lookup before, store_.find_plan(plan.key, {}));
  const AdmissionRuling ruling = rule_on(before.plan, plan);
  STITCH_ASSIGN(const db::PutPlan put, store_.put_plan(tuned.bundle, ruling.admission));
  if (!put.inserted && plan.verified_share > 0) {
    STITCH_TRY(store_.judge_plan(
        put.id, {plan.label, plan.predicted_us, plan.verified_share, plan.neighbour, plan.provenance}));
  }
  STITCH_TRY(store_.record_candidates(tuned.candidates));
  const bool suspect = before.plan && before.plan->id != put.id && before.plan->verified_share <= 0;
  if (suspect && plan.verified_share > 0 && found_wrong_kernels(tuned)) {
    STITCH_TRY(store_.withdraw(before.plan->id, "tuning found wrong kernels in it", provenance("verification")));
  }
  return {};
}

/// Takes out of service what was predicted for the key and then found to be wrong.
Status Service::withdraw_unverified(const db::PlanKey& key, std::string_view reason) {
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan(key, {}));
  if (!served.plan || served.plan->verified_share > 0) return {};
  return store_.withdraw(served.plan->id, reason, provenance("verification"));
}

bool Service::is_settled(const Hash128& fragment) const {
  const auto served = store_.find_plan(key_of(fragment), {});
  return served && served->plan && served->plan->verified_share > 0;
}

Result<std::string> Service::tune_fragment_job(const JobContext& context) {
  STITCH_ASSIGN(const Payload payload, read_payload(context.job(), "fragment"));
  const db::PlanKey key = key_of(payload.subject);
  if (!is_settled(payload.subject)) {
    STITCH_ASSIGN(const db::Fragment fragment, store_.get_fragment(payload.subject));
    STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
    const auto report = [&](const Progress& progress) { context.report(progress); };
    const Result<TunedFragment> tuned = tuner_.tune(graph, payload.name, report, context.stop());
    if (!tuned) {
      const ErrorKind kind = tuned.error().kind;
      if (kind != ErrorKind::cancelled) note_failure(payload.subject);
      if (kind == ErrorKind::correctness || kind == ErrorKind::runtime) {
        STITCH_TRY(withdraw_unverified(key, tuned.error().message));
      }
      return tuned.error();
    }
    STITCH_TRY(store_tuned(*tuned));
  }
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan(key, {}));
  Json result = {{"fragment", payload.subject.hex()}};
  if (served.plan) result["plan"] = served.plan->id.hex();
  return result.dump();
}

Result<std::string> Service::tune_model_job(const JobContext& context) {
  STITCH_ASSIGN(const Payload payload, read_payload(context.job(), "model"));
  STITCH_ASSIGN(const db::Artifact model, store_.get_artifact(payload.subject));
  const auto report = [&](const Progress& progress) { context.report(progress); };
  const auto store = [&](const TunedFragment& tuned, std::int64_t) { return store_tuned(tuned); };
  const auto settled = [&](const Hash128& fragment) { return is_settled(fragment); };
  STITCH_ASSIGN(ModelTuning tuning,
                tune_model(model.bytes, payload.name, tuner_, report, context.stop(), store, settled));
  // A fragment that no plan could be made for is in the report, but not in the store.
  std::erase_if(tuning.workload.parts,
                [&](const db::Workload::Part& part) { return !store_.get_fragment(part.fragment).ok(); });
  tuning.workload.provenance = provenance("tuned");
  STITCH_TRY(store_.put_workload(tuning.workload));
  return to_json(tuning.report);
}

}  // namespace stitch::daemon
