#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/plan_check.h"
#include "client/emulated_executor.h"
#include "db/portable.h"
#include "db/sqlite_store.h"
#include "graph/codec/codec.h"
#include "tuning/devices/device_set.h"
#include "tuning/plans/plan_record.h"

namespace stitch::cli {
namespace {

struct VerifyOptions {
  std::filesystem::path file, database;
  std::string device = "emulated";
  std::int64_t most_bytes = std::int64_t{256} << 20;
  PlanCheckOptions check;
  bool json = false;
};

/// One plan's row of the report.
struct Row {
  db::PlanRecord plan;
  std::string outcome;  ///< "right", "wrong", "skipped"
  std::string why;
  std::int64_t compared = 0;
};

Result<Row> verify_plan(const db::PlanRecord& listed, const db::Store& store, client::Executor& executor,
                        const VerifyOptions& options) {
  Row row;
  STITCH_ASSIGN(row.plan, store.get_plan(listed.id));
  STITCH_ASSIGN(const db::FragmentRecord fragment, store.get_fragment(row.plan.key.fragment));
  if (fragment.parameter_bytes > options.most_bytes) {
    row.outcome = "skipped";
    row.why = fmt::format("inputs and results of {} bytes; --most-bytes allows more", fragment.parameter_bytes);
    return row;
  }
  STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
  STITCH_ASSIGN(const api::Plan plan, tuning::plan_from_record(row.plan));
  const auto artifact = [&](const Sha256& hash) -> Result<std::string> {
    STITCH_ASSIGN(db::Artifact found, store.get_artifact(hash));
    return std::move(found.bytes);
  };
  STITCH_ASSIGN(const PlanCheck check, check_plan(plan, graph, artifact, executor, options.check));
  row.outcome = check.correct ? "right" : "wrong";
  row.why = check.failure;
  row.compared = check.compared;
  return row;
}

Result<std::vector<Row>> verify_store(const db::Store& store, const VerifyOptions& options) {
  STITCH_ASSIGN(const db::IntegrityReport integrity, store.integrity_check(true));
  if (!integrity.problems.empty()) return make_error(ErrorKind::corrupt, "{}", integrity.problems.front());
  RealFileSystem files;
  const SystemClock clock;
  tuning::DeviceOptions where;
  where.name = options.device;
  STITCH_ASSIGN(const auto devices, tuning::DeviceSet::open(where, files, clock));
  client::EmulatedExecutor executor(devices->verifier());
  std::vector<Row> rows;
  db::Page page{.limit = 1000};
  do {
    STITCH_ASSIGN(const auto listing, store.list_plans({.status = db::PlanStatus::incumbent}, page));
    for (const db::PlanRecord& plan : listing.items) {
      Result<Row> row = verify_plan(plan, store, executor, options);
      if (!row) return row.error().within(fmt::format("plan {}", plan.id.hex()));
      rows.push_back(std::move(*row));
      if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%zu plans", rows.size());
    }
    page.after = listing.next;
  } while (page.after != 0);
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
  return rows;
}

ExitCode print(const std::vector<Row>& rows, bool as_json) {
  std::map<std::string, int> counts = {{"right", 0}, {"wrong", 0}, {"skipped", 0}};
  nlohmann::ordered_json plans = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    ++counts[row.outcome];
    nlohmann::ordered_json plan = {{"plan", row.plan.id.hex()},
                                   {"fragment", row.plan.key.fragment.hex()},
                                   {"outcome", row.outcome},
                                   {"compared", row.compared}};
    if (!row.why.empty()) plan["why"] = row.why;
    plans.push_back(std::move(plan));
    if (!as_json) {
      std::puts(fmt::format("{:<8} {}  {} elements compared{}{}", row.outcome, row.plan.id.hex(), row.compared,
                            row.why.empty() ? "" : "  ", row.why)
                    .c_str());
    }
  }
  if (as_json) {
    const nlohmann::ordered_json object = {{"right", counts["right"]},
                                           {"wrong", counts["wrong"]},
                                           {"skipped", counts["skipped"]},
                                           {"plans", std::move(plans)}};
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::printf("%d right, %d wrong, %d skipped\n", counts["right"], counts["wrong"], counts["skipped"]);
  }
  return counts["wrong"] == 0 ? ExitCode::success : ExitCode::failure;
}

Result<ExitCode> verify(const VerifyOptions& options) {
  const SystemClock clock;
  db::SqliteOptions database;
  database.path = options.database;
  std::optional<TemporaryFolder> scratch;
  if (!options.file.empty()) {
    STITCH_ASSIGN(auto folder, TemporaryFolder::make("verify"));
    database.path = scratch.emplace(std::move(folder)) / "imported.db";
  } else {
    database.read_only = true;
    database.create = false;
  }
  STITCH_ASSIGN(const auto store, db::open_sqlite_store(database, clock));
  if (scratch) {
    STITCH_ASSIGN(const db::MergeReport merged, db::import_fragments(*store, options.file));
    (void)merged;
  }
  STITCH_ASSIGN(const std::vector<Row> rows, verify_store(*store, options));
  return print(rows, options.json);
}

}  // namespace

void add_verify_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Run stored plans again and compare them with the reference");
  CLI::Option_group* place = command->add_option_group("where", "whose plans are verified");
  place->add_option("file", options->file, "portable file that `stitch export` wrote");
  place->add_option("--db", options->database, "database file");
  place->require_option(1);
  command->add_option("--device", options->device, "where the plans run: emulated, gpu:N")
      ->check(device_name())
      ->capture_default_str();
  command->add_option("--seed", options->check.seed, "of the inputs")->capture_default_str();
  command->add_option("--most-bytes", options->most_bytes, "skip fragments with larger inputs and results together")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    const Result<ExitCode> result = verify(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
