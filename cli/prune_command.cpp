#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "db/sqlite_store.h"
#include "tuning/plans/record_summary.h"

namespace stitch::cli {
namespace {

struct PruneOptions {
  std::filesystem::path database;
  int days = 30;
  bool json = false;
};

Result<ExitCode> prune(const PruneOptions& options) {
  const SystemClock clock;
  db::SqliteOptions database;
  database.path = options.database;
  database.create = false;
  STITCH_ASSIGN(const auto store, db::open_sqlite_store(database, clock));
  const std::int64_t before = clock.wall_us() - std::chrono::microseconds(std::chrono::days(options.days)).count();
  STITCH_ASSIGN(const db::PruneReport pruned, store->prune({before, before, before}));
  if (options.json) {
    std::printf("%s\n", tuning::summarise(pruned).dump().c_str());
  } else {
    std::puts(fmt::format("dropped {} finished jobs, {} plans, {} kernels, {} artifacts, {} model files", pruned.jobs,
                          pruned.plans, pruned.kernels, pruned.artifacts, pruned.models)
                  .c_str());
  }
  return ExitCode::success;
}

}  // namespace

void add_prune_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* command = app.add_subcommand("prune", "Drop what a database no longer needs; what was measured stays");
  command->add_option("--db", options->database, "database file")->required();
  command
      ->add_option("--older-than", options->days,
                   "days; of finished jobs, unmeasured plans that were overtaken, models' files")
      ->check(CLI::Range(0, 36'500))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    const Result<ExitCode> result = prune(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
