#pragma once

#include "base/result.h"
#include "daemon/protocol.h"
#include "db/job_records.h"
#include "db/records.h"

// Between what the store keeps and what travels.
namespace stitch::daemon {

/// The plan that a client gets for a stored one, whose document plan_document wrote. Errors: corrupt, naming the plan
/// and the field of its document.
Result<Plan> plan_from_record(const db::Plan& record);

PlanTarget to_wire(const db::Target& target);
db::Target to_record(const PlanTarget& target);

JobStatus to_wire(const db::Job& job);
JobEvent to_wire(const db::JobEvent& event);

}  // namespace stitch::daemon
