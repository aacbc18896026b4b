#include "db/bundle_version_1.h"

#include <algorithm>
#include <map>

namespace stitch::db {
namespace {

/// The old name that stands in the first half of a new one.
Hash128 old_name(const Sha256& name) {
  Hash128 old;
  for (std::size_t i = 0; i < 8; ++i) {
    old.high = old.high << 8 | name.octets[i];
    old.low = old.low << 8 | name.octets[8 + i];
  }
  return old;
}

Hash128 old_kernel_hash(const Kernel& kernel) {
  Hasher hasher;
  hasher.text("kernel").integer(1).text(kernel.name).text(kernel.architecture).text(kernel.options);
  hasher.hash(old_name(kernel.source)).hash(old_name(kernel.ptx)).hash(old_name(kernel.cubin)).text(kernel.launch);
  const Kernel::Resources& used = kernel.resources;
  hasher.integer(used.registers).integer(used.shared_bytes).integer(used.stack_bytes);
  return hasher.integer(used.spill_store_bytes).integer(used.spill_load_bytes).finish();
}

Error misnamed(std::string_view list, std::size_t index, std::string_view field) {
  return make_error(ErrorKind::corrupt, "{}[{}].{} is not that of the record", list, index, field);
}

/// `value` by its new name, where it has one.
template <class Name>
void rename(std::map<Name, Name>& names, Name& value) {
  if (const auto known = names.find(value); known != names.end()) value = known->second;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

Status rename_contents(FragmentBundle& bundle) {
  std::map<Sha256, Sha256> contents;
  std::map<Hash128, Hash128> kernels, plans;
  for (std::size_t i = 0; i < bundle.artifacts.size(); ++i) {
    Artifact& artifact = bundle.artifacts[i];
    if (hash_bytes(artifact.bytes) != old_name(artifact.hash)) return misnamed("artifacts", i, "hash");
    contents[artifact.hash] = sha256(artifact.bytes);
    artifact.hash = sha256(artifact.bytes);
  }
  for (std::size_t i = 0; i < bundle.kernels.size(); ++i) {
    Kernel& kernel = bundle.kernels[i];
    if (old_kernel_hash(kernel) != kernel.hash) return misnamed("kernels", i, "hash");
    for (Sha256* name : {&kernel.source, &kernel.ptx, &kernel.cubin}) rename(contents, *name);
    kernels[kernel.hash] = kernel_hash(kernel);
    kernel.hash = kernel_hash(kernel);
  }
  for (std::size_t i = 0; i < bundle.plans.size(); ++i) {
    PlanRecord& plan = bundle.plans[i];
    if (plan_id(plan) != plan.id) return misnamed("plans", i, "id");
    for (PlanStep& step : plan.steps) rename(kernels, step.kernel);
    for (const auto& [old, now] : contents) replace_all(plan.document, old_name(old).hex(), now.hex());
    plans[plan.id] = plan_id(plan);
    plan.id = plan_id(plan);
  }
  for (PlanRecord& plan : bundle.plans) {
    if (plan.neighbour) rename(plans, *plan.neighbour);
  }
  for (Candidate& candidate : bundle.candidates) {
    if (candidate.kernel) rename(kernels, *candidate.kernel);
  }
  for (std::size_t i = 0; i < bundle.measurements.size(); ++i) {
    MeasurementRecord& measurement = bundle.measurements[i];
    if (measurement_id(measurement) != measurement.id) return misnamed("measurements", i, "id");
    if (measurement.subject_kind == MeasurementRecord::Subject::plan) rename(plans, measurement.subject);
    if (measurement.subject_kind == MeasurementRecord::Subject::kernel) rename(kernels, measurement.subject);
    measurement.id = measurement_id(measurement);
  }
  return {};
}

}  // namespace stitch::db
