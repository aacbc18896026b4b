#include "base/version.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace stitch::cli;
  CLI::App app("Stitch: an autotuning service for fused GPU kernels");
  app.set_version_flag("--version", std::string(stitch::tool_version));
  app.require_subcommand(1);
  ExitCode code = ExitCode::success;
  add_plan_command(app, code);
  add_tune_command(app, code);
  add_conformance_command(app, code);
  add_serve_command(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  return static_cast<int>(code);
}
