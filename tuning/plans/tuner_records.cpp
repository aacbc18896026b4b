#include <set>

#include "api/plan_document.h"
#include "base/version.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/traffic.h"
#include "kernel/program/schedule_hash.h"
#include "tuning/kernels/training_samples.h"
#include "tuning/plans/measurement_record.h"
#include "tuning/plans/tuner_state.h"

// What a tuner found, as the store keeps it.
namespace stitch::tuning {
namespace {

std::string launch_document(const codegen::GeneratedKernel& kernel) {
  return fmt::format(R"({{"blocks":{},"threads":{},"cluster":{},"shared_bytes":{},"cooperative":{}}})", kernel.blocks,
                     kernel.threads, kernel.cluster, kernel.shared_bytes, kernel.cooperative);
}

/// Argument table of one launch, as the store keeps it: [["parameter",0],["integer",768]].
std::string arguments_document(const api::KernelLaunch& launch) {
  std::string text = "[";
  for (const api::LaunchArgument& argument : launch.arguments) {
    text += fmt::format(R"({}["{}",{}])", text.size() == 1 ? "" : ",", api::to_string(argument.kind), argument.value);
  }
  return text + "]";
}

/// What compiling a candidate told of its time, as the store keeps it.
std::string estimate_document(const BuiltKernel& built) {
  return fmt::format(R"({{"compiled_us":{:.4f},"registers":{},"machine_code":{}}})", built.estimated_us,
                     built.compiled.resources.registers, built.machine_code.has_value());
}

}  // namespace

Result<db::Fragment> Tuner::State::describe(const graph::Graph& canonical, std::string_view name) const {
  STITCH_ASSIGN(const auto form, graph::canonicalise(canonical));
  db::Fragment fragment;
  fragment.key = form.key;
  fragment.family = form.family_key;
  fragment.name = name;
  fragment.graph = graph::encode(canonical, graph::Encoding::cbor);
  fragment.operator_count = graph::operator_count(canonical);
  fragment.parameter_bytes = graph::interface_bytes(canonical);
  fragment.provenance = provenance("", "");
  return fragment;
}

/// Keeps what became of a kernel's candidates.
void Tuner::State::record_trials(const Hash128& fragment, const search::ExploredKernel& kernel,
                                 std::span<const Trial> trials, bool verified, std::vector<db::Candidate>& candidates,
                                 std::vector<db::Measurement>& measurements) const {
  std::optional<Hash128> family;  // the same for all; a kernel without a canonical form could not have been explored
  if (timer != nullptr) {
    if (const auto form = graph::canonicalise(kernel.graph)) family = form->family_key;
  }
  for (const Trial& trial : trials) {
    db::Candidate candidate;
    candidate.key = {fragment, target};
    candidate.scope = db::Candidate::Scope::kernel;
    const search::StitchCandidate& scheduled = *trial.candidate.scheduled;
    candidate.schedule = schedule_document(kernel.key, kernel::schedule_hash(scheduled.schedule));
    candidate.schedule_hash = hash_bytes(candidate.schedule);
    candidate.outcome = trial.failure ? db::outcome_of(trial.failure->kind)
                        : verified    ? db::Outcome::correct
                                      : db::Outcome::untested;
    if (trial.failure)
      candidate.detail = trial.failure->message;
    else
      candidate.detail = estimate_document(*trial.built);
    candidate.seed = options.verify.seed;
    candidate.predicted_us = scheduled.predicted_us;
    if (trial.built && trial.built->verification) candidate.verified_share = trial.built->verification->share;
    candidate.provenance = provenance(verified ? fmt::format("verified on {}", verifier()) : "compiled", verifier());
    if (trial.built && trial.built->measurement) {
      const std::string& on = timer->identity().key;
      db::Measurement record = to_record(*trial.built->measurement, db::Measurement::Subject::schedule,
                                         candidate.schedule_hash, on, provenance("measured", on));
      // Cost models are trained on it.
      if (family) {
        auto compiled = compiled_facts(trial.built->compiled.resources, trial.built->generated.shared_bytes);
        if (trial.built->machine_code) compiled.machine_code = &*trial.built->machine_code;
        record.conditions =
            with_facts(record.conditions, {device.name, kernel.key, *family, costmodel::feature_set_hash(),
                                           candidate_row(kernel.graph, scheduled, device, &compiled)});
      }
      measurements.push_back(std::move(record));
    }
    candidates.push_back(std::move(candidate));
  }
}

void Tuner::State::record(const search::FusionPlan& fusion,
                          const std::vector<std::shared_ptr<const BuiltKernel>>& built, bool verified,
                          const std::optional<Hash128>& neighbour, TunedFragment& tuned) const {
  const std::string predicted =
      neighbour ? "schedules by what was measured of plan " + neighbour->hex() : "predicted by " + scorer_name;
  const db::Provenance origin = verified
                                    ? provenance(fmt::format("verified on {}, {}", verifier(), predicted), verifier())
                                    : provenance(predicted, "");
  std::set<Hash128> known;
  const auto artifact = [&](db::Artifact::Kind kind, const std::string& bytes) {
    const Hash128 hash = hash_bytes(bytes);
    if (known.insert(hash).second) tuned.bundle.artifacts.push_back({hash, kind, bytes, origin});
    return hash;
  };
  double share = built.empty() ? 1.0 : 0.0, weight = 0;
  std::set<Hash128> distinct;
  for (std::size_t launch = 0; launch < built.size(); ++launch) {
    const BuiltKernel& one = *built[launch];
    const codegen::ResourceUsage& used = one.compiled.resources;
    db::Kernel kernel;
    kernel.name = one.generated.name;
    kernel.architecture = one.compiled.architecture;
    kernel.options = "--prec-div=false --prec-sqrt=false";
    kernel.source = artifact(db::Artifact::Kind::source, one.generated.source);
    kernel.ptx = artifact(db::Artifact::Kind::ptx, one.compiled.ptx);
    kernel.cubin = artifact(db::Artifact::Kind::cubin, one.compiled.cubin);
    kernel.launch = launch_document(one.generated);
    kernel.resources = {used.registers, used.shared_bytes, used.stack_bytes, used.spill_store_bytes,
                        used.spill_load_bytes};
    kernel.provenance = origin;
    kernel.hash = db::kernel_hash(kernel);
    tuned.bundle.plan.steps.push_back({kernel.hash, arguments_document(tuned.plan.launches[launch])});
    if (distinct.insert(kernel.hash).second) tuned.bundle.kernels.push_back(kernel);
    const double bytes = std::max<std::int64_t>(1, tuned.plan.launches[launch].bytes);
    share += bytes * (one.verification ? one.verification->share : 0.0);
    weight += bytes;
    const search::ExploredKernel& explored = *fusion.kernels[launch].kernel;
    tuned.kernels.push_back({explored.key, one.generated.name, one.generated.source, used,
                             tuned.plan.launches[launch].predicted_us, one.estimated_us, one.candidate.place,
                             static_cast<int>(explored.candidates.size()), one.overtaken, one.verification,
                             one.measurement});
  }
  api::Plan& plan = tuned.plan;
  plan.fragment = tuned.fragment.key;
  plan.target = {target.device, target.architecture, target.toolkit, target.version};
  plan.label = db::to_string(neighbour ? db::Label::near : db::Label::predicted);
  plan.verified_share = weight > 0 ? share / weight : share;
  plan.judged = origin.judged;
  db::Plan& stored = tuned.bundle.plan;
  stored.key = {tuned.fragment.key, target};
  stored.document = api::plan_document(plan);
  stored.bytes = plan.bytes;
  stored.label = neighbour ? db::Label::near : db::Label::predicted;
  stored.neighbour = neighbour;
  stored.predicted_us = plan.predicted_us;
  stored.verified_share = plan.verified_share;
  stored.provenance = origin;
  stored.id = db::plan_id(stored);
  plan.id = stored.id;
}

}  // namespace stitch::tuning
