#include "db/records.h"

#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<Artifact::Kind, 6> artifact_words{{"source", "ptx", "cubin", "graph", "log", "recording"}};
constexpr Words<Label, 4> label_words{{"measured", "near", "predicted", "default"}};
constexpr Words<PlanStatus, 4> status_words{{"challenger", "incumbent", "superseded", "withdrawn"}};

// Part of the hashes: raised when they would come out differently for the same record.
constexpr std::uint64_t kernel_version = 2;  // 1 had the XXH3 of artifacts (db/content_names.cpp)
constexpr std::uint64_t plan_version = 1;

}  // namespace

std::string_view to_string(Artifact::Kind kind) { return artifact_words.of(kind); }
std::string_view to_string(Label label) { return label_words.of(label); }
std::string_view to_string(PlanStatus status) { return status_words.of(status); }
std::optional<Artifact::Kind> artifact_kind_of(std::string_view text) { return artifact_words.find(text); }
std::optional<Label> label_of(std::string_view text) { return label_words.find(text); }
std::optional<PlanStatus> plan_status_of(std::string_view text) { return status_words.find(text); }

Hash128 kernel_hash(const Kernel& kernel) {
  Hasher hasher;
  hasher.text("kernel").integer(kernel_version);
  hasher.text(kernel.name).text(kernel.architecture).text(kernel.options);
  hasher.bytes(kernel.source.bytes()).bytes(kernel.ptx.bytes()).bytes(kernel.cubin.bytes()).text(kernel.launch);
  const Kernel::Resources& resources = kernel.resources;
  hasher.integer(resources.registers).integer(resources.shared_bytes).integer(resources.stack_bytes);
  hasher.integer(resources.spill_store_bytes).integer(resources.spill_load_bytes);
  return hasher.finish();
}

Hash128 plan_id(const PlanRecord& plan) {
  Hasher hasher;
  hasher.text("plan").integer(plan_version);
  const Target& target = plan.key.target;
  hasher.hash(plan.key.fragment).text(target.device).text(target.architecture).text(target.toolkit);
  hasher.text(target.version).integer(plan.steps.size());
  for (const PlanStep& step : plan.steps) hasher.hash(step.kernel).text(step.arguments);
  hasher.text(plan.document).integer(plan.bytes);
  return hasher.finish();
}

}  // namespace stitch::db
