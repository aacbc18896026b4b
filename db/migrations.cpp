#include "db/migrations.h"

#include <map>

#include "base/version.h"
#include "db/content_names.h"

namespace stitch::db {
namespace {

// Columns, units and invariants are explained in FORMAT.md. The five columns of provenance end every table.
constexpr const char* version_1 = R"(
CREATE TABLE schema_version (
  version INTEGER PRIMARY KEY,
  applied_us INTEGER NOT NULL,
  tool TEXT NOT NULL
) STRICT;

CREATE TABLE device (
  key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('gpu', 'emulated', 'recorded')),
  target TEXT NOT NULL,
  name TEXT NOT NULL,
  architecture TEXT NOT NULL,
  driver TEXT NOT NULL,
  sm_count INTEGER NOT NULL CHECK (sm_count >= 0),
  memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
  constants TEXT NOT NULL,
  calibrated_us INTEGER NOT NULL CHECK (calibrated_us >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('source', 'ptx', 'cubin', 'graph', 'model', 'log', 'recording')),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  data BLOB NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;

CREATE TABLE fragment (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 16),
  family BLOB NOT NULL CHECK (length(family) = 16),
  name TEXT NOT NULL,
  graph BLOB NOT NULL REFERENCES artifact (hash),
  operator_count INTEGER NOT NULL CHECK (operator_count >= 0),
  parameter_bytes INTEGER NOT NULL CHECK (parameter_bytes >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX fragment_family ON fragment (family);
CREATE INDEX fragment_graph ON fragment (graph);

CREATE TABLE workload (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 16),
  name TEXT NOT NULL,
  format TEXT NOT NULL CHECK (format <> ''),
  report TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;

CREATE TABLE workload_part (
  workload INTEGER NOT NULL REFERENCES workload (row) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  fragment BLOB NOT NULL REFERENCES fragment (key),
  occurrences INTEGER NOT NULL CHECK (occurrences > 0),
  PRIMARY KEY (workload, position),
  UNIQUE (workload, fragment)
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_part_fragment ON workload_part (fragment);

CREATE TABLE kernel (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 16),
  name TEXT NOT NULL CHECK (name <> ''),
  architecture TEXT NOT NULL CHECK (architecture <> ''),
  options TEXT NOT NULL,
  source BLOB NOT NULL REFERENCES artifact (hash),
  ptx BLOB NOT NULL REFERENCES artifact (hash),
  cubin BLOB NOT NULL REFERENCES artifact (hash),
  launch TEXT NOT NULL,
  registers INTEGER NOT NULL CHECK (registers >= 0),
  shared_bytes INTEGER NOT NULL CHECK (shared_bytes >= 0),
  stack_bytes INTEGER NOT NULL CHECK (stack_bytes >= 0),
  spill_store_bytes INTEGER NOT NULL CHECK (spill_store_bytes >= 0),
  spill_load_bytes INTEGER NOT NULL CHECK (spill_load_bytes >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX kernel_source ON kernel (source);
CREATE INDEX kernel_ptx ON kernel (ptx);
CREATE INDEX kernel_cubin ON kernel (cubin);

CREATE TABLE target (
  row INTEGER PRIMARY KEY,
  device TEXT NOT NULL CHECK (device <> ''),
  architecture TEXT NOT NULL CHECK (architecture <> ''),
  toolkit TEXT NOT NULL CHECK (toolkit <> ''),
  version TEXT NOT NULL CHECK (version <> ''),
  UNIQUE (device, architecture, toolkit, version)
) STRICT;

CREATE TABLE plan (
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  document TEXT NOT NULL,
  bytes INTEGER NOT NULL CHECK (bytes >= 0),
  label TEXT NOT NULL CHECK (label IN ('measured', 'near', 'predicted', 'default')),
  status TEXT NOT NULL CHECK (status IN ('challenger', 'incumbent', 'superseded', 'withdrawn')),
  predicted_us REAL NOT NULL CHECK (predicted_us >= 0),
  measured_us REAL CHECK (measured_us >= 0),
  verified_share REAL NOT NULL CHECK (verified_share BETWEEN 0 AND 1),
  sequence INTEGER NOT NULL CHECK (sequence >= 0),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  CHECK ((label = 'measured') = (measured_us IS NOT NULL)),
  CHECK (status <> 'incumbent' OR sequence > 0)
) STRICT;
CREATE UNIQUE INDEX plan_incumbent ON plan (fragment, target) WHERE status = 'incumbent';
CREATE INDEX plan_fragment ON plan (fragment);

CREATE TABLE plan_step (
  plan INTEGER NOT NULL REFERENCES plan (row) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  kernel BLOB NOT NULL REFERENCES kernel (hash),
  arguments TEXT NOT NULL,
  PRIMARY KEY (plan, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_step_kernel ON plan_step (kernel);

CREATE TABLE promotion (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  plan BLOB CHECK (length(plan) = 16),
  previous BLOB CHECK (length(previous) = 16),
  reason TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  CHECK (plan IS NOT NULL OR previous IS NOT NULL)
) STRICT;
CREATE INDEX promotion_fragment ON promotion (fragment);

CREATE TABLE candidate (
  row INTEGER PRIMARY KEY,
  fragment BLOB NOT NULL REFERENCES fragment (key),
  target INTEGER NOT NULL REFERENCES target (row),
  scope TEXT NOT NULL CHECK (scope IN ('kernel', 'plan')),
  schedule TEXT NOT NULL,
  schedule_hash BLOB NOT NULL CHECK (length(schedule_hash) = 16),
  outcome TEXT NOT NULL CHECK (outcome IN
    ('untested', 'correct', 'constraint', 'compile', 'timeout', 'runtime', 'correctness')),
  detail TEXT NOT NULL,
  seed INTEGER NOT NULL,
  predicted_us REAL CHECK (predicted_us >= 0),
  kernel BLOB REFERENCES kernel (hash),
  verified_share REAL NOT NULL CHECK (verified_share BETWEEN 0 AND 1),
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  UNIQUE (fragment, target, schedule_hash)
) STRICT;
CREATE INDEX candidate_kernel ON candidate (kernel) WHERE kernel IS NOT NULL;

CREATE TABLE measurement (
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  subject_kind TEXT NOT NULL CHECK (subject_kind IN ('plan', 'kernel', 'schedule')),
  subject BLOB NOT NULL CHECK (length(subject) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('device time', 'event count')),
  device TEXT NOT NULL REFERENCES device (key),
  samples BLOB NOT NULL CHECK (length(samples) >= 8 AND length(samples) % 8 = 0),
  mean REAL NOT NULL,
  median REAL NOT NULL,
  minimum REAL NOT NULL,
  rsd REAL NOT NULL,
  dropped INTEGER NOT NULL CHECK (dropped >= 0),
  cold_l2 INTEGER NOT NULL CHECK (cold_l2 IN (0, 1)),
  sm_clock_mhz REAL,
  memory_clock_mhz REAL,
  temperature_c REAL,
  driver TEXT NOT NULL,
  method TEXT NOT NULL,
  stopped TEXT NOT NULL,
  conditions TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_subject ON measurement (subject);

CREATE TABLE job (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind <> ''),
  dedupe_key TEXT NOT NULL,
  priority INTEGER NOT NULL,
  payload BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  progress REAL NOT NULL CHECK (progress BETWEEN 0 AND 1),
  message TEXT NOT NULL,
  result BLOB NOT NULL,
  error_kind TEXT,
  error_message TEXT,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  owner TEXT NOT NULL,
  fence INTEGER NOT NULL CHECK (fence >= 0),
  lease_until_us INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
  created_us INTEGER NOT NULL,
  started_us INTEGER NOT NULL,
  finished_us INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  CHECK ((state = 'failed') = (error_kind IS NOT NULL)),
  CHECK ((error_kind IS NULL) = (error_message IS NULL))
) STRICT;
CREATE UNIQUE INDEX job_single_flight ON job (dedupe_key)
  WHERE dedupe_key <> '' AND state IN ('queued', 'running');
CREATE INDEX job_queue ON job (priority DESC, id) WHERE state = 'queued';
CREATE INDEX job_state ON job (state);

CREATE TABLE job_event (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  wall_us INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind <> ''),
  progress REAL NOT NULL CHECK (progress BETWEEN 0 AND 1),
  detail TEXT NOT NULL
) STRICT;
CREATE INDEX job_event_job ON job_event (job, sequence);
)";

// Version 1 did not say which plan a near one was taken from; without that it is no more than a prediction.
constexpr const char* version_2 = R"(
UPDATE plan SET label = 'predicted' WHERE label = 'near';

ALTER TABLE artifact ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE artifact SET stored_bytes = length(data);
CREATE INDEX artifact_sizes ON artifact (kind, raw_bytes, stored_bytes);

ALTER TABLE plan ADD COLUMN neighbour BLOB
  CHECK (neighbour IS NULL OR length(neighbour) = 16)
  CHECK ((label = 'near') = (neighbour IS NOT NULL));

ALTER TABLE job ADD COLUMN stalled INTEGER NOT NULL DEFAULT 0 CHECK (stalled >= 0);
ALTER TABLE job ADD COLUMN max_stalled INTEGER NOT NULL DEFAULT 10 CHECK (max_stalled >= 1);

CREATE TABLE quarantine (
  subject BLOB NOT NULL CHECK (length(subject) = 16),
  device TEXT NOT NULL CHECK (device <> ''),
  reason TEXT NOT NULL CHECK (reason <> ''),
  strikes INTEGER NOT NULL CHECK (strikes >= 1),
  first_us INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  PRIMARY KEY (subject, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE model (
  row INTEGER PRIMARY KEY,
  name TEXT NOT NULL CHECK (name <> ''),
  device TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  training_set BLOB NOT NULL CHECK (length(training_set) = 16),
  hash BLOB NOT NULL CHECK (length(hash) = 16),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  data BLOB NOT NULL,
  accuracy TEXT NOT NULL,
  seed INTEGER NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  UNIQUE (name, device, version)
) STRICT;
)";

// Nothing ever wrote to it: what is refused stands in quarantine.json, which commands without a database have too.
constexpr const char* version_3 = "DROP TABLE quarantine;";

// Names of contents have 32 bytes, which are 64 digits in plans; what clients sent has a table of its own. The names
// are made by rename_contents (db/content_names.h).
constexpr const char* version_4 = R"(
CREATE TABLE artifact_named (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  kind TEXT NOT NULL CHECK (kind IN ('source', 'ptx', 'cubin', 'graph', 'log', 'recording')),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  stored_bytes INTEGER NOT NULL CHECK (stored_bytes >= 0),
  data BLOB NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;

CREATE TABLE upload (
  row INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  stored_bytes INTEGER NOT NULL CHECK (stored_bytes >= 0),
  data BLOB NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
CREATE INDEX upload_sizes ON upload (raw_bytes, stored_bytes);

CREATE TABLE workload_named (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
  name TEXT NOT NULL,
  format TEXT NOT NULL CHECK (format <> ''),
  report TEXT NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL
) STRICT;
)";
constexpr const char* version_4_after = R"(
DROP TABLE artifact;
ALTER TABLE artifact_named RENAME TO artifact;
CREATE INDEX artifact_sizes ON artifact (kind, raw_bytes, stored_bytes);
DROP TABLE workload;
ALTER TABLE workload_named RENAME TO workload;
)";

// The structure of whole models, of which plans are composed into programs.
constexpr const char* version_5 = R"(
CREATE TABLE program (
  row INTEGER PRIMARY KEY,
  model BLOB NOT NULL CHECK (length(model) = 32) REFERENCES workload (key) ON DELETE CASCADE,
  id BLOB NOT NULL CHECK (length(id) = 16),
  device TEXT NOT NULL CHECK (device <> ''),
  name TEXT NOT NULL,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  data BLOB NOT NULL,
  tool TEXT NOT NULL, toolkit TEXT NOT NULL, judged_on TEXT NOT NULL, wall_us INTEGER NOT NULL, judged TEXT NOT NULL,
  UNIQUE (model, device)
) STRICT;
CREATE INDEX program_name ON program (name);
)";

constexpr Migration steps_so_far[] = {
    {1, "devices, fragments, workloads, artifacts, kernels, plans, candidates, measurements, jobs", version_1},
    {2, "near plans name their neighbour; sizes of artifacts; stalled jobs; quarantine; trained models", version_2},
    {3, "no quarantine", version_3},
    {4, "contents are named by SHA-256; uploads apart", version_4, rename_contents, version_4_after},
    {5, "programs of models", version_5},
};

Result<std::map<std::string, std::string>> objects(sqlite::Connection& connection) {
  STITCH_ASSIGN(sqlite::Statement rows,
                connection.query("SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL"));
  std::map<std::string, std::string> all;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return all;
    all[std::string(rows.bytes(0))] = std::string(rows.bytes(1));
  }
}

Status apply(sqlite::Connection& connection, const Migration& step, std::int64_t now_us) {
  STITCH_TRY(connection.run_script(step.sql));
  if (step.transform != nullptr) STITCH_TRY(step.transform(connection));
  if (step.sql_after != nullptr) STITCH_TRY(connection.run_script(step.sql_after));
  STITCH_TRY(connection.execute("INSERT INTO schema_version (version, applied_us, tool) VALUES (?, ?, ?)", step.version,
                                now_us, tool_version));
  return connection.run_script(fmt::format("PRAGMA user_version={}", step.version));
}

}  // namespace

std::span<const Migration> migrations() { return steps_so_far; }
int schema_version() { return steps_so_far[std::size(steps_so_far) - 1].version; }

Status migrate(sqlite::Connection& connection, std::span<const Migration> steps, std::int64_t now_us) {
  STITCH_ASSIGN(sqlite::Transaction transaction,
                sqlite::Transaction::begin(connection, sqlite::Transaction::Kind::write));
  STITCH_ASSIGN(const std::int64_t version, connection.integer("PRAGMA user_version"));
  for (const Migration& step : steps) {
    if (step.version <= version) continue;
    if (Status applied = apply(connection, step, now_us); !applied)
      return applied.error().within(fmt::format("migration to version {} ({})", step.version, step.subject));
  }
  STITCH_ASSIGN(sqlite::Statement dangling, connection.query("PRAGMA foreign_key_check"));
  STITCH_ASSIGN(const bool found, dangling.step());
  if (found)
    return make_error(ErrorKind::corrupt, "{}: table {} refers to a row of {} that is not there", connection.path(),
                      dangling.bytes(0), dangling.bytes(2));
  return transaction.commit();
}

Status check_schema(sqlite::Connection& connection, int version) {
  STITCH_ASSIGN(const std::unique_ptr<sqlite::Connection> reference, sqlite::Connection::open_memory());
  STITCH_TRY(migrate(*reference, migrations().first(version), 0));
  STITCH_ASSIGN(const auto expected, objects(*reference));
  STITCH_ASSIGN(const auto actual, objects(connection));
  for (const auto& [name, sql] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end())
      return make_error(ErrorKind::corrupt, "{}: {} is missing from the schema", connection.path(), name);
    if (found->second != sql)
      return make_error(ErrorKind::corrupt, "{}: {} is not what version {} has", connection.path(), name, version);
  }
  return {};
}

}  // namespace stitch::db
