#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "db/portable.h"
#include "db/sqlite_store.h"

namespace stitch::cli {
namespace {

struct TransferOptions {
  std::filesystem::path database, file;
  std::vector<std::string> fragments;
  bool json = false;
};

Result<std::vector<Hash128>> chosen_fragments(const db::Store& store, const std::vector<std::string>& texts) {
  std::vector<Hash128> keys;
  for (const std::string& text : texts) {
    const std::optional<Hash128> key = Hash128::from_hex(text);
    if (!key) return make_error(ErrorKind::invalid_argument, "'{}' is not a key of 32 hexadecimal digits", text);
    keys.push_back(*key);
  }
  if (!keys.empty()) return keys;
  db::Page page{.limit = 1000};
  do {
    STITCH_ASSIGN(const auto listing, store.list_fragments(page));
    for (const db::FragmentSummary& fragment : listing.items) keys.push_back(fragment.key);
    page.after = listing.next;
  } while (page.after != 0);
  return keys;
}

Result<ExitCode> export_plans(const TransferOptions& options) {
  const SystemClock clock;
  db::SqliteOptions database;
  database.path = options.database;
  database.read_only = true;
  database.create = false;
  STITCH_ASSIGN(const auto store, db::open_sqlite_store(database, clock));
  STITCH_ASSIGN(const std::vector<Hash128> keys, chosen_fragments(*store, options.fragments));
  STITCH_TRY(db::export_fragments(*store, keys, options.file));
  if (options.json) {
    std::printf("%s\n", nlohmann::json{{"fragments", keys.size()}}.dump().c_str());
  } else {
    std::printf("%zu fragments written to %s\n", keys.size(), options.file.c_str());
  }
  return ExitCode::success;
}

Result<ExitCode> import_plans(const TransferOptions& options) {
  const SystemClock clock;
  db::SqliteOptions database;
  database.path = options.database;
  STITCH_ASSIGN(const auto store, db::open_sqlite_store(database, clock));
  STITCH_ASSIGN(const db::MergeReport merged, db::import_fragments(*store, options.file));
  if (options.json) {
    const nlohmann::ordered_json object = {
        {"fragments", merged.fragments}, {"plans", merged.plans},           {"kernels", merged.kernels},
        {"artifacts", merged.artifacts}, {"candidates", merged.candidates}, {"measurements", merged.measurements},
        {"known", merged.known}};
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::puts(fmt::format("{} fragments, {} plans, {} kernels are new; {} records were known", merged.fragments,
                          merged.plans, merged.kernels, merged.known)
                  .c_str());
  }
  return ExitCode::success;
}

CLI::App* add(CLI::App& app, const char* name, const char* about, Result<ExitCode> (*run)(const TransferOptions&),
              const std::shared_ptr<TransferOptions>& options, ExitCode& code) {
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("file", options->file, "portable file (db/FORMAT.md)")->required();
  command->add_option("--db", options->database, "database file")->required();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, run, &code] {
    const Result<ExitCode> result = run(*options);
    code = result ? *result : report(result.error(), options->json);
  });
  return command;
}

}  // namespace

void add_transfer_commands(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<TransferOptions>();
  CLI::App* command = add(app, "export", "Write fragments with their plans to one file", export_plans, options, code);
  command->add_option("--fragment", options->fragments, "key of a fragment; all when none is given");
  add(app, "import", "Merge such a file into a database", import_plans, std::make_shared<TransferOptions>(), code);
}

}  // namespace stitch::cli
