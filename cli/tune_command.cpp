#include <csignal>
#include <cstdio>
#include <stop_token>

#include "cli/commands.h"
#include "daemon/model_tuning.h"
#include "db/sqlite_store.h"

namespace stitch::cli {
namespace {

struct TuneOptions {
  CommonOptions common;
  std::filesystem::path model;
  std::filesystem::path database;
  std::uint64_t seed = 1;
};

std::stop_source& interruption() {
  static std::stop_source source;
  return source;
}

/// Ctrl-C ends the work between two kernels; what was stored stays.
void stop_on_interrupt() {
  (void)interruption();
  std::signal(SIGINT, [](int) { interruption().request_stop(); });
}

ExitCode finish(const daemon::ModelTuning& tuning, bool json) {
  std::printf("%s\n", json ? daemon::to_json(tuning.report).c_str() : daemon::to_table(tuning.report).c_str());
  const bool sound = tuning.report.wrong_kernels == 0 && tuning.report.failures.empty();
  return sound ? ExitCode::success : ExitCode::failure;
}

Result<ExitCode> plan(const TuneOptions& options) {
  STITCH_ASSIGN(const auto session, Session::open(options.common));
  STITCH_ASSIGN(const auto bytes, session->files.read(options.model));
  stop_on_interrupt();
  STITCH_ASSIGN(const auto tuning,
                daemon::plan_model(bytes, options.model.filename().string(), *session->tuner,
                                   progress_display(options.common.quiet), interruption().get_token()));
  return finish(tuning, options.common.json);
}

Result<ExitCode> tune(const TuneOptions& options) {
  daemon::TunerOptions tuning_options;
  tuning_options.stitch.keep = 3;
  tuning_options.verify.seed = options.seed;
  STITCH_ASSIGN(const auto session, Session::open(options.common, tuning_options));
  STITCH_ASSIGN(const auto bytes, session->files.read(options.model));
  std::unique_ptr<db::Store> store;
  if (!options.database.empty()) {
    db::SqliteOptions database;
    database.path = options.database;
    STITCH_ASSIGN(store, db::open_sqlite_store(database, session->clock));
    db::Device device;
    const profiler::DeviceIdentity& identity = session->device->identity();
    device.key = identity.key, device.kind = identity.kind, device.name = identity.name;
    device.architecture = session->tuner->target().architecture;
    device.provenance = {"stitch", "", "", session->clock.wall_us(), "present"};
    STITCH_TRY(store->put_device(device));
  }
  const daemon::FragmentSink keep = [&](const daemon::TunedFragment& tuned, std::int64_t) -> Status {
    if (!store) return {};
    STITCH_TRY(store->put_fragment(tuned.fragment));
    STITCH_ASSIGN(const auto stored, store->put_plan(tuned.bundle, db::Admission::if_vacant));
    (void)stored;
    return store->record_candidates(tuned.candidates);
  };
  stop_on_interrupt();
  STITCH_ASSIGN(const auto tuning,
                daemon::tune_model(bytes, options.model.filename().string(), *session->tuner,
                                   progress_display(options.common.quiet), interruption().get_token(), keep));
  if (store && tuning.report.failures.empty()) STITCH_TRY(store->put_workload(tuning.workload));
  return finish(tuning, options.common.json);
}

void add(CLI::App& app, const char* name, const char* about, Result<ExitCode> (*run)(const TuneOptions&), bool stores,
         ExitCode& code) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("model", options->model, "model file: HLO text, ONNX or fragment; may be gzipped")->required();
  add_common_options(*command, options->common);
  if (stores) {
    command->add_option("--db", options->database, "database that the plans are stored in");
    command->add_option("--seed", options->seed, "of the inputs of verification")->capture_default_str();
  }
  command->callback([options, run, &code] {
    const Result<ExitCode> result = run(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace

void add_plan_command(CLI::App& app, ExitCode& code) {
  add(app, "plan", "Import a model, explore fusion plans and schedules, predict; nothing is compiled", plan, false,
      code);
}

void add_tune_command(CLI::App& app, ExitCode& code) {
  add(app, "tune", "Plan a model, generate, compile and verify its kernels, store the plans", tune, true, code);
}

}  // namespace stitch::cli
