#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/package_document.h"
#include "cli/commands.h"
#include "cli/lock/lock_check.h"
#include "cli/package/local_program.h"
#include "cli/remote.h"
#include "daemon/stitchd.h"
#include "db/sqlite_store.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LockOptions {
  CommonOptions common;
  std::vector<std::filesystem::path> models;
  std::filesystem::path output, check;
  std::filesystem::path database = daemon::StitchdOptions::default_database_path();
  std::string server;    ///< asked instead of the database
  std::string products;  ///< a word of tuning::products_words; empty: the library, or as the server has it
};

/// The program of a model as the database or the server has it.
Result<api::Program> program_of(const LockOptions& options, const std::filesystem::path& model, std::string bytes,
                                const Interruption& interruption) {
  if (!options.server.empty()) {
    STITCH_ASSIGN(const auto server, connect(options.server));
    client::FetchOptions asked;
    asked.predict = asked.improve = asked.complete = false;
    asked.name = model.filename().string();
    asked.constraints = options.common.constraints;
    asked.products = options.products;
    return server->make_program(std::move(bytes), asked);
  }
  STITCH_TRY(check_database(options.database, RealFileSystem()));
  LocalProgram wanted{
      .common = options.common, .name = model.filename().string(), .database = options.database, .makes = false};
  for (const auto& [word, products] : tuning::products_words) {
    if (word == options.products) wanted.products = products;
  }
  return make_local_program(wanted, bytes, interruption);
}

/// A file's programs: of a package all, each for another GPU, and a program as it is.
Status add_programs_of(const LockOptions& options, const std::filesystem::path& file, const FileSystem& files,
                       const Interruption& interruption, std::vector<api::Program>& programs) {
  STITCH_ASSIGN(std::string bytes, files.read(file));
  if (api::looks_like_package(bytes)) {
    STITCH_ASSIGN(api::Package package, api::decode_package(bytes));
    for (api::Program& program : package.programs) programs.push_back(std::move(program));
    return {};
  }
  if (api::looks_like_program(bytes)) {
    const bool json = file.extension() == ".json";
    STITCH_ASSIGN(programs.emplace_back(),
                  api::decode_program(bytes, json ? graph::Encoding::json : graph::Encoding::cbor));
    return {};
  }
  STITCH_ASSIGN(programs.emplace_back(), program_of(options, file, std::move(bytes), interruption));
  return {};
}

Result<std::vector<api::Program>> programs_of(const LockOptions& options, const FileSystem& files) {
  const Interruption interruption;
  std::vector<api::Program> programs;
  for (const std::filesystem::path& file : options.models) {
    const Status added = add_programs_of(options, file, files, interruption, programs);
    const bool is_named = added.ok() || added.error().kind == ErrorKind::cancelled ||
                          added.error().message.find(file.string()) != std::string::npos;
    if (!added) return is_named ? added.error() : added.error().within(file.string());
  }
  return programs;
}

