#include "db/records.h"

#include <set>

#include "db/validation.h"
#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<Artifact::Kind, 7> artifact_words{{"source", "ptx", "cubin", "graph", "model", "log", "recording"}};
constexpr Words<Label, 4> label_words{{"measured", "near", "predicted", "default"}};
constexpr Words<PlanStatus, 4> status_words{{"challenger", "incumbent", "superseded", "withdrawn"}};

// Part of the hashes: raised when they would come out differently for the same record.
constexpr std::uint64_t identity_version = 1;

std::uint64_t word(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

std::string_view to_string(Artifact::Kind kind) { return artifact_words.of(kind); }
std::string_view to_string(Label label) { return label_words.of(label); }
std::string_view to_string(PlanStatus status) { return status_words.of(status); }
std::optional<Artifact::Kind> artifact_kind_of(std::string_view text) { return artifact_words.find(text); }
std::optional<Label> label_of(std::string_view text) { return label_words.find(text); }
std::optional<PlanStatus> plan_status_of(std::string_view text) { return status_words.find(text); }

Hash128 kernel_hash(const Kernel& kernel) {
  Hasher hasher;
  hasher.text("kernel").integer(identity_version);
  hasher.text(kernel.name).text(kernel.architecture).text(kernel.options);
  hasher.hash(kernel.source).hash(kernel.ptx).hash(kernel.cubin).text(kernel.launch);
  const Kernel::Resources& resources = kernel.resources;
  hasher.integer(word(resources.registers)).integer(word(resources.shared_bytes)).integer(word(resources.stack_bytes));
  hasher.integer(word(resources.spill_store_bytes)).integer(word(resources.spill_load_bytes));
  return hasher.finish();
}

Hash128 plan_id(const Plan& plan) {
  Hasher hasher;
  hasher.text("plan").integer(identity_version);
  const Target& target = plan.key.target;
  hasher.hash(plan.key.fragment).text(target.device).text(target.architecture).text(target.toolkit);
  hasher.text(target.version).integer(plan.steps.size());
  for (const PlanStep& step : plan.steps) hasher.hash(step.kernel).text(step.arguments);
  hasher.text(plan.document).integer(word(plan.bytes));
  return hasher.finish();
}

Status validate(const Provenance& provenance) {
  return Validation("provenance")
      .require(!provenance.tool.empty(), "tool is empty")
      .require(provenance.wall_us >= 0, "wall_us is negative")
      .done();
}

Status validate(const Target& target) {
  return Validation("target")
      .require(!target.device.empty(), "device is empty")
      .require(!target.architecture.empty(), "architecture is empty")
      .require(!target.toolkit.empty(), "toolkit is empty")
      .require(!target.version.empty(), "version is empty")
      .done();
}

Status validate(const Device& device) {
  const bool known = device.kind == "gpu" || device.kind == "emulated" || device.kind == "recorded";
  return Validation("device")
      .require(!device.key.empty(), "key is empty")
      .require(known, "kind is none of gpu, emulated, recorded")
      .require(device.sm_count >= 0 && device.memory_bytes >= 0 && device.calibrated_us >= 0, "a count is negative")
      .json(device.constants, "constants")
      .nested(validate(device.provenance))
      .done();
}

Status validate(const Fragment& fragment) {
  return Validation("fragment")
      .require(!fragment.graph.empty(), "graph is empty")
      .require(fragment.operator_count >= 0 && fragment.parameter_bytes >= 0, "a count is negative")
      .nested(validate(fragment.provenance))
      .done();
}

Status validate(const Workload& workload) {
  Validation check("workload");
  check.require(!workload.format.empty(), "format is empty").json(workload.report, "report");
  std::set<Hash128> seen;
  for (const Workload::Part& part : workload.parts) {
    check.require(part.occurrences > 0, "occurrences of a part are not positive");
    check.require(seen.insert(part.fragment).second, "two parts are the same fragment");
  }
  return check.nested(validate(workload.provenance)).done();
}

Status validate(const Artifact& artifact) {
  return Validation("artifact")
      .require(artifact.hash == hash_bytes(artifact.bytes), "hash is not that of its bytes")
      .nested(validate(artifact.provenance))
      .done();
}

Status validate(const Kernel& kernel) {
  const Kernel::Resources& resources = kernel.resources;
  const bool counts = resources.registers >= 0 && resources.shared_bytes >= 0 && resources.stack_bytes >= 0 &&
                      resources.spill_store_bytes >= 0 && resources.spill_load_bytes >= 0;
  return Validation("kernel")
      .require(!kernel.name.empty(), "name is empty")
      .require(!kernel.architecture.empty(), "architecture is empty")
      .require(counts, "a resource is negative")
      .json(kernel.launch, "launch")
      .nested(validate(kernel.provenance))
      .done();
}

Status validate(const Plan& plan) {
  Validation check("plan");
  check.nested(validate(plan.key.target)).json(plan.document, "document");
  for (const PlanStep& step : plan.steps) check.json(step.arguments, "arguments of a step");
  return check.require(plan.bytes >= 0, "bytes is negative")
      .time(plan.predicted_us, "predicted_us")
      .share(plan.verified_share, "verified_share")
      .require((plan.label == Label::near) == plan.neighbour.has_value(), "neighbour goes with the label near only")
      .nested(validate(plan.provenance))
      .done();
}

}  // namespace stitch::db
