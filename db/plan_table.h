#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "db/records.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Rows of tables `target`, `plan` and `plan_step`. Callers hold the transaction.
namespace stitch::db::tables {

/// The row of a target, made when there is none.
Result<std::int64_t> target_row(sqlite::Connection& connection, const Target& target);

/// Stores artifacts, kernels, plan and measurements, then settles who is served.
Result<PutPlan> insert_plan(sqlite::Connection& connection, const PlanBundle& bundle, Admission admission);
/// Stores the plan alone, as a challenger and at most predicted, once per content; true when it was new.
Result<bool> insert_plan_rows(sqlite::Connection& connection, const PlanRecord& plan);

/// A whole plan, checked against its id. Errors: not_found, corrupt.
Result<PlanRecord> select_plan(sqlite::Connection& connection, const Hash128& id);
/// The incumbent of a key, checked likewise; nothing when there is none.
Result<std::optional<PlanRecord>> select_incumbent(sqlite::Connection& connection, const PlanKey& key);
/// What Store::find_stale_plan finds, checked likewise.
Result<std::optional<PlanRecord>> select_stale_plan(sqlite::Connection& connection, const PlanKey& key);
/// The same without steps and document, unchecked.
Result<std::optional<PlanRecord>> select_served(sqlite::Connection& connection, const PlanKey& key);
/// A plan with the kernels, artifacts and measurements that belong to it.
Result<PlanBundle> select_plan_bundle(sqlite::Connection& connection, const Hash128& id);
Result<Listing<PlanRecord>> select_plans(sqlite::Connection& connection, const PlanFilter& filter, const Page& page);
/// Ids of all plans of a fragment, oldest first.
Result<std::vector<Hash128>> plans_of(sqlite::Connection& connection, const Hash128& fragment);

Status judge_plan(sqlite::Connection& connection, const Hash128& id, const PlanJudgement& judgement);

}  // namespace stitch::db::tables
