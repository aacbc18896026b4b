#include <tbb/global_control.h>

#include <cstdio>

#include "base/environment.h"
#include "base/processors.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/emulate_program.h"

int main(int argc, char** argv) {
  using namespace stitch::cli;
  // TBB's default arena, in which whatever is not the tuner's runs side by side, knows no quota of a container.
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism, stitch::usable_processors());
  CLI::App app("Stitch: an autotuning service for fused GPU kernels");
  app.set_version_flag("--version", std::string(stitch::tool_version));
  app.require_subcommand(1);
  ExitCode code = ExitCode::success;
  add_plan_command(app, code);
  add_tune_command(app, code);
  add_zoo_command(app, code);
  add_run_command(app, code);
  add_bench_command(app, code);
  add_record_command(app, code);
  add_calibrate_command(app, code);
  add_emulate_command(app, code, take_program(argc, argv));
  add_evaluate_command(app, code);
  add_explain_command(app, code);
  add_explain_miss_command(app, code);
  add_package_command(app, code);
  add_lock_command(app, code);
  add_trace_command(app, code);
  add_machine_code_command(app, code);
  add_contractions_command(app, code);
  add_conformance_command(app, code);
  add_cost_model_command(app, code);
  add_search_command(app, code);
  add_serve_command(app, code);
  add_show_command(app, code);
  add_verify_command(app, code);
  add_transfer_commands(app, code);
  add_prune_command(app, code);
  add_env_command(app, code);
  for (const std::string& name : stitch::unknown_environment_variables())
    std::fprintf(stderr, "stitch: %s is set, and nothing here reads it (stitch env lists what is read)\n",
                 name.c_str());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  // What was asked for did not arrive: a full disk, a closed pipe.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "stitch: standard output cannot be written\n");
    return static_cast<int>(code == ExitCode::success ? ExitCode::failure : code);
  }
  return static_cast<int>(code);
}
