#include "db/sqlite_store.h"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <utility>

#include "db/artifact_table.h"
#include "db/candidate_table.h"
#include "db/change_mark.h"
#include "db/connection_pool.h"
#include "db/database_file.h"
#include "db/fragment_bundle.h"
#include "db/fragment_table.h"
#include "db/incumbency.h"
#include "db/job_table.h"
#include "db/measurement_table.h"
#include "db/migrations.h"
#include "db/model_table.h"
#include "db/plan_lookup.h"
#include "db/plan_table.h"
#include "db/sqlite.h"
#include "db/upkeep.h"

namespace stitch::db {
namespace {

using sqlite::Connection;
using sqlite::OpenOptions;
using sqlite::Transaction;

OpenOptions connection_options(const SqliteOptions& options) {
  OpenOptions connection;
  connection.path = options.path;
  connection.busy_timeout_ms = options.busy_timeout_ms;
  connection.max_pages = options.max_pages;
  connection.vfs = options.vfs;
  return connection;
}

/// The interface over the table modules: gives each operation its connection and its transaction.
class SqliteStore final : public Store {
 public:
  /// `writer` is null in a read-only store, and then there is no mark, which is the writer's.
  SqliteStore(const SqliteOptions& options, const Clock& clock, std::unique_ptr<Connection> writer,
              std::optional<ChangeMark> mark)
      : options_(options),
        clock_(clock),
        writer_(std::move(writer)),
        mark_(mark),
        readers_(connection_options(options), options.readers) {}

  std::optional<StoreVersion> version() const override { return mark_ ? mark_->read() : std::nullopt; }
  Status put_device(const Device& device) override {
    return write([&](Connection& c) { return tables::upsert_device(c, device); });
  }
  Result<Device> get_device(std::string_view key) const override {
    return read([&](Connection& c) { return tables::select_device(c, key); });
  }
  Result<std::vector<Device>> list_devices() const override { return read(tables::select_devices); }

  Status put_fragment(const FragmentRecord& fragment) override {
    return without_value(write([&](Connection& c) { return tables::insert_fragment(c, fragment); }));
  }
  Result<FragmentRecord> get_fragment(const Hash128& key) const override {
    return read([&](Connection& c) { return tables::select_fragment(c, key); });
  }
  Result<Listing<FragmentSummary>> list_fragments(const Page& page) const override {
    return read([&](Connection& c) { return tables::select_fragments(c, page); });
  }
  Status put_workload(const Workload& workload) override {
    return write([&](Connection& c) { return tables::upsert_workload(c, workload); });
  }
  Result<Workload> get_workload(const Sha256& key) const override {
    return read([&](Connection& c) { return tables::select_workload(c, key); });
  }
  Result<Listing<Workload>> list_workloads(const Page& page) const override {
    return read([&](Connection& c) { return tables::select_workloads(c, page); });
  }

  Status put_program(const ProgramRecord& program) override {
    return write([&](Connection& c) { return tables::upsert_program(c, program); });
  }
  Result<ProgramRecord> get_program(const Sha256& model, std::string_view device) const override {
    return read([&](Connection& c) { return tables::select_program(c, model, device); });
  }
  Result<Listing<ProgramRecord>> list_programs(const std::optional<std::string>& name,
                                               const Page& page) const override {
    return read([&](Connection& c) { return tables::select_programs(c, name, page); });
  }

  Result<PutPlan> put_plan(const PlanBundle& bundle, Admission admission) override {
    return write([&](Connection& c) { return tables::insert_plan(c, bundle, admission); });
  }
  Result<std::vector<PutPlan>> put_plans(std::span<const PlanBundle> bundles, Admission admission) override {
    return write([&](Connection& c) -> Result<std::vector<PutPlan>> {
      std::vector<PutPlan> all;
      for (const PlanBundle& bundle : bundles) {
        STITCH_ASSIGN(const PutPlan put, tables::insert_plan(c, bundle, admission));
        all.push_back(put);
      }
      return all;
    });
  }
  Result<Lookup> find_plan(const PlanKey& key, const std::optional<Hash128>& family) const override {
    return read([&](Connection& c) { return tables::find_plan(c, key, family); });
  }
  Result<std::optional<PlanRecord>> find_stale_plan(const PlanKey& key) const override {
    return read([&](Connection& c) { return tables::select_stale_plan(c, key); });
  }
  Result<std::optional<PlanRecord>> served_plan(const PlanKey& key) const override {
    return read([&](Connection& c) { return tables::select_served(c, key); });
  }
  Result<PlanRecord> get_plan(const Hash128& id) const override {
    return read([&](Connection& c) { return tables::select_plan(c, id); });
  }
  Result<PlanBundle> get_plan_bundle(const Hash128& id) const override {
    return read([&](Connection& c) { return tables::select_plan_bundle(c, id); });
  }
  Result<Listing<PlanRecord>> list_plans(const PlanFilter& filter, const Page& page) const override {
    return read([&](Connection& c) { return tables::select_plans(c, filter, page); });
  }
  Status judge_plan(const Hash128& id, const PlanJudgement& judgement) override {
    return write([&](Connection& c) { return tables::judge_plan(c, id, judgement); });
  }
  Result<std::int64_t> promote(const Hash128& id, std::string_view reason, const Provenance& provenance) override {
    return write([&](Connection& c) { return tables::promote(c, id, reason, provenance); });
  }
  Result<std::int64_t> announce(const Hash128& id, std::string_view reason, const Provenance& provenance) override {
    return write([&](Connection& c) { return tables::announce(c, id, reason, provenance); });
  }
  Status withdraw(const Hash128& id, std::string_view reason, const Provenance& provenance) override {
    return write([&](Connection& c) { return tables::withdraw(c, id, reason, provenance); });
  }
  Result<Listing<Promotion>> list_promotions(const Page& page) const override {
    return read([&](Connection& c) { return tables::select_promotions(c, page); });
  }
  Result<std::int64_t> last_promotion() const override {
    return read([&](Connection& c) { return c.integer("SELECT coalesce(max(sequence), 0) FROM promotion"); });
  }

