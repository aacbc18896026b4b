#include "tuning/plans/record_summary.h"

#include <nlohmann/json.hpp>

#include "tuning/plans/plan_record.h"

namespace stitch::tuning {
namespace {

using Json = nlohmann::json;

Json provenance(const db::Provenance& from) {
  return {{"tool", from.tool},
          {"toolkit", from.toolkit},
          {"device", from.device},
          {"wall_us", from.wall_us},
          {"judged", from.judged}};
}

}  // namespace

Json summarise(const db::FragmentSummary& fragment) {
  return {{"key", fragment.key.hex()},
          {"family", fragment.family.hex()},
          {"name", fragment.name},
          {"operators", fragment.operator_count},
          {"bytes", fragment.parameter_bytes},
          {"provenance", provenance(fragment.provenance)}};
}

Json summarise(const db::Workload& workload) {
  Json parts = Json::array();
  for (const db::Workload::Part& part : workload.parts) {
    parts.push_back({{"fragment", part.fragment.hex()}, {"occurrences", part.occurrences}});
  }
  return {{"key", workload.key.hex()}, {"name", workload.name},
          {"format", workload.format}, {"report", Json::parse(workload.report, nullptr, false)},
          {"parts", std::move(parts)}, {"provenance", provenance(workload.provenance)}};
}

Json summarise(const db::ProgramRecord& program) {
  return {{"key", program.model.hex()},
          {"id", program.id.hex()},
          {"device", program.device},
          {"name", program.name},
          {"provenance", provenance(program.provenance)}};
}

Json summarise(const db::PlanRecord& plan) {
  const db::Target& target = plan.key.target;
  Json document = {{"id", plan.id.hex()},
                   {"fragment", plan.key.fragment.hex()},
                   {"target",
                    {{"device", target.device},
                     {"architecture", target.architecture},
                     {"toolkit", target.toolkit},
                     {"version", target.version}}},
                   {"label", db::to_string(plan.label)},
                   {"status", db::to_string(plan.status)},
                   {"bytes", plan.bytes},
                   {"predicted_us", plan.predicted_us},
                   {"verified_share", plan.verified_share},
                   {"sequence", plan.sequence},
                   {"provenance", provenance(plan.provenance)}};
  if (plan.measured_us) document["measured_us"] = *plan.measured_us;
  if (plan.neighbour) document["neighbour"] = plan.neighbour->hex();
  return document;
}

Json summarise(const db::Device& device) {
  return {{"key", device.key},
          {"kind", device.kind},
          {"target", device.target},
          {"name", device.name},
          {"architecture", device.architecture},
          {"driver", device.driver},
          {"sm_count", device.sm_count},
          {"memory_bytes", device.memory_bytes},
          {"provenance", provenance(device.provenance)}};
}

Json summarise(const db::Job& job) { return api::to_document(to_wire(job)); }

nlohmann::json summarise(const db::PruneReport& pruned) {
  return {{"jobs", pruned.jobs},
          {"plans", pruned.plans},
          {"kernels", pruned.kernels},
          {"artifacts", pruned.artifacts},
          {"models", pruned.models}};
}

}  // namespace stitch::tuning
