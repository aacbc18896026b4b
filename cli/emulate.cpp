#include "cli/commands.h"
#include "cli/emulate_kernel.h"

namespace stitch::cli {

void add_emulate_command(CLI::App& app, ExitCode& code) {
  auto kernel = std::make_shared<EmulateKernelOptions>();
  CLI::App* command = app.add_subcommand("emulate", "Run a kernel on the emulated device: findings and counters");
  add_emulate_kernel_options(*command, *kernel);
  command->callback([kernel, &code] {
    if (!names_kernel(*kernel)) throw CLI::RequiredError("ptx or --corpus");
    const Result<ExitCode> result = emulate_kernel(*kernel);
    code = result ? *result : report(result.error(), kernel->json);
  });
}

}  // namespace stitch::cli
