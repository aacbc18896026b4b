#include "cli/commands.h"
#include "daemon/stitchd.h"

namespace stitch::cli {

void add_serve_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<daemon::StitchdOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve plans and tune new ones in the background, as stitchd does");
  command->add_option("--db", options->database, "database file")->capture_default_str();
  command->add_option("--socket", options->socket, "Unix-domain socket; \"\" for none")->capture_default_str();
  command->add_option("--tcp", options->tcp, "also serve on this loopback port or address:port");
  command->add_option("--target", options->target, "GPU that is planned for")->capture_default_str();
  command->add_option("--arch", options->architecture, "architecture compiled for; the target's when not given");
  command->add_option("--device", options->device, "where plans are verified")->capture_default_str();
  command->add_option("--workers", options->workers, "jobs at once")->check(CLI::Range(1, 64))->capture_default_str();
  command->add_option("--cache", options->cache, "folder of compiled kernels; beside the database when not given");
  command->add_option("--log-level", options->log_level, "how much is written to standard error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  command->callback(
      [options, &code] { code = daemon::run_stitchd(*options) == 0 ? ExitCode::success : ExitCode::unavailable; });
}

}  // namespace stitch::cli