  Result<Kernel> get_kernel(const Hash128& hash) const override {
    return read([&](Connection& c) { return tables::select_kernel(c, hash); });
  }
  Status put_artifact(const Artifact& artifact) override {
    return without_value(write([&](Connection& c) { return tables::insert_artifact(c, artifact); }));
  }
  Result<Artifact> get_artifact(const Sha256& hash) const override {
    return read([&](Connection& c) { return tables::select_artifact(c, hash); });
  }
  Status put_upload(const Upload& upload) override {
    return without_value(write([&](Connection& c) { return tables::insert_upload(c, upload); }));
  }
  Result<Upload> get_upload(const Sha256& hash) const override {
    return read([&](Connection& c) { return tables::select_upload(c, hash); });
  }

  Status record_candidates(std::span<const Candidate> candidates) override {
    return write([&](Connection& c) -> Status {
      for (const Candidate& candidate : candidates) STITCH_TRY(tables::upsert_candidate(c, candidate));
      return {};
    });
  }
  Result<Listing<Candidate>> list_candidates(const CandidateFilter& filter, const Page& page) const override {
    return read([&](Connection& c) { return tables::select_candidates(c, filter, page); });
  }
  Result<Hash128> record_measurement(const MeasurementRecord& measurement) override {
    return write([&](Connection& c) -> Result<Hash128> {
      STITCH_ASSIGN(const tables::RecordedMeasurement recorded, tables::insert_measurement(c, measurement));
      return recorded.id;
    });
  }
  Result<std::vector<MeasurementRecord>> list_measurements(const Hash128& subject) const override {
    return read([&](Connection& c) { return tables::select_measurements(c, subject); });
  }

  Result<int> put_model(const CostModelRecord& model) override {
    return write([&](Connection& c) { return tables::insert_model(c, model); });
  }
  Result<CostModelRecord> get_model(std::string_view name, std::string_view device,
                                    std::optional<int> version) const override {
    return read([&](Connection& c) { return tables::select_model(c, name, device, version); });
  }
  Result<std::vector<CostModelRecord>> list_models() const override { return read(tables::select_models); }

  Result<EnqueuedJob> enqueue_job(const Job& job) override {
    return write([&](Connection& c) { return tables::enqueue_job(c, job, options_.max_queued_jobs, now()); });
  }
  Result<std::optional<Job>> claim_job(std::string_view owner, std::int64_t lease_us,
                                       std::span<const std::string> kinds) override {
    return write([&](Connection& c) { return tables::claim_job(c, owner, lease_us, kinds, now()); });
  }
  Result<bool> renew_job(std::int64_t id, std::int64_t fence, std::int64_t lease_us) override {
    return write([&](Connection& c) { return tables::renew_job(c, id, fence, lease_us, now()); });
  }
  Status report_progress(std::int64_t id, std::int64_t fence, double progress, std::string_view detail,
                         std::string_view event_kind) override {
    return write(
        [&](Connection& c) { return tables::report_progress(c, id, fence, progress, detail, event_kind, now()); });
  }
  Status finish_job(std::int64_t id, std::int64_t fence, const JobEnd& end) override {
    return write([&](Connection& c) { return tables::finish_job(c, id, fence, end, now()); });
  }
  Result<Job> cancel_job(std::int64_t id) override {
    return write([&](Connection& c) { return tables::cancel_job(c, id, now()); });
  }
  Result<std::vector<std::int64_t>> requeue_orphans(const OrphanRule& rule) override {
    return write([&](Connection& c) { return tables::requeue_orphans(c, rule, now()); });
  }
  Result<Job> get_job(std::int64_t id) const override {
    return read([&](Connection& c) { return tables::select_job(c, id); });
  }
  Result<std::optional<Job>> find_unfinished_job(std::string_view dedupe_key) const override {
    return read([&](Connection& c) { return tables::select_unfinished_job(c, dedupe_key); });
  }
  Result<Listing<Job>> list_jobs(const JobFilter& filter, const Page& page) const override {
    return read([&](Connection& c) { return tables::select_jobs(c, filter, page); });
  }
  Result<Listing<JobEvent>> list_job_events(std::int64_t job, const Page& page) const override {
    return read([&](Connection& c) { return tables::select_job_events(c, job, page); });
  }