Result<ExitCode> write(const LockOptions& options, FileSystem& files) {
  STITCH_ASSIGN(const std::vector<api::Program> programs, programs_of(options, files));
  const std::string text = api::lock_of(programs);
  std::int64_t fragments = 0, missing = 0;
  for (const api::Program& program : programs) {
    for (const api::ProgramFragment& fragment : program.fragments) {
      ++fragments;
      if (fragment.plan) continue;
      ++missing;
      std::fprintf(stderr, "stitch: %s: fragment %s has no plan: %s\n", program.model.c_str(),
                   fragment.key.hex().c_str(), fragment.why_none.c_str());
    }
  }
  if (!options.output.empty()) STITCH_TRY(files.publish(options.output, text));
  if (options.common.json) {
    const Json json = {
        {"programs", programs.size()}, {"fragments", fragments}, {"without_plan", missing}, {"lock", text}};
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else if (options.output.empty()) {
    std::printf("%s", text.c_str());
  } else {
    std::printf("%zu programs, %lld fragments, %lld without a plan\n", programs.size(),
                static_cast<long long>(fragments), static_cast<long long>(missing));
  }
  return missing == 0 ? ExitCode::success : ExitCode::failure;
}

Result<LockReport> look_at_plans(const LockOptions& options, const std::vector<api::LockedProgram>& locked) {
  if (!options.server.empty()) {
    client::ClientOptions asked;
    asked.server = full_address(options.server);
    asked.cache.clear();
    STITCH_ASSIGN(const auto server, client::Client::open(asked));
    return check_plans(locked, *holder_of(*server));
  }
  STITCH_TRY(check_database(options.database, RealFileSystem()));
  const SystemClock clock;
  db::SqliteOptions storage;
  storage.path = options.database;
  storage.read_only = true;
  STITCH_ASSIGN(const auto store, db::open_sqlite_store(storage, clock));
  return check_plans(locked, *holder_of(*store));
}

void print(const LockOptions& options, const LockReport& report) {
  if (options.common.json) {
    Json json = {{"programs", report.programs},
                 {"fragments", report.fragments},
                 {"artifacts", report.artifacts},
                 {"faults", Json::array()}};
    for (const LockFault& fault : report.faults) json["faults"].push_back({{"line", fault.line}, {"text", fault.text}});
    if (report.unknown_target) json["not_served_for"] = *report.unknown_target;
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  for (const LockFault& fault : report.faults)
    std::printf("%s, line %d: %s\n", options.check.c_str(), fault.line, fault.text.c_str());
  if (report.unknown_target) {
    std::printf("the server does not plan for %s: plans and code were looked for, not what is served\n",
                report.unknown_target->c_str());
  }
  std::printf("%zu programs, %zu fragments, %zu artifacts: %s\n", report.programs, report.fragments, report.artifacts,
              report.faults.empty() ? "as locked" : fmt::format("{} faults", report.faults.size()).c_str());
}

Result<ExitCode> check(const LockOptions& options, FileSystem& files) {
  STITCH_ASSIGN(const std::string text, files.read(options.check));
  const auto locked = api::parse_lock(text);
  if (!locked) return locked.error().within(options.check.string());
  STITCH_ASSIGN(LockReport report, look_at_plans(options, *locked));
  STITCH_ASSIGN(const std::vector<api::Program> programs, programs_of(options, files));
  for (const api::Program& program : programs) {
    const Status same = api::check_lock(text, program);
    if (!same) report.faults.push_back({1, fmt::format("{}: {}", program.model, same.error().message)});
  }
  print(options, report);
  return report.faults.empty() ? ExitCode::success : ExitCode::failure;
}

Result<ExitCode> lock(const LockOptions& options) {
  RealFileSystem files;
  if (!options.check.empty()) return check(options, files);
  return write(options, files);
}

}  // namespace

void add_lock_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<LockOptions>();
  CLI::App* command = app.add_subcommand(
      "lock", "Which plans and code models have in a database or on a server, as text; whether they still have them");
  command->add_option("models", options->models, "model files, programs or packages; with --check none are needed");
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  auto* output =
      command->add_option("-o,--output", options->output, "write the lock here; by default on standard output");
  command
      ->add_option("--check", options->check,
                   "a lock: say which plans or artifacts are missing or others (exit code 1); with models, whether "
                   "their programs are the locked ones, too")
      ->excludes(output);
  auto* database =
      command->add_option("--db,--database", options->database, "database that is asked; by default stitchd's");
  command->add_option("--server", options->server, "ask this stitchd: unix:PATH or http://HOST:PORT")
      ->excludes(database);
  std::vector<std::string> words;
  for (const auto& [word, products] : tuning::products_words) words.emplace_back(word);
  command
      ->add_option("--products", options->products,
                   "who multiplies matrices (stitch run --help); by default the library, or as the server has it")
      ->check(CLI::IsMember(words));
  command->callback([options, &code] {
    if (options->models.empty() && options->check.empty())
      throw CLI::ValidationError("models", "models are wanted, or --check with a lock");
    const Result<ExitCode> result = lock(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
