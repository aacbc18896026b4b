#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/job_records.h"
#include "db/records.h"
#include "db/trial_records.h"

namespace stitch::db {

/// How put_plan treats the incumbent of the same key.
enum class Admission : std::uint8_t {
  challenger,  ///< stored, not served
  if_vacant,   ///< incumbent if the key has none, else challenger
  replace,     ///< incumbent; the one before is superseded
};

struct PutPlan {
  Hash128 id;
  bool inserted = false;   ///< false: the store had it
  bool incumbent = false;  ///< whether it is the one served now
};

/// The fields of a key, least to most telling when they differ.
enum class KeyField : std::uint8_t { version, toolkit, architecture, device, shape, fragment };
std::string_view to_string(KeyField field);

/// Why a look-up found nothing: the incumbent that comes closest, and in what its key differs. `shape`: another
/// fragment of the same family. `fragment` alone, without `closest`: nothing like it is stored.
struct Miss {
  std::vector<KeyField> differs;
  std::optional<PlanKey> closest;
  std::optional<Hash128> closest_plan;
};

struct Lookup {
  std::optional<Plan> plan;  ///< the incumbent of exactly this key
  Miss miss;                 ///< empty on a hit
};

/// What is known better about a plan than when it was stored. Label `measured` is not given here: it follows from
/// record_measurement.
struct PlanJudgement {
  Label label = Label::predicted;
  double predicted_us = 0;
  double verified_share = 0;
  std::optional<Hash128> neighbour;  ///< for Label::near
  Provenance provenance;
};

/// A change of what is served: the plan that became incumbent or, withdrawn without successor, none.
struct Promotion {
  std::int64_t sequence = 0;  ///< rises over all keys
  PlanKey key;
  std::optional<Hash128> plan, previous;
  std::string reason;
  Provenance provenance;
};

/// One page of a listing. Pass `next` of the last page as `after`; 0 starts, and ends.
struct Page {
  int limit = 100;  ///< 1 … 1000
  std::int64_t after = 0;
  bool newest_first = false;
};
template <class T>
struct Listing {
  std::vector<T> items;
  std::int64_t next = 0;
};

struct FragmentSummary {
  Hash128 key, family;
  std::string name;
  std::int64_t operator_count = 0, parameter_bytes = 0;
  Provenance provenance;
};
/// Plans that match every field given. In listings, `steps` and `document` are left out and ids not checked.
struct PlanFilter {
  std::optional<Hash128> fragment, family;
  std::optional<std::string> device;  ///< Target::device
  std::optional<Label> label;
  std::optional<PlanStatus> status;
};
struct CandidateFilter {
  std::optional<Hash128> fragment;
  std::optional<Target> target;
  std::optional<Outcome> outcome;
};
struct JobFilter {
  std::optional<JobState> state;
  std::string kind;  ///< empty: any
};

struct EnqueuedJob {
  Job job;
  bool joined = false;  ///< true: an unfinished job with the same dedupe key, not a new one
};

/// How a job ended.
struct JobEnd {
  JobState state = JobState::done;  ///< done, failed or cancelled
  std::string result;               ///< of done
  std::optional<Error> error;       ///< of failed
};

struct StoreStatistics {
  std::int64_t devices = 0, fragments = 0, workloads = 0, plans = 0, incumbents = 0, kernels = 0, artifacts = 0;
  std::int64_t candidates = 0, measurements = 0, quarantined = 0, models = 0, promotions = 0;
  std::int64_t jobs[5] = {};                 ///< by JobState
  std::int64_t incumbents_by_label[4] = {};  ///< by Label
  std::int64_t artifact_raw_bytes = 0, artifact_stored_bytes = 0;
  std::int64_t file_bytes = 0, log_bytes = 0;  ///< database file and write-ahead log
};

/// What may go: finished jobs with their events, and superseded or withdrawn plans, older than these wall times (µs; 0
/// keeps all), then the kernels and generated artifacts (source, ptx, cubin, log) that nothing refers to any more.
struct PrunePolicy {
  std::int64_t jobs_before_us = 0;
  std::int64_t plans_before_us = 0;
};
struct PruneReport {
  std::int64_t jobs = 0, plans = 0, kernels = 0, artifacts = 0;
};

/// Everything about one fragment, to be moved between stores. Plans in the order in which they were stored.
struct FragmentBundle {
  Fragment fragment;
  std::vector<Device> devices;
  std::vector<PlanBundle> plans;
  std::vector<Candidate> candidates;
};
struct MergeReport {
  std::int64_t fragments = 0, plans = 0, kernels = 0, artifacts = 0, candidates = 0, measurements = 0;  ///< new ones
  std::int64_t known = 0;  ///< records that the store had
};

/// What integrity_check found; empty problems: clean.
struct IntegrityReport {
  std::vector<std::string> problems;
  std::int64_t artifacts_checked = 0;
};

/// The store of everything that outlives a process. Every operation is one transaction: when a write returns
/// success it is durable (it survives kill -9 and a power cut); when it returns an error nothing of it is visible.
/// Safe to call from any number of threads.
///
/// Errors: not_found, already_exists and invalid_argument as said; corrupt (stored bytes do not match their hash; the
/// message names it); io (the operating system refused, or the store is read-only); resource_exhausted (disk full,
/// queue full); timeout (another process held the store for too long).
class Store {
 public:
  virtual ~Store() = default;

