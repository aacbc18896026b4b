#include "cli/commands.h"
#include "daemon/stitchd_options.h"

namespace stitch::cli {

void add_serve_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<daemon::StitchdOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve plans and tune new ones in the background, as stitchd does");
  daemon::add_options(*command, *options);
  command->callback([options, &code] {
    const Status served = daemon::run_stitchd(*options);
    code = served ? ExitCode::success : exit_code_of(served.error());
  });
}

}  // namespace stitch::cli
