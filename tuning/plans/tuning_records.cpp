#include "tuning/plans/tuning_records.h"

#include <algorithm>
#include <set>

#include "api/plan_document.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/traffic.h"
#include "kernel/program/schedule_hash.h"
#include "tuning/kernels/training_samples.h"
#include "tuning/plans/measurement_record.h"

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

/// The measurement of a candidate with what cost models are trained on. `family`: of the kernel, where it is known.
db::MeasurementRecord measurement_record(const TuningContext& context, const search::ExploredKernel& kernel,
                                         const std::optional<Hash128>& family, const Hash128& schedule,
                                         const Trial& trial) {
  const BuiltKernel& built = *trial.built;
  const std::string& on = context.timer->identity().key;
  db::MeasurementRecord record = to_record(*built.measurement, db::MeasurementRecord::Subject::schedule, schedule, on,
                                           context.provenance("measured", on));
  if (!family) return record;
  auto compiled = compiled_facts(built.compiled.resources, built.generated.shared_bytes);
  if (built.machine_code) compiled.machine_code = &*built.machine_code;
  record.conditions = with_facts(record.conditions,
                                 {context.device.name, kernel.key, *family, costmodel::feature_set_hash(),
                                  candidate_row(kernel.graph, *trial.candidate.scheduled, context.device, &compiled)});
  return record;
}

/// Collects a plan's artifacts, each once.
class ArtifactList {
 public:
  ArtifactList(std::vector<db::Artifact>& artifacts, const db::Provenance& origin)
      : artifacts_(artifacts), origin_(origin) {}

  Sha256 add(db::Artifact::Kind kind, const std::string& bytes) {
    const Sha256 hash = sha256(bytes);
    if (known_.insert(hash).second) artifacts_.push_back({hash, kind, bytes, origin_});
    return hash;
  }

 private:
  std::vector<db::Artifact>& artifacts_;
  const db::Provenance& origin_;
  std::set<Sha256> known_;
};

db::Kernel kernel_record(const BuiltKernel& built, const db::Provenance& origin, ArtifactList& artifacts) {
  const codegen::ResourceUsage& used = built.compiled.resources;
  db::Kernel kernel;
  kernel.name = built.generated.name;
  kernel.architecture = built.compiled.architecture;
  kernel.options = "--prec-div=false --prec-sqrt=false";
  kernel.source = artifacts.add(db::Artifact::Kind::source, built.generated.source);
  kernel.ptx = artifacts.add(db::Artifact::Kind::ptx, built.compiled.ptx);
  kernel.cubin = artifacts.add(db::Artifact::Kind::cubin, built.compiled.cubin);
  kernel.launch = launch_document(built.generated);
  kernel.resources = {used.registers, used.shared_bytes, used.stack_bytes, used.spill_store_bytes,
                      used.spill_load_bytes};
  kernel.provenance = origin;
  kernel.hash = db::kernel_hash(kernel);
  return kernel;
}

/// How much of the plan's output was compared with the reference: the kernels' shares, weighted by what they move.
double verified_share_of(const std::vector<std::shared_ptr<const BuiltKernel>>& built, const api::Plan& plan) {
  if (built.empty()) return 1.0;
  double share = 0, weight = 0;
  for (std::size_t launch = 0; launch < built.size(); ++launch) {
    const double bytes = std::max<std::int64_t>(1, plan.launches[launch].bytes);
    share += bytes * (built[launch]->verification ? built[launch]->verification->share : 0.0);
    weight += bytes;
  }
  return share / weight;
}

}  // namespace

Result<db::FragmentRecord> fragment_record(const TuningContext& context, const graph::Graph& canonical,
                                           std::string_view name) {
  STITCH_ASSIGN(const auto form, graph::canonicalise(canonical));
  db::FragmentRecord fragment;
  fragment.key = form.key;
  fragment.family = form.family_key;
  fragment.name = name;
  fragment.graph = graph::encode(canonical, graph::Encoding::cbor);
  fragment.operator_count = graph::operator_count(canonical);
  fragment.parameter_bytes = graph::interface_bytes(canonical);
  fragment.provenance = context.provenance("", "");
  return fragment;
}