  // Devices: inserted, or refreshed by key.
  virtual Status put_device(const Device& device) = 0;
  [[nodiscard]] virtual Result<Device> get_device(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::vector<Device>> list_devices() const = 0;

  // Fragments and models. A fragment that is known stays as it is (invalid_argument if it has another family); a
  // workload's name, report and parts are replaced. Its fragments must be stored.
  virtual Status put_fragment(const Fragment& fragment) = 0;
  [[nodiscard]] virtual Result<Fragment> get_fragment(const Hash128& key) const = 0;
  [[nodiscard]] virtual Result<Listing<FragmentSummary>> list_fragments(const Page& page) const = 0;
  virtual Status put_workload(const Workload& workload) = 0;
  [[nodiscard]] virtual Result<Workload> get_workload(const Hash128& key) const = 0;
  [[nodiscard]] virtual Result<Listing<Workload>> list_workloads(const Page& page) const = 0;

  // Plans. The fragment must be stored. put_plan ignores id, status, sequence and measured_us of the plan given and
  // the hashes of kernels: the store computes them. Of a plan it has, it keeps what it has and applies `admission`
  // (a withdrawn plan stays withdrawn). put_plans: the same, all in one transaction.
  virtual Result<PutPlan> put_plan(const PlanBundle& bundle, Admission admission) = 0;
  virtual Result<std::vector<PutPlan>> put_plans(std::span<const PlanBundle> bundles, Admission admission) = 0;
  [[nodiscard]] virtual Result<Lookup> find_plan(const PlanKey& key) const = 0;
  [[nodiscard]] virtual Result<Plan> get_plan(const Hash128& id) const = 0;
  [[nodiscard]] virtual Result<PlanBundle> get_plan_bundle(const Hash128& id) const = 0;
  [[nodiscard]] virtual Result<Listing<Plan>> list_plans(const PlanFilter& filter, const Page& page) const = 0;
  /// Never lowers a measured plan's label.
  virtual Status judge_plan(const Hash128& id, const PlanJudgement& judgement) = 0;
  /// Makes a plan the incumbent of its key; returns the promotion's sequence number. invalid_argument if withdrawn.
  virtual Result<std::int64_t> promote(const Hash128& id, std::string_view reason, const Provenance& provenance) = 0;
  /// Takes a plan out of service for good.
  virtual Status withdraw(const Hash128& id, std::string_view reason, const Provenance& provenance) = 0;
  /// What changed since: the feed from which clients are told of better plans.
  [[nodiscard]] virtual Result<Listing<Promotion>> list_promotions(const Page& page) const = 0;
  [[nodiscard]] virtual Result<std::int64_t> last_promotion() const = 0;

  // Kernels and artifacts, by content.
  [[nodiscard]] virtual Result<Kernel> get_kernel(const Hash128& hash) const = 0;
  virtual Status put_artifact(const Artifact& artifact) = 0;
  [[nodiscard]] virtual Result<Artifact> get_artifact(const Hash128& hash) const = 0;

  // Trials. Measuring a plan's device time makes the plan `measured`, with the median.
  virtual Status record_candidates(std::span<const Candidate> candidates) = 0;
  [[nodiscard]] virtual Result<Listing<Candidate>> list_candidates(const CandidateFilter& filter,
                                                                   const Page& page) const = 0;
  virtual Result<Hash128> record_measurement(const Measurement& measurement) = 0;
  [[nodiscard]] virtual Result<std::vector<Measurement>> list_measurements(const Hash128& subject) const = 0;

  // Quarantine. Recording a known subject adds a strike.
  virtual Status quarantine(const Quarantine& entry) = 0;
  [[nodiscard]] virtual Result<std::optional<Quarantine>> find_quarantine(const Hash128& subject,
                                                                          std::string_view device) const = 0;
  [[nodiscard]] virtual Result<std::vector<Quarantine>> list_quarantine() const = 0;
  virtual Status release(const Hash128& subject, std::string_view device) = 0;

  // Cost models. put_model returns the version; get_model without one: the newest.
  virtual Result<int> put_model(const TrainedModel& model) = 0;
  [[nodiscard]] virtual Result<TrainedModel> get_model(std::string_view name, std::string_view device,
                                                       std::optional<int> version) const = 0;
  /// Without their bytes.
  [[nodiscard]] virtual Result<std::vector<TrainedModel>> list_models() const = 0;

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
  /// Running jobs whose lease has run out, or that `owner` holds, go back to the queue (or end: cancelled if that
  /// was asked for, failed if they stalled too often). `everyone`: all running jobs, for a service that knows itself
  /// to be the only one. Returns the jobs touched.
  enum class Orphans : std::uint8_t { expired, everyone };
  virtual Result<std::vector<std::int64_t>> requeue_orphans(Orphans which, std::string_view owner) = 0;
  [[nodiscard]] virtual Result<Job> get_job(std::int64_t id) const = 0;
  [[nodiscard]] virtual Result<std::optional<Job>> find_unfinished_job(std::string_view dedupe_key) const = 0;
  [[nodiscard]] virtual Result<Listing<Job>> list_jobs(const JobFilter& filter, const Page& page) const = 0;
  /// Events of one job (0: of all) after page.after, oldest first.
  [[nodiscard]] virtual Result<Listing<JobEvent>> list_job_events(std::int64_t job, const Page& page) const = 0;

  // Moving and upkeep. merge_fragment stores what is new of a bundle; an imported incumbent takes a vacant place
  // only. File format of export and import: db/portable.h.
  [[nodiscard]] virtual Result<FragmentBundle> get_fragment_bundle(const Hash128& key) const = 0;
  virtual Result<MergeReport> merge_fragment(const FragmentBundle& bundle) = 0;
  [[nodiscard]] virtual Result<StoreStatistics> statistics() const = 0;
  virtual Result<PruneReport> prune(const PrunePolicy& policy) = 0;
  /// Checks pages, indexes, references and schema; `deep` also reads every artifact against its hash.
  [[nodiscard]] virtual Result<IntegrityReport> integrity_check(bool deep) const = 0;
};

}  // namespace stitch::db
