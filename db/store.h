#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/job_records.h"
#include "db/records.h"
#include "db/store_types.h"
#include "db/trial_records.h"

// The one way to what outlives a process. The store is an interface because there will be two: SQLite, in one file
// (db/sqlite_store.h), and a server's. The daemon opens one when it starts and `stitch` one for --db:
//
//   STITCH_ASSIGN(const std::unique_ptr<Store> store, open_sqlite_store({.path = "stitch.db"}, clock));
//   STITCH_TRY(store->put_fragment(fragment));
//   STITCH_ASSIGN(const PutPlan put, store->put_plan(bundle, Admission::if_vacant));
//   STITCH_ASSIGN(const Lookup found, store->find_plan(bundle.plan.key, fragment.family));  // what clients ask
//
// tuning/ writes fragments, plans, candidates and measurements, daemon/jobs/ works off jobs, look-ups and listings
// read.
namespace stitch::db {

/// Every operation is one transaction: when a write returns success it is durable (it survives kill -9 and a power
/// cut); when it returns an error nothing of it is visible. Safe to call from any number of threads.
///
/// Errors: not_found, already_exists and invalid_argument as said; corrupt (stored bytes do not match their hash; the
/// message names it); io (the operating system refused, or the store is read-only); resource_exhausted (disk full,
/// queue full); timeout (another process held the store for too long).
class Store {
 public:
  virtual ~Store() = default;

  /// Changes with every commit, by any process; asking costs nothing and blocks nobody. Nothing when it cannot be told
  /// now: then everything may have changed.
  [[nodiscard]] virtual std::optional<StoreVersion> version() const = 0;

