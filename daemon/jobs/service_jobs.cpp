#include <nlohmann/json.hpp>

#include "daemon/jobs/service.h"
#include "graph/codec/codec.h"
#include "tuning/models/model_search.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/record_summary.h"

// What background jobs do. Each may be interrupted anywhere and started again: every fragment is stored as soon as it
// is tuned, and one that is settled is not tuned again.
namespace stitch::daemon {
namespace {

using Json = nlohmann::json;

struct Payload {
  Hash128 subject;
  std::string name;
  std::int64_t trials = 0;
};

/// What enqueue wrote: {"fragment" or "model": hash, "name": text}, and "trials" if any were asked for.
Result<Payload> read_payload(const db::Job& job, const char* subject) {
  const auto document = graph::parse_document(job.payload, graph::Encoding::json);
  if (!document) return document.error().within(fmt::format("payload of job {}", job.id));
  const auto hash = Hash128::from_hex(document->value(subject, std::string()));
  if (!hash) return make_error(ErrorKind::corrupt, "payload of job {}: no {}", job.id, subject);
  return Payload{*hash, document->value("name", std::string()), document->value("trials", std::int64_t{0})};
}

}  // namespace

Status Service::tune_and_keep(const graph::Graph& canonical, const Hash128& key, const std::string& name,
                              const search::FusionPlan& plan, const tuning::ProgressSink& progress,
                              const std::stop_token& stop) {
  const Result<tuning::TunedFragment> tuned = tuned_->tune(canonical, key, name, progress, stop, &plan);
  if (tuned) return tuned_->keep(*tuned);
  const ErrorKind kind = tuned.error().kind;
  if (kind != ErrorKind::cancelled) note_failure(key);
  if (kind == ErrorKind::correctness || kind == ErrorKind::runtime)
    STITCH_TRY(tuned_->withdraw_unverified(key, tuned.error().message));
  return tuned.error();
}

Result<std::string> Service::tune_fragment_job(const JobContext& context) {
  STITCH_ASSIGN(const Payload payload, read_payload(context.job(), "fragment"));
  const bool searches = payload.trials > 0;
  if (searches || !tuned_->is_settled(payload.subject)) {
    STITCH_ASSIGN(const db::Fragment fragment, store_.get_fragment(payload.subject));
    STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
    const Result<search::FusionPlan> plan = tuner_.explore(graph);
    if (!plan) {
      note_failure(payload.subject);
      return plan.error();
    }
    const auto part = [&](double from, double until) {
      return [&context, from, until](const tuning::Progress& p) {
        context.report({p.stage, from + (until - from) * p.share, p.detail});
      };
    };
    const auto tune = [&](const tuning::ProgressSink& progress) {
      return tune_and_keep(graph, payload.subject, payload.name, *plan, progress, context.stop());
    };
    // Somebody may wait for a plan that is measured at all. Where plans cannot be compared, the first one stays, and so
    // it is made last.
    if (!tuned_->is_settled(payload.subject) && (!searches || tuner_.measures_plans()))
      STITCH_TRY(tune(part(0, searches ? 0.4 : 1)));
    if (searches) {
      std::vector<tuning::ModelKernel> kernels;
      tuning::add_kernels(*plan, {nullptr, payload.subject, fragment.family, &graph, payload.name, 1}, kernels);
      STITCH_ASSIGN(
          const tuning::ModelSearch found,
          tuning::search_kernels(kernels, tuner_, tuned_.get(), payload.trials, part(0.4, 0.9), context.stop()));
      if (!found.changed.empty() || !tuned_->is_settled(payload.subject)) STITCH_TRY(tune(part(0.9, 1)));
    }
    STITCH_TRY(enqueue_training());
    STITCH_TRY(enqueue_pruning());
  }
  STITCH_ASSIGN(const db::Lookup served, store_.find_plan(key_of(payload.subject), {}));
  Json result = {{"fragment", payload.subject.hex()}};
  if (served.plan) result["plan"] = served.plan->id.hex();
  return result.dump();
}

Result<std::string> Service::tune_model_job(const JobContext& context) {
  STITCH_ASSIGN(const Payload payload, read_payload(context.job(), "model"));
  STITCH_ASSIGN(const db::Artifact model, store_.get_artifact(payload.subject));
  const auto report = [&](const tuning::Progress& progress) { context.report(progress); };
  STITCH_ASSIGN(const tuning::ModelTuning tuning, tuning::tune_model(model.bytes, payload.name, tuner_, report,
                                                                     context.stop(), tuned_.get(), payload.trials));
  STITCH_TRY(enqueue_training());
  STITCH_TRY(enqueue_pruning());
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
