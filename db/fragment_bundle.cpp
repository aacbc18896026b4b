#include "db/fragment_bundle.h"

#include <iterator>
#include <set>

#include "db/artifact_table.h"
#include "db/candidate_table.h"
#include "db/fragment_table.h"
#include "db/incumbency.h"
#include "db/measurement_table.h"
#include "db/plan_table.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;

/// Collects records into a bundle, each once.
class Collector {
 public:
  explicit Collector(Connection& connection) : connection_(connection) {}

  Status plan(const Hash128& id) {
    STITCH_ASSIGN(PlanRecord record, select_plan(connection_, id));
    for (const PlanStep& step : record.steps) STITCH_TRY(kernel(step.kernel));
    bundle.plans.push_back(std::move(record));
    return measurements(id);
  }

  Status candidates(const Hash128& fragment) {
    Page page{1000, 0, false};
    do {
      STITCH_ASSIGN(Listing<Candidate> found, select_candidates(connection_, {fragment, {}, {}}, page));
      for (Candidate& candidate : found.items) {
        if (candidate.kernel) STITCH_TRY(kernel(*candidate.kernel));
        STITCH_TRY(measurements(candidate.schedule_hash));
        bundle.candidates.push_back(std::move(candidate));
      }
      page.after = found.next;
    } while (page.after != 0);
    return {};
  }

  FragmentBundle bundle;

 private:
  Status kernel(const Hash128& hash) {
    if (!seen_.insert(hash).second) return {};
    STITCH_ASSIGN(Kernel record, select_kernel(connection_, hash));
    for (const Sha256& artifact : {record.source, record.ptx, record.cubin}) {
      if (!artifacts_.insert(artifact).second) continue;
      STITCH_ASSIGN(Artifact bytes, select_artifact(connection_, artifact));
      bundle.artifacts.push_back(std::move(bytes));
    }
    bundle.kernels.push_back(std::move(record));
    return measurements(hash);
  }

  Status measurements(const Hash128& subject) {
    if (!measured_.insert(subject).second) return {};
    STITCH_ASSIGN(std::vector<MeasurementRecord> found, select_measurements(connection_, subject));
    for (MeasurementRecord& measurement : found) {
      if (devices_.insert(measurement.device).second) {
        STITCH_ASSIGN(Device record, select_device(connection_, measurement.device));
        bundle.devices.push_back(std::move(record));
      }
      bundle.measurements.push_back(std::move(measurement));
    }
    return {};
  }

  Connection& connection_;
  std::set<Hash128> seen_, measured_;
  std::set<Sha256> artifacts_;
  std::set<std::string> devices_;
};

/// Counts one record: new, or known.
void count(bool inserted, std::int64_t& fresh, MergeReport& report) { ++(inserted ? fresh : report.known); }

Status settle(Connection& connection, const PlanRecord& plan, bool inserted) {
  const Hash128 id = plan_id(plan);
  if (inserted && plan.status == PlanStatus::withdrawn)
    return withdraw(connection, id, "withdrawn where it was imported from", plan.provenance);
  if (plan.status == PlanStatus::incumbent) STITCH_TRY(admit(connection, id, Admission::if_vacant, plan.provenance));
  if (plan.label != Label::measured) return {};
  STITCH_ASSIGN(const PlanRecord stored, select_plan(connection, id));
  if (stored.label == Label::measured) return {};
  return make_error(ErrorKind::invalid_argument, "plan {}: labelled measured, but without a measurement of device time",
                    id.hex());
}

}  // namespace

Result<FragmentBundle> select_fragment_bundle(Connection& connection, const Hash128& key) {
  Collector collector(connection);
  STITCH_ASSIGN(collector.bundle.fragment, select_fragment(connection, key));
  STITCH_ASSIGN(const std::vector<Hash128> ids, plans_of(connection, key));
  for (const Hash128& id : ids) STITCH_TRY(collector.plan(id));
  STITCH_TRY(collector.candidates(key));
  return std::move(collector.bundle);
}

Result<MergeReport> merge_fragment(Connection& connection, const FragmentBundle& bundle) {
  MergeReport report;
  for (const Device& device : bundle.devices) STITCH_TRY(insert_device(connection, device));
  STITCH_ASSIGN(const bool new_fragment, insert_fragment(connection, bundle.fragment));
  count(new_fragment, report.fragments, report);
  for (const Artifact& artifact : bundle.artifacts) {
    STITCH_ASSIGN(const bool inserted, insert_artifact(connection, artifact));
    count(inserted, report.artifacts, report);
  }
  for (const Kernel& kernel : bundle.kernels) {
    STITCH_ASSIGN(const bool inserted, insert_kernel(connection, kernel));
    count(inserted, report.kernels, report);
  }
  std::vector<bool> fresh;
  for (const PlanRecord& plan : bundle.plans) {
    STITCH_ASSIGN(const bool inserted, insert_plan_rows(connection, plan));
    count(inserted, report.plans, report);
    fresh.push_back(inserted);
  }
  for (const Candidate& candidate : bundle.candidates) {
    STITCH_ASSIGN(const bool inserted, merge_candidate(connection, candidate));
    count(inserted, report.candidates, report);
  }
  for (const MeasurementRecord& measurement : bundle.measurements) {
    STITCH_ASSIGN(const RecordedMeasurement recorded, insert_measurement(connection, measurement));
    count(recorded.inserted, report.measurements, report);
  }
  for (std::size_t i = 0; i < bundle.plans.size(); ++i) STITCH_TRY(settle(connection, bundle.plans[i], fresh[i]));
  return report;
}

}  // namespace stitch::db::tables
