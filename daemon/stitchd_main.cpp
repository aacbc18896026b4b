#include <CLI/CLI.hpp>

#include "base/version.h"
#include "daemon/stitchd.h"

int main(int argc, char** argv) {
  stitch::daemon::StitchdOptions options;
  CLI::App app("stitchd: serves tuned kernels and tunes new ones in the background");
  app.set_version_flag("--version", std::string(stitch::tool_version));
  app.add_option("--db", options.database, "database file")->capture_default_str();
  app.add_option("--socket", options.socket, "Unix-domain socket; \"\" for none")->capture_default_str();
  app.add_option("--tcp", options.tcp, "also serve on this loopback port or address:port");
  app.add_option("--target", options.target, "GPU that is planned for")->capture_default_str();
  app.add_option("--arch", options.architecture, "architecture compiled for; by default the target's");
  app.add_option("--device", options.device, "where plans are verified")->capture_default_str();
  app.add_option("--workers", options.workers, "jobs at once")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--cache", options.cache, "folder of compiled kernels; by default beside the database");
  app.add_option("--log-level", options.log_level, "how much is written to standard error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return stitch::daemon::run_stitchd(options);
}
