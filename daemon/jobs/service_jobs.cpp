#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/jobs/service.h"
#include "graph/codec/codec.h"
#include "tuning/models/model_search.h"
#include "tuning/models/model_tuning.h"
#include "tuning/models/tuning_steps.h"
#include "tuning/plans/fault_report.h"
#include "tuning/plans/record_summary.h"

// What background jobs do. Each may be interrupted anywhere and started again: every fragment is stored as soon as it
// is tuned, and one that is settled is not tuned again.
namespace stitch::daemon {
namespace {

using Json = nlohmann::json;

template <class Subject>
struct Payload {
  Subject subject;  ///< key of a fragment, or name of an upload
  std::string name;
  std::int64_t trials = 0;
  std::string device;                ///< class of GPUs; empty: the server's own
  std::optional<Hash128> mend = {};  ///< a plan of the fragment with a damaged artifact
  std::string constraints = {};      ///< of a model; a fragment has its own
};

/// What enqueue wrote: {"fragment" or "model": hash, "name": text}, "trials" if any were asked for, "device" if it is
/// not the server's own, "mend" with a plan that is damaged, "constraints" on a model if there are any.
template <class Subject>
Result<Payload<Subject>> read_payload(const db::Job& job, const char* subject) {
  const auto document = graph::parse_document(job.payload, graph::Encoding::json);
  if (!document) return document.error().within(fmt::format("payload of job {}", job.id));
  const auto hash = Subject::from_hex(document->value(subject, std::string()));
  if (!hash) return make_error(ErrorKind::corrupt, "payload of job {}: no {}", job.id, subject);
  return Payload<Subject>{*hash,
                          document->value("name", std::string()),
                          document->value("trials", std::int64_t{0}),
                          document->value("device", std::string()),
                          Hash128::from_hex(document->value("mend", std::string())),
                          document->value("constraints", std::string())};
}

}  // namespace

Status Service::tune_and_keep(const Planner& planner, const Hash128& key, tuning::PlanRequest request) {
  request.failed = [&](const db::FragmentRecord&, const tuning::TrialRecords& trials) { count_faults(trials); };
  const Result<tuning::TunedFragment> tuned = planner.remembering->tune(request);
  if (tuned) {
    count_faults(tuned->trials);
    return planner.remembering->keep(*tuned);
  }
  const ErrorKind kind = tuned.error().kind;
  if (kind != ErrorKind::cancelled) note_failure(planner.key_of(key));
  if (kind == ErrorKind::correctness || kind == ErrorKind::runtime)
    STITCH_TRY(planner.remembering->withdraw_unverified(key, tuned.error().message));
  return tuned.error();
}

void Service::count_faults(const tuning::TrialRecords& trials) {
  metrics_.count_wrong_kernels(std::ranges::count_if(trials.candidates, tuning::is_fault, &db::Candidate::outcome));
}

/// What follows any tuning: cost models and the store are kept up.
Status Service::enqueue_chores() {
  STITCH_TRY(enqueue_training());
  return enqueue_pruning();
}

Status Service::tune_fragment(const Planner& planner, const JobContext& context, const Hash128& key,
                              const std::string& name, std::int64_t trials) {
  STITCH_ASSIGN(const db::FragmentRecord fragment, store_.get_fragment(key));
  STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
  const tuning::ProgressSink report = [&](const tuning::Progress& progress) { context.report(progress); };
  if (planner.tuner.is_product(graph)) {
    if (planner.remembering->is_settled(key)) return {};
    return tune_and_keep(planner, key, {.fragment = graph, .name = name, .progress = report, .stop = context.stop()});
  }
  const Result<search::FusionPlan> plan = planner.tuner.explore(graph, context.stop());
  if (!plan) {
    if (plan.error().kind != ErrorKind::cancelled) note_failure(planner.key_of(key));
    return plan.error();
  }
  const auto tune = [&](double from, double until, const std::set<Hash128>& changed) -> Status {
    if (changed.empty() && planner.remembering->is_settled(key)) return {};
    return tune_and_keep(planner, key,
                         {.fragment = graph,
                          .name = name,
                          .plan = &*plan,
                          .progress = tuning::part_of(report, from, until),
                          .stop = context.stop()});
  };
  const auto search = [&](double from, double until) -> Result<std::set<Hash128>> {
    std::vector<tuning::ModelKernel> kernels;
    tuning::add_kernels(*plan, {nullptr, key, fragment.family, &graph, name, 1}, kernels);
    const tuning::ProgressSink progress = tuning::part_of(report, from, until);
    STITCH_ASSIGN(tuning::ModelSearch found, tuning::search_kernels(kernels, planner.tuner, planner.remembering.get(),
                                                                    trials, progress, context.stop()));
    return std::move(found.changed);
  };
  return tuning::take_steps({tune, search}, {.trials = trials, .compares_plans = planner.tuner.measures_plans()});
}

/// Tuning makes the same kernels again, as a rule, and storing them mends what is damaged. A plan that is still damaged
/// then was made by another generator: it cannot be run, and is served no longer. Likewise one for GPUs that this
/// server does not plan for.
Status Service::mend_plan(std::string_view device, const JobContext& context, const Hash128& key, const Hash128& plan) {
  const auto withdraw = [&](const std::string& reason) {
    return store_.withdraw(plan, reason, remembering_->provenance("found damaged"));
  };
  const Result<const Planner*> named = planners_->named(device);
  if (!named) return withdraw(fmt::format("an artifact is damaged, and {}", named.error().message));
  const Planner& planner = **named;
  STITCH_ASSIGN(const db::FragmentRecord fragment, store_.get_fragment(key));
  STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
  const tuning::ProgressSink report = [&](const tuning::Progress& progress) { context.report(progress); };
  STITCH_TRY(tune_and_keep(planner, key,
                           {.fragment = graph, .name = fragment.name, .progress = report, .stop = context.stop()}));
  const auto whole = store_.get_plan_bundle(plan);
  if (whole || whole.error().kind != ErrorKind::corrupt) return {};
  STITCH_TRY(withdraw(whole.error().message));
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan(planner.key_of(key), {}));
  return served.plan ? Status() : predict_and_store(planner, graph, fragment.name, context.stop());
}