  Result<FragmentBundle> get_fragment_bundle(const Hash128& key) const override {
    return read([&](Connection& c) { return tables::select_fragment_bundle(c, key); });
  }
  Result<MergeReport> merge_fragment(const FragmentBundle& bundle) override {
    return write([&](Connection& c) { return tables::merge_fragment(c, bundle); });
  }
  Result<StoreStatistics> statistics() const override {
    STITCH_ASSIGN(StoreStatistics statistics, read(tables::count_records));
    std::error_code ignored;
    const auto size_of = [&](const std::filesystem::path& path) {
      const auto size = std::filesystem::file_size(path, ignored);
      return ignored ? 0 : static_cast<std::int64_t>(size);
    };
    statistics.file_bytes = size_of(options_.path);
    statistics.log_bytes = size_of(log_path(options_.path));
    return statistics;
  }
  Result<PruneReport> prune(const PrunePolicy& policy) override {
    return write([&](Connection& c) { return tables::prune(c, policy); });
  }
  Result<IntegrityReport> integrity_check(bool deep) const override {
    return read([&](Connection& c) { return tables::check_integrity(c, deep); });
  }

 private:
  [[nodiscard]] std::int64_t now() const { return clock_.wall_us(); }

  template <class T>
  static Status without_value(const Result<T>& result) {
    if (!result) return result.error();
    return {};
  }

  /// Runs an operation on a snapshot of its own.
  template <class Operation>
  std::invoke_result_t<Operation, Connection&> read(const Operation& operation) const {
    STITCH_ASSIGN(ConnectionPool::Loan connection, readers_.borrow());
    STITCH_ASSIGN(Transaction transaction, Transaction::begin(*connection, Transaction::Kind::read));
    return operation(*connection);
  }

  /// Runs an operation and commits what it did if it succeeds.
  template <class Operation>
  std::invoke_result_t<Operation, Connection&> write(const Operation& operation) {
    if (!writer_) return make_error(ErrorKind::io, "{} was opened read-only", options_.path.string());
    const std::lock_guard lock(writing_);
    STITCH_ASSIGN(Transaction transaction, Transaction::begin(*writer_, Transaction::Kind::write));
    auto result = operation(*writer_);
    if (result) STITCH_TRY(transaction.commit());
    return result;
  }

  const SqliteOptions options_;
  const Clock& clock_;
  std::mutex writing_;
  const std::unique_ptr<Connection> writer_;  // used under writing_
  const std::optional<ChangeMark> mark_;
  mutable ConnectionPool readers_;
};

/// A connection for writing to a file of the newest version, migrated if need be.
Result<std::unique_ptr<Connection>> open_writer(const SqliteOptions& options, int version, const Clock& clock) {
  OpenOptions writing = connection_options(options);
  writing.mode = OpenOptions::Mode::read_write;
  STITCH_ASSIGN(std::unique_ptr<Connection> writer, Connection::open(writing));
  if (version < schema_version()) {
    STITCH_TRY(writer->run_script("PRAGMA foreign_keys=OFF"));
    STITCH_TRY(migrate(*writer, migrations(), clock.wall_us()));
    STITCH_TRY(writer->run_script("PRAGMA foreign_keys=ON"));
    STITCH_TRY(check_schema(*writer, schema_version()));
  }
  STITCH_ASSIGN(sqlite::Statement mode, writer->query("PRAGMA journal_mode=WAL"));
  STITCH_ASSIGN(const bool answered, mode.step());
  if (!answered || mode.bytes(0) != "wal")
    return make_error(ErrorKind::io, "{}: this file system does not allow a write-ahead log", options.path.string());
  return writer;
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options, const Clock& clock) {
  std::error_code code;
  SqliteOptions absolute = options;
  absolute.path = std::filesystem::absolute(options.path, code);
  if (!std::filesystem::exists(absolute.path, code)) {
    if (options.read_only || !options.create)
      return make_error(ErrorKind::not_found, "no database {}", absolute.path.string());
    STITCH_TRY(create_database(connection_options(absolute), clock.wall_us()));
  }
  STITCH_ASSIGN(const int version, inspect_database(connection_options(absolute), options.check_on_open));
  if (options.read_only && version < schema_version())
    return make_error(ErrorKind::version_mismatch,
                      "{} has schema version {} and must be migrated to {}: open it for "
                      "writing once",
                      absolute.path.string(), version, schema_version());
  std::unique_ptr<Connection> writer;
  std::optional<ChangeMark> mark;
  if (!options.read_only) {
    STITCH_ASSIGN(writer, open_writer(absolute, version, clock));
    STITCH_ASSIGN(mark, ChangeMark::of(*writer));
  }
  return std::unique_ptr<Store>(std::make_unique<SqliteStore>(absolute, clock, std::move(writer), mark));
}

}  // namespace stitch::db