db::Candidate candidate_record(const TuningContext& context, const Hash128& fragment, const ScheduleTrial& trial,
                               bool verified) {
  db::Candidate candidate;
  candidate.key = {fragment, context.target};
  candidate.scope = db::Candidate::Scope::kernel;
  candidate.schedule = schedule_document(trial.kernel, trial.schedule);
  candidate.schedule_hash = hash_bytes(candidate.schedule);
  candidate.outcome = trial.failure ? db::outcome_of(trial.failure->kind)
                      : verified    ? db::Outcome::correct
                                    : db::Outcome::untested;
  candidate.detail = trial.failure ? trial.failure->message : estimate_document(*trial.built);
  candidate.seed = context.options.verify.seed;
  candidate.predicted_us = trial.predicted_us;
  if (trial.built != nullptr && trial.built->verification) candidate.verified_share = trial.built->verification->share;
  const std::string& verifier = context.verifier();
  candidate.provenance = context.provenance(verified ? fmt::format("verified on {}", verifier) : "compiled", verifier);
  return candidate;
}

void record_trials(const TuningContext& context, const Hash128& fragment, const search::ExploredKernel& kernel,
                   std::span<const Trial> trials, bool verified, TrialRecords& records) {
  std::optional<Hash128> family;  // the same for all; a kernel without a canonical form could not have been explored
  if (context.timer != nullptr) {
    if (const auto form = graph::canonicalise(kernel.graph)) family = form->family_key;
  }
  for (const Trial& trial : trials) {
    // That there was no device says nothing of the candidate.
    if (trial.failure && trial.failure->kind == ErrorKind::unavailable) continue;
    const search::StitchCandidate& scheduled = *trial.candidate.scheduled;
    db::Candidate candidate = candidate_record(context, fragment,
                                               {kernel.key, kernel::schedule_hash(scheduled.schedule),
                                                scheduled.predicted_us, trial.built.get(), trial.failure},
                                               verified);
    if (trial.built && trial.built->measurement) {
      records.measurements.push_back(measurement_record(context, kernel, family, candidate.schedule_hash, trial));
    }
    context.faults->note(candidate);
    records.candidates.push_back(std::move(candidate));
  }
}

void record_plan(const TuningContext& context, const ChosenKernels& chosen, TunedFragment& tuned) {
  const std::optional<Hash128>& neighbour = chosen.neighbour;
  const std::string& model = chosen.predicted_by.empty() ? context.scorer_name : chosen.predicted_by;
  const std::string predicted =
      neighbour ? "schedules by what was measured of plan " + neighbour->hex() : "predicted by " + model;
  const std::string& verifier = context.verifier();
  const db::Provenance origin =
      chosen.verified ? context.provenance(fmt::format("verified on {}, {}", verifier, predicted), verifier)
                      : context.provenance(predicted, "");
  ArtifactList artifacts(tuned.bundle.artifacts, origin);
  std::set<Hash128> distinct;
  for (std::size_t launch = 0; launch < chosen.built.size(); ++launch) {
    const BuiltKernel& built = *chosen.built[launch];
    const api::KernelLaunch& launched = tuned.plan.launches[launch];
    const db::Kernel kernel = kernel_record(built, origin, artifacts);
    tuned.bundle.plan.steps.push_back({kernel.hash, arguments_document(launched)});
    if (distinct.insert(kernel.hash).second) tuned.bundle.kernels.push_back(kernel);
    const ChosenKernels::Origin& from = chosen.kernels[launch];
    tuned.kernels.push_back({from.key, built.generated.name, built.generated.source, built.compiled.resources,
                             launched.predicted_us, built.estimated_us, built.candidate.place,
                             std::max(from.candidates, built.candidate.place + 1), built.overtaken,
                             built.equal_within_us, spills_in_loop(built), built.verification, built.measurement});
  }
  const db::Label label = neighbour ? db::Label::near : db::Label::predicted;
  api::Plan& plan = tuned.plan;
  plan.fragment = tuned.fragment.key;
  plan.target = {context.target.device, context.target.architecture, context.target.toolkit, context.target.version};
  plan.label = db::to_string(label);
  plan.verified_share = verified_share_of(chosen.built, plan);
  plan.judged = origin.judged;
  db::PlanRecord& stored = tuned.bundle.plan;
  stored.key = {tuned.fragment.key, context.target};
  stored.document = api::plan_document(plan);
  stored.bytes = plan.bytes;
  stored.label = label;
  stored.neighbour = neighbour;
  stored.predicted_us = plan.predicted_us;
  stored.verified_share = plan.verified_share;
  stored.provenance = origin;
  stored.id = db::plan_id(stored);
  plan.id = stored.id;
}

}  // namespace stitch::tuning
