#include <cstdio>

#include "cli/commands.h"
#include "cli/faults.h"
#include "cli/interruption.h"
#include "cli/remote.h"
#include "tuning/models/model_tuning.h"

namespace stitch::cli {
namespace {

struct TuneOptions {
  CommonOptions common;
  std::filesystem::path model;
  std::filesystem::path database;
  std::string server;
  std::uint64_t seed = 1;
  std::string scorer = "auto";
  std::int64_t trials = 0;
  std::vector<std::string> donations;
  std::filesystem::path faults;  ///< empty: in the cache folder
};

ExitCode finish(const tuning::ModelReport& report, bool json) {
  std::printf("%s\n", json ? to_json(report).c_str() : to_table(report).c_str());
  const bool sound = report.wrong_kernels == 0 && report.failures.empty();
  return sound ? ExitCode::success : ExitCode::failure;
}

/// An error that arose from the model says in which file; one that was asked for, by a signal, needs no place.
Error in_model(const std::filesystem::path& model, const Error& error) {
  return error.kind == ErrorKind::cancelled ? error : error.within(model.string());
}

// (clang-format 14 takes a line that begins with `import` for a module's, hence the whole name.)
stitch::import::ImportOptions asked_of(const TuneOptions& options) {
  import::ImportOptions asked;
  asked.constraints = options.common.constraints;
  asked.donations = options.donations;
  return asked;
}

Result<ExitCode> plan(const TuneOptions& options) {
  const Interruption interruption;
  tuning::TunerOptions exploring;
  exploring.compiles = false;
  STITCH_ASSIGN(const auto session, Session::open(options.common, exploring));
  STITCH_ASSIGN(const auto bytes, session->files.read(options.model));
  const auto tuning =
      tuning::plan_model(bytes, options.model.filename().string(), *session->tuner,
                         progress_display(options.common.quiet), interruption.token(), asked_of(options));
  if (!tuning) return in_model(options.model, tuning.error());
  return finish(tuning->report, options.common.json);
}

/// The server has its own target, cache and database.
Result<ExitCode> tune_on_server(const TuneOptions& options) {
  const Interruption interruption;
  STITCH_ASSIGN(std::string bytes, RealFileSystem().read(options.model));
  STITCH_ASSIGN(const auto server, connect(options.server));
  const auto result =
      tune_remotely(*server, std::move(bytes), options.model.filename().string(), options.trials,
                    options.common.constraints, progress_display(options.common.quiet), interruption.token());
  if (!result) return in_model(options.model, result.error());
  STITCH_ASSIGN(const tuning::ModelReport model, tuning::model_report_from_json(*result));
  for (const std::string& fragment : model.fault_fragments) {
    std::fprintf(
        stderr,
        "stitch: our fault: kernels of fragment %s were wrong and are not used; please send in what %s answers "
        "to GET /v1/fragments/%s/fault\n",
        fragment.c_str(), options.server.c_str(), fragment.c_str());
  }
  return finish(model, options.common.json);
}

Result<ExitCode> tune(const TuneOptions& options) {
  if (!options.server.empty()) return tune_on_server(options);
  const Interruption interruption;
  tuning::TunerOptions tuning_options;
  tuning_options.stitch.keep = 3;
  tuning_options.verify.seed = options.seed;
  if (options.database.empty() && options.scorer == "combined")
    return make_error(ErrorKind::invalid_argument, "--scorer combined: cost models are in a database; name it by --db");
  STITCH_ASSIGN(const auto session, Session::open(options.common, tuning_options, {options.database, options.scorer}));
  if (options.trials > 0 && !session->tuner->measures())
    return make_error(ErrorKind::invalid_argument, "--trials: --device {} measures nothing", options.common.device);
  STITCH_ASSIGN(const auto bytes, session->files.read(options.model));
  std::unique_ptr<tuning::RememberingTuner> store;
  if (session->store != nullptr) {
    STITCH_ASSIGN(store, tuning::RememberingTuner::open(*session->store, *session->tuner, session->clock));
  }
  const auto tuning = tuning::tune_model(bytes, options.model.filename().string(), *session->tuner,
                                         progress_display(options.common.quiet), interruption.token(), store.get(),
                                         options.trials, asked_of(options));
  if (!tuning) return in_model(options.model, tuning.error());
  STITCH_TRY(write_faults(tuning->faults, options.common, options.faults, session->files));
  return finish(tuning->report, options.common.json);
}

void add(CLI::App& app, const char* name, const char* about, Result<ExitCode> (*run)(const TuneOptions&), bool stores,
         ExitCode& code) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("model", options->model, "model file: HLO text, ONNX or fragment; may be gzipped")->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  CLI::Option* donate = command->add_option("--donate", options->donations,
                                            "PARAMETER or PARAMETER:RESULT, by name or position: memory that the "
                                            "result may take (repeatable; * on both sides)");
  if (stores) {
    CLI::Option* database = command->add_option("--db", options->database, "database that the plans are stored in");
    command->add_option("--server", options->server, "let this stitchd do it: unix:PATH or http://HOST:PORT")
        ->excludes(database)
        ->excludes(donate);
    command->add_option("--scorer", options->scorer, "what predicts times; auto: the newest model of --db that is fit")
        ->check(CLI::IsMember({"auto", "analytical", "combined"}))
        ->capture_default_str();
    command
        ->add_option("--trials", options->trials,
                     "where kernels are measured: so many more candidates, shared over the model's kernels by what "
                     "they may gain")
        ->check(CLI::Range(0, 1'000'000));
    command->add_option("--seed", options->seed, "of the inputs of verification")->capture_default_str();
    command->add_option("--faults", options->faults,
                        "folder for reports of kernels that were wrong; default: faults in the cache folder");
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
