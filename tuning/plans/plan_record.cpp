#include "tuning/plans/plan_record.h"

#include <nlohmann/json.hpp>

#include "api/plan_document.h"

namespace stitch::tuning {

api::PlanTarget to_wire(const db::Target& target) {
  return {target.device, target.architecture, target.toolkit, target.version};
}

db::Target to_record(const api::PlanTarget& target) {
  return {target.device, target.architecture, target.toolkit, target.version};
}

api::JobStatus to_wire(const db::Job& job) {
  api::JobStatus status;
  status.id = job.id;
  status.kind = job.kind;
  status.state = db::to_string(job.state);
  status.progress = job.progress;
  status.message = job.message;
  status.result = job.result;
  status.error = job.error;
  status.attempts = job.attempts;
  status.cancel_requested = job.cancel_requested;
  status.created_us = job.created_us;
  status.started_us = job.started_us;
  status.finished_us = job.finished_us;
  return status;
}

api::JobEvent to_wire(const db::JobEvent& event) {
  return {event.sequence, event.job, event.wall_us, event.kind, event.progress, event.detail};
}

Result<api::Plan> plan_from_record(const db::PlanRecord& record) {
  const auto corrupt = [&](const Error& error) {
    return make_error(ErrorKind::corrupt, "plan {}: document: {}", record.id.hex(), error.message);
  };
  auto document = graph::parse_document(record.document, graph::Encoding::json);
  if (!document) return corrupt(document.error());
  api::Plan plan;
  if (Status read = api::read_fixed_part(*document, plan); !read) return corrupt(read.error());
  plan.id = record.id;
  plan.fragment = record.key.fragment;
  plan.target = to_wire(record.key.target);
  plan.label = db::to_string(record.label);
  plan.sequence = record.sequence;
  plan.bytes = record.bytes;
  plan.predicted_us = record.predicted_us;
  for (const api::KernelLaunch& launch : plan.launches) plan.uncertainty_us += launch.uncertainty_us;
  plan.measured_us = record.measured_us;
  plan.verified_share = record.verified_share;
  plan.judged = record.provenance.judged;
  return plan;
}

}  // namespace stitch::tuning
