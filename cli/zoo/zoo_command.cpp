#include <unistd.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/faults.h"
#include "cli/interruption.h"
#include "cli/zoo/model_files.h"
#include "cli/zoo/zoo_page.h"
#include "daemon/stitchd.h"
#include "tuning/zoo/zoo.h"

namespace stitch::cli {
namespace {

struct ZooCommand {
  CommonOptions common;
  std::vector<std::string> names;
  std::filesystem::path database = daemon::StitchdOptions::default_database_path();
  std::filesystem::path html = "zoo.html";
  std::filesystem::path faults;
  std::optional<double> budget;  ///< seconds
  std::string effort = "quick";
  std::string scorer = "auto";
  std::uint64_t seed = 1;
};

/// A line for each fragment as it is stored; on a terminal it takes the place of the progress display.
void tell(const tuning::TunedFragment& tuned, std::string_view name, std::int64_t number, std::int64_t of) {
  const char* clear = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  std::fprintf(stderr, "%s%lld of %lld: %s %s, %zu launches, predicted %.1f us\n", clear,
               static_cast<long long>(number), static_cast<long long>(of), tuned.fragment.key.hex().c_str(),
               std::string(name).c_str(), tuned.plan.launches.size(), tuned.plan.predicted_us);
}

Result<ExitCode> tune_zoo(const ZooCommand& command) {
  const Interruption interruption;
  tuning::ZooOptions options;
  STITCH_ASSIGN(options.effort, tuning::effort_from(command.effort));
  options.budget_seconds = command.budget;
  options.asked.constraints = command.common.constraints;
  options.progress = progress_display(command.common.quiet);
  options.stop = interruption.token();
  if (!command.common.quiet) options.tuned = tell;
  RealFileSystem disk;
  STITCH_ASSIGN(const auto models, find_models(command.names, disk));
  if (command.database.has_parent_path()) STITCH_TRY(disk.make_directories(command.database.parent_path()));
  tuning::TunerOptions tuning_options;
  tuning_options.stitch.keep = 3;
  tuning_options.verify.seed = command.seed;
  STITCH_ASSIGN(const auto session, Session::open(command.common, tuning_options, {command.database, command.scorer}));
  STITCH_ASSIGN(const auto store, tuning::RememberingTuner::open(*session->store, *session->tuner, session->clock));
  STITCH_ASSIGN(const tuning::Zoo zoo, tuning::tune_zoo(models, *session->tuner, *store, session->files, options));
  STITCH_TRY(write_faults(zoo.faults, command.common, command.faults, session->files));
  if (!command.html.empty()) STITCH_TRY(session->files.publish(command.html, to_page(zoo.report)));
  std::printf("%s\n", command.common.json ? to_json(zoo.report).c_str() : to_table(zoo.report).c_str());
  return zoo.report.sound() ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_zoo_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ZooCommand>();
  CLI::App* command =
      app.add_subcommand("zoo", "Tune all models of folders and lists, equal fragments once, resumably");
  command->add_option("models", options->names, "folder, model file, or @FILE: a list of them, one a line")->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  command->add_option("--db", options->database, "database that the plans are stored in; by default stitchd's");
  command->add_option("--html", options->html, "page that the zoo ends in; \"\" for none")->capture_default_str();
  const std::map<std::string, double> units = {{"s", 1}, {"m", 60}, {"h", 3600}};
  command->add_option("--budget", options->budget, "time after which no fragment is begun: 90s, 30m, 8h")
      ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--effort", options->effort,
                   "none: predicted plans; quick: verified and, where kernels can be, measured; full: also searched")
      ->check(CLI::IsMember({"none", "quick", "full"}))
      ->capture_default_str();
  command->add_option("--scorer", options->scorer, "what predicts times; auto: the newest model of --db that is fit")
      ->check(CLI::IsMember({"auto", "analytical", "combined"}))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the inputs of verification")->capture_default_str();
  command->add_option("--faults", options->faults,
                      "folder for reports of kernels that were wrong; default: faults in the cache folder");
  command->callback([options, &code] {
    const Result<ExitCode> result = tune_zoo(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
