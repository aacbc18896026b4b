#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/job_records.h"
#include "db/records.h"
#include "db/trial_records.h"

// What the operations of the store (db/store.h) take and return besides the records themselves.
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
  std::optional<PlanRecord> plan;  ///< the incumbent of exactly this key
  Miss miss;                       ///< empty on a hit
  std::optional<Sha256> graph;     ///< name of the graph that is stored under the fragment's key, if one is
};

/// Two that are equal: nothing was committed between them. They have no order.
struct StoreVersion {
  std::array<std::uint32_t, 12> words{};

  bool operator==(const StoreVersion&) const = default;
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
  std::optional<Hash128> fragment = {}, family = {};
  std::optional<std::string> device = {};  ///< Target::device
  std::optional<Label> label = {};
  std::optional<PlanStatus> status = {};
  std::optional<Sha256> artifact = {};  ///< source, PTX or cubin of one of its kernels
};
struct CandidateFilter {
  std::optional<Hash128> fragment = {};
  std::optional<Target> target = {};
  std::optional<Outcome> outcome = {};
  std::optional<Hash128> schedule = {};  ///< Candidate::schedule_hash
};
struct JobFilter {
  std::optional<JobState> state = {};
  std::string kind = {};  ///< empty: any
};

struct EnqueuedJob {
  Job job;
  bool joined = false;  ///< true: an unfinished job with the same dedupe key, not a new one
};

/// How a job ended.
struct JobEnd {
  JobState state = JobState::done;  ///< done, failed or cancelled
  std::string result = {};          ///< of done
  std::optional<Error> error = {};  ///< of failed
};

/// Which running jobs count as orphans: those whose lease has run out, those of one owner (a service that knows its
/// earlier self to be dead), or all (a service that knows itself to be the only one).
struct OrphanRule {
  bool everyone = false;
  std::string owner = {};  ///< empty: nobody's
};

struct StoreStatistics {
  std::int64_t devices = 0, fragments = 0, workloads = 0, plans = 0, incumbents = 0, kernels = 0, artifacts = 0;
  std::int64_t candidates = 0, measurements = 0, models = 0, promotions = 0;
  std::int64_t jobs[5] = {};                 ///< by JobState
  std::int64_t incumbents_by_label[4] = {};  ///< by Label
  std::int64_t artifact_raw_bytes = 0, artifact_stored_bytes = 0;
  std::int64_t file_bytes = 0, log_bytes = 0;  ///< database file and write-ahead log
};

/// What may go: finished jobs with their events, and superseded or withdrawn plans, older than these wall times (µs; 0
/// keeps all), then the kernels and generated artifacts (source, ptx, cubin, log) that nothing refers to any more; and
/// files of models that no unfinished job needs.
struct PrunePolicy {
  std::int64_t jobs_before_us = 0;
  std::int64_t plans_before_us = 0;
  std::int64_t models_before_us = 0;
};
struct PruneReport {
  std::int64_t jobs = 0, plans = 0, kernels = 0, artifacts = 0, models = 0;
};

/// Everything about one fragment, to be moved between stores: each record once, plans in the order in which they were
/// stored, and whatever plans and candidates refer to.
struct FragmentBundle {
  FragmentRecord fragment;
  std::vector<Device> devices;
  std::vector<Artifact> artifacts;
  std::vector<Kernel> kernels;
  std::vector<PlanRecord> plans;
  std::vector<Candidate> candidates;
  std::vector<MeasurementRecord> measurements;
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

}  // namespace stitch::db