Result<std::string> Service::tune_fragment_job(const JobContext& context) {
  STITCH_ASSIGN(const auto payload, read_payload<Hash128>(context.job(), "fragment"));
  Json result = {{"fragment", payload.subject.hex()}};
  if (payload.mend) {
    STITCH_TRY(mend_plan(payload.device, context, payload.subject, *payload.mend));
    return result.dump();
  }
  STITCH_ASSIGN(const Planner* const planner, planners_->named(payload.device));
  if (payload.trials > 0 || !planner->remembering->is_settled(payload.subject)) {
    STITCH_TRY(tune_fragment(*planner, context, payload.subject, payload.name, payload.trials));
    STITCH_TRY(enqueue_chores());
  }
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan(planner->key_of(payload.subject), {}));
  if (served.plan) result["plan"] = served.plan->id.hex();
  STITCH_ASSIGN(const auto wrong, tuning::faults_of(store_, payload.subject));
  if (!wrong.empty()) result["fault"] = fmt::format("/v1/fragments/{}/fault", payload.subject.hex());
  return result.dump();
}

Result<std::string> Service::tune_model_job(const JobContext& context) {
  STITCH_ASSIGN(const auto payload, read_payload<Sha256>(context.job(), "model"));
  STITCH_ASSIGN(const db::Upload model, store_.get_upload(payload.subject));
  const auto report = [&](const tuning::Progress& progress) { context.report(progress); };
  import::ImportOptions asked;
  STITCH_ASSIGN(asked.constraints, graph::parse_constraints(payload.constraints));
  STITCH_ASSIGN(const tuning::ModelTuning tuning,
                tuning::tune_model(model.bytes, payload.name, tuner_, report, context.stop(), remembering_,
                                   payload.trials, asked));
  for (const auto& [outcome, count] : tuning.report.failed_candidates) {
    if (const auto known = db::outcome_of(outcome); known && tuning::is_fault(*known))
      metrics_.count_wrong_kernels(count);
  }
  STITCH_TRY(make_program(context, model, payload.name, asked.constraints, tuning.workload));
  STITCH_TRY(enqueue_chores());
  return tuning::to_json(tuning.report);
}

Result<std::string> Service::train_job(const JobContext& context) {
  context.report({"train", 0, "cost models"});
  STITCH_ASSIGN(const int stored, trainer_.train_if_due(context.stop()));
  return Json{{"cost_models", stored}}.dump();
}

Result<std::string> Service::prune_job() {
  const std::int64_t before = clock_.wall_us() - keep_us_;
  const std::lock_guard lock(models_mutex_);
  STITCH_ASSIGN(const db::PruneReport pruned, store_.prune({before, before, before}));
  pruned_us_ = clock_.wall_us();
  return tuning::summarise(pruned).dump();
}

}  // namespace stitch::daemon
