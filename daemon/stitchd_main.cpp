#include "base/version.h"
#include "daemon/stitchd_options.h"

int main(int argc, char** argv) {
  stitch::daemon::StitchdOptions options;
  CLI::App app("stitchd: serves tuned kernels and tunes new ones in the background");
  app.set_version_flag("--version", std::string(stitch::tool_version));
  stitch::daemon::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return stitch::daemon::run_stitchd(options) ? 0 : 1;
}
