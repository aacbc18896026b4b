#pragma once

#include <nlohmann/json_fwd.hpp>

#include "db/job_records.h"
#include "db/store_types.h"

// What a listing shows of a record, through the API and on the command line alike (docs/openapi.yaml has the schemas).
namespace stitch::tuning {

nlohmann::json summarise(const db::FragmentSummary& fragment);
nlohmann::json summarise(const db::Workload& workload);
nlohmann::json summarise(const db::ProgramRecord& program);
nlohmann::json summarise(const db::PlanRecord& plan);  ///< without its launches
nlohmann::json summarise(const db::Device& device);
nlohmann::json summarise(const db::Job& job);
nlohmann::json summarise(const db::PruneReport& pruned);

}  // namespace stitch::tuning
