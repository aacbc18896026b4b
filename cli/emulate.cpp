#include "cli/commands.h"
#include "cli/emulate_kernel.h"
#include "cli/emulate_program.h"

namespace stitch::cli {

void add_emulate_command(CLI::App& app, ExitCode& code, std::vector<std::string> program) {
  auto kernel = std::make_shared<EmulateKernelOptions>();
  auto run = std::make_shared<EmulateProgramOptions>();
  run->program = std::move(program);
  CLI::App* command =
      app.add_subcommand("emulate", "Run a kernel, or a CUDA program, on the emulated device: findings and counters");
  add_emulate_kernel_options(*command, *kernel);
  add_emulate_program_options(*command, *run);
  command->callback([kernel, run, &code] {
    if (!run->run && !names_kernel(*kernel)) throw CLI::RequiredError("ptx, --corpus or --run");
    const Result<ExitCode> result = run->run ? emulate_program(*run) : emulate_kernel(*kernel);
    code = result ? *result : report(result.error(), kernel->json);
  });
}

}  // namespace stitch::cli
