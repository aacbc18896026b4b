#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"

namespace stitch::cli {

/// `stitch emulate KERNEL.ptx …` and `stitch emulate --corpus FILE…`.
struct EmulateKernelOptions {
  std::filesystem::path ptx;
  std::string entry;
  std::vector<std::uint32_t> grid = {1}, block = {1}, cluster = {1};
  std::uint32_t shared_bytes = 0;
  std::vector<std::string> arguments;
  std::vector<std::string> writes;        ///< NAME=FILE.npy
  std::vector<std::string> expectations;  ///< NAME=FILE.npy
  double relative = 0, absolute = 0;
  int threads = 0;
  std::uint64_t instruction_budget = std::uint64_t{1} << 36;  ///< warp instructions
  std::vector<std::filesystem::path> corpora;
  std::string filter;
  std::filesystem::path table;
  bool json = false;
};

/// Adds what a kernel is launched with to the command `emulate`.
void add_emulate_kernel_options(CLI::App& command, EmulateKernelOptions& options);

/// Whether the options name a kernel or a corpus.
bool names_kernel(const EmulateKernelOptions& options);

/// Runs it and prints findings and counters. Failure: a finding, or a result that is not as expected.
Result<ExitCode> emulate_kernel(const EmulateKernelOptions& options);

}  // namespace stitch::cli