  // Devices: inserted, or refreshed by key.
  virtual Status put_device(const Device& device) = 0;
  [[nodiscard]] virtual Result<Device> get_device(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::vector<Device>> list_devices() const = 0;

  // Fragments and models. A fragment that is known stays as it is (invalid_argument if it has another family,
  // already_exists if another graph: keys can be forged); a workload's name, report and parts are replaced. Its
  // fragments must be stored.
  virtual Status put_fragment(const FragmentRecord& fragment) = 0;
  [[nodiscard]] virtual Result<FragmentRecord> get_fragment(const Hash128& key) const = 0;
  [[nodiscard]] virtual Result<Listing<FragmentSummary>> list_fragments(const Page& page) const = 0;
  virtual Status put_workload(const Workload& workload) = 0;
  [[nodiscard]] virtual Result<Workload> get_workload(const Sha256& key) const = 0;
  [[nodiscard]] virtual Result<Listing<Workload>> list_workloads(const Page& page) const = 0;

  // Programs. The model must be stored; a later program of the same model and class of GPUs takes the earlier one's
  // place. A listing has no documents.
  virtual Status put_program(const ProgramRecord& program) = 0;
  [[nodiscard]] virtual Result<ProgramRecord> get_program(const Sha256& model, std::string_view device) const = 0;
  /// `name`: of the model; without, all.
  [[nodiscard]] virtual Result<Listing<ProgramRecord>> list_programs(const std::optional<std::string>& name,
                                                                     const Page& page) const = 0;

  // Plans. The fragment must be stored. put_plan ignores id, status, sequence and measured_us of the plan given and
  // the hashes of kernels: the store computes them. Of a plan it has, it keeps what it has and applies `admission`
  // (a withdrawn plan stays withdrawn). put_plans: the same, all in one transaction.
  virtual Result<PutPlan> put_plan(const PlanBundle& bundle, Admission admission) = 0;
  virtual Result<std::vector<PutPlan>> put_plans(std::span<const PlanBundle> bundles, Admission admission) = 0;
  /// The incumbent of the key, or what comes closest. `family` helps for a fragment that is not stored yet.
  [[nodiscard]] virtual Result<Lookup> find_plan(const PlanKey& key, const std::optional<Hash128>& family) const = 0;
  /// The best founded plan that is served for the key's fragment, device and architecture in another environment, that
  /// is of another toolkit or generator version: measured before verified ones, then the one promoted last. None that
  /// nobody verified, nor of a later major version of the toolkit, whose machine code this one's drivers may not load.
  [[nodiscard]] virtual Result<std::optional<PlanRecord>> find_stale_plan(const PlanKey& key) const = 0;
  /// The incumbent of the key as listings have it, nothing when there is none. What was made of the whole plan stays
  /// right for as long as this is equal.
  [[nodiscard]] virtual Result<std::optional<PlanRecord>> served_plan(const PlanKey& key) const = 0;
  [[nodiscard]] virtual Result<PlanRecord> get_plan(const Hash128& id) const = 0;
  [[nodiscard]] virtual Result<PlanBundle> get_plan_bundle(const Hash128& id) const = 0;
  [[nodiscard]] virtual Result<Listing<PlanRecord>> list_plans(const PlanFilter& filter, const Page& page) const = 0;
  /// Never lowers a measured plan's label.
  virtual Status judge_plan(const Hash128& id, const PlanJudgement& judgement) = 0;
  /// Makes a plan the incumbent of its key; returns the promotion's sequence number. invalid_argument if withdrawn.
  virtual Result<std::int64_t> promote(const Hash128& id, std::string_view reason, const Provenance& provenance) = 0;
  /// Tells the followers of promotions that an incumbent is served from now on, where another environment's plan was
  /// served in its place (find_stale_plan); returns the new sequence number. invalid_argument if it is no incumbent.
  virtual Result<std::int64_t> announce(const Hash128& id, std::string_view reason, const Provenance& provenance) = 0;
  /// Takes a plan out of service for good.
  virtual Status withdraw(const Hash128& id, std::string_view reason, const Provenance& provenance) = 0;
  /// What changed since: the feed from which clients are told of better plans.
  [[nodiscard]] virtual Result<Listing<Promotion>> list_promotions(const Page& page) const = 0;
  [[nodiscard]] virtual Result<std::int64_t> last_promotion() const = 0;

  // Kernels, artifacts and uploads, by content. What is put and is there, but damaged, is mended.
  [[nodiscard]] virtual Result<Kernel> get_kernel(const Hash128& hash) const = 0;
  virtual Status put_artifact(const Artifact& artifact) = 0;
  [[nodiscard]] virtual Result<Artifact> get_artifact(const Sha256& hash) const = 0;
  virtual Status put_upload(const Upload& upload) = 0;
  [[nodiscard]] virtual Result<Upload> get_upload(const Sha256& hash) const = 0;

  // Trials. Measuring a plan's device time makes the plan `measured`, with the median.
  virtual Status record_candidates(std::span<const Candidate> candidates) = 0;
  [[nodiscard]] virtual Result<Listing<Candidate>> list_candidates(const CandidateFilter& filter,
                                                                   const Page& page) const = 0;
  virtual Result<Hash128> record_measurement(const MeasurementRecord& measurement) = 0;
  [[nodiscard]] virtual Result<std::vector<MeasurementRecord>> list_measurements(const Hash128& subject) const = 0;

  // Cost models. put_model returns the version; get_model without one: the newest.
  virtual Result<int> put_model(const CostModelRecord& model) = 0;
  [[nodiscard]] virtual Result<CostModelRecord> get_model(std::string_view name, std::string_view device,
                                                          std::optional<int> version) const = 0;
  /// Without their bytes.
  [[nodiscard]] virtual Result<std::vector<CostModelRecord>> list_models() const = 0;

  // Jobs. enqueue_job reads kind, dedupe_key, priority, payload, max_stalled and provenance; resource_exhausted when
  // the queue is full. What a holder does carries the fence of its claim and is `cancelled` when the job is no longer
  // its own.
  virtual Result<EnqueuedJob> enqueue_job(const Job& job) = 0;
  /// The next job of one of these kinds (empty: any) for `lease_us`; nothing when there is none.
  virtual Result<std::optional<Job>> claim_job(std::string_view owner, std::int64_t lease_us,
                                               std::span<const std::string> kinds) = 0;
  /// Prolongs the lease; returns whether cancelling was asked for.
  virtual Result<bool> renew_job(std::int64_t id, std::int64_t fence, std::int64_t lease_us) = 0;
  /// Records progress (0 … 1, never falls) and an event of kind "progress", or of the caller's kind.
  virtual Status report_progress(std::int64_t id, std::int64_t fence, double progress, std::string_view detail,
                                 std::string_view event_kind) = 0;
  virtual Status finish_job(std::int64_t id, std::int64_t fence, const JobEnd& end) = 0;
  /// Cancels a queued job at once and asks the holder of a running one to stop; returns the job as it is then.
  virtual Result<Job> cancel_job(std::int64_t id) = 0;
  /// Running jobs that nobody works on any more go back to the queue, or end: cancelled if that was asked for, failed
  /// if they stalled too often. Returns the jobs touched.
  virtual Result<std::vector<std::int64_t>> requeue_orphans(const OrphanRule& rule) = 0;
  [[nodiscard]] virtual Result<Job> get_job(std::int64_t id) const = 0;
  [[nodiscard]] virtual Result<std::optional<Job>> find_unfinished_job(std::string_view dedupe_key) const = 0;
  [[nodiscard]] virtual Result<Listing<Job>> list_jobs(const JobFilter& filter, const Page& page) const = 0;
  /// Events of one job (0: of all) after page.after, oldest first.
  [[nodiscard]] virtual Result<Listing<JobEvent>> list_job_events(std::int64_t job, const Page& page) const = 0;

  // Moving and upkeep. merge_fragment stores what is new of a bundle; an imported incumbent takes a vacant place
  // only. File format of export and import: db/portable.h.
  [[nodiscard]] virtual Result<FragmentBundle> get_fragment_bundle(const Hash128& key) const = 0;
  virtual Result<MergeReport> merge_fragment(const FragmentBundle& bundle) = 0;
  /// Reads indexes only, but all of them: some milliseconds per 10,000 plans.
  [[nodiscard]] virtual Result<StoreStatistics> statistics() const = 0;
  virtual Result<PruneReport> prune(const PrunePolicy& policy) = 0;
  /// Checks pages, indexes, references and schema; `deep` also reads every artifact against its hash.
  [[nodiscard]] virtual Result<IntegrityReport> integrity_check(bool deep) const = 0;
};

}  // namespace stitch::db
