#pragma once

#include "api/protocol.h"
#include "base/result.h"
#include "db/job_records.h"
#include "db/records.h"

// Between what the store keeps and what travels.
namespace stitch::tuning {

/// The plan that a client gets for a stored one, whose document plan_document wrote. Errors: corrupt, naming the plan
/// and the field of its document.
Result<api::Plan> plan_from_record(const db::PlanRecord& record);

api::PlanTarget to_wire(const db::Target& target);
db::Target to_record(const api::PlanTarget& target);

api::JobStatus to_wire(const db::Job& job);
api::JobEvent to_wire(const db::JobEvent& event);

}  // namespace stitch::tuning
