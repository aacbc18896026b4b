#include "cli/plan_keeper.h"

#include "base/version.h"
#include "daemon/admission.h"
#include "db/sqlite_store.h"

namespace stitch::cli {

Result<std::unique_ptr<PlanKeeper>> PlanKeeper::open(const std::filesystem::path& database, const daemon::Tuner& tuner,
                                                     const profiler::Device& device, const Clock& clock) {
  db::SqliteOptions options;
  options.path = database;
  STITCH_ASSIGN(auto store, db::open_sqlite_store(options, clock));
  std::unique_ptr<PlanKeeper> keeper(new PlanKeeper(std::move(store), tuner, device, clock));
  const profiler::DeviceIdentity& identity = device.identity();
  db::Device record;
  record.key = identity.key;
  record.kind = identity.kind;
  record.name = identity.name;
  record.architecture = identity.architecture;
  record.driver = identity.driver;
  record.sm_count = identity.sm_count;
  record.memory_bytes = identity.memory_bytes;
  record.provenance = keeper->provenance("present");
  STITCH_TRY(keeper->store_->put_device(record));
  return keeper;
}

db::Provenance PlanKeeper::provenance(std::string_view judged) const {
  return {std::string(tool_version), tuner_.target().toolkit, device_.identity().key, clock_.wall_us(),
          std::string(judged)};
}

Status PlanKeeper::keep(const daemon::TunedFragment& tuned) {
  const db::Plan& plan = tuned.bundle.plan;
  STITCH_TRY(store_->put_fragment(tuned.fragment));
  STITCH_ASSIGN(const db::Lookup before, store_->find_plan(plan.key, {}));
  STITCH_ASSIGN(const db::PutPlan put, store_->put_plan(tuned.bundle, daemon::rule_on(before.plan, plan).admission));
  if (!put.inserted && plan.verified_share > 0) {
    STITCH_TRY(store_->judge_plan(
        put.id, {plan.label, plan.predicted_us, plan.verified_share, plan.neighbour, plan.provenance}));
  }
  return store_->record_candidates(tuned.candidates);
}

bool PlanKeeper::is_settled(const Hash128& fragment) const {
  const auto served = store_->find_plan({fragment, tuner_.target()}, {});
  return served && served->plan && served->plan->verified_share > 0;
}

Status PlanKeeper::finish(db::Workload workload) {
  std::erase_if(workload.parts,
                [&](const db::Workload::Part& part) { return !store_->get_fragment(part.fragment).ok(); });
  workload.provenance = provenance("tuned");
  return store_->put_workload(workload);
}

}  // namespace stitch::cli
