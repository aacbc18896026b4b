#include "cli/commands.h"
#include "cli/emulate_program.h"

namespace stitch::cli {

void add_emulate_command(CLI::App& app, ExitCode& code, std::vector<std::string> program) {
  auto run = std::make_shared<EmulateProgramOptions>();
  run->program = std::move(program);
  CLI::App* command = app.add_subcommand("emulate", "Run CUDA programs on the emulated device: findings and counters");
  add_emulate_program_options(*command, *run);
  command->callback([run, &code] {
    if (!run->run) throw CLI::RequiredError("--run");
    const Result<ExitCode> result = emulate_program(*run);
    code = result ? *result : report(result.error(), false);
  });
}

}  // namespace stitch::cli
