#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"

namespace stitch::cli {

/// `stitch emulate --run PROGRAM [ARGS…]`.
struct EmulateProgramOptions {
  bool run = false;
  std::vector<std::string> program;  ///< with its arguments
  std::string device = "h100";
  std::uint64_t order = 0;
  std::filesystem::path report;
};

/// What follows `--run` on the command line of `stitch emulate`: another program's, of which nothing is an option of
/// ours. It is taken off the end of argv.
std::vector<std::string> take_program(int& argc, char** argv);

/// Adds the options of --run to the command `emulate`.
void add_emulate_program_options(CLI::App& command, EmulateProgramOptions& options);

/// Runs the program on the emulated driver and prints what was found and counted. The exit code is the program's own
/// if that is not 0, else failure if there was a finding. Errors: not_found (no emulated driver, no such program).
Result<ExitCode> emulate_program(const EmulateProgramOptions& options);

}  // namespace stitch::cli
