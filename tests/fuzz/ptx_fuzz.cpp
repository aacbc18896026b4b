#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/decode/program.h"
#include "emulator/run/launch.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

constexpr std::size_t buffer_bytes = 4096;

/// Every parameter that is as long as an address is one of a buffer, every other is 64.
std::vector<std::byte> arguments_of(const emulator::Program& program, emulator::Memory& memory) {
  std::vector<std::byte> block(program.parameter_bytes());
  for (const emulator::KernelParameter& parameter : program.parameters()) {
    std::uint64_t value = 64;
    if (parameter.bytes == sizeof value) {
      const auto buffer = memory.allocate(parameter.name, buffer_bytes);
      if (!buffer) continue;
      value = buffer->address;
    }
    std::memcpy(block.data() + parameter.offset, &value, std::min<std::size_t>(parameter.bytes, sizeof value));
  }
  return block;
}

/// A kernel that loads is run on one small block, a few instructions long, under all checks.
void run_briefly(const emulator::Program& program) {
  if (program.parameter_bytes() > 4096) return;
  emulator::Memory memory;
  const std::vector<std::byte> arguments = arguments_of(program, memory);
  emulator::LaunchConfig config;
  config.block.x = 64;
  if (const auto required = program.required_block()) config.block = *required;
  if (const auto cluster = program.required_cluster()) config.grid = config.cluster = *cluster;
  emulator::LaunchOptions options;
  options.host_threads = 1;
  options.instruction_budget = 4096;
  const Result<emulator::LaunchReport> report = emulator::launch(program, config, arguments, memory, options);
  promise(report.ok() || !report.error().message.empty(), "a refusal says why");
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  const Result<std::vector<std::string>> names = emulator::entry_names(bytes);
  if (!names) {
    promise(!names.error().message.empty(), "a refusal says why");
    return;
  }
  const std::size_t most = std::min<std::size_t>(names->size(), 4);
  for (std::size_t i = 0; i < most; ++i) {
    const Result<emulator::Program> program = emulator::Program::load(bytes, (*names)[i]);
    promise(program.ok() || !program.error().message.empty(), "a refusal says why");
    if (program) run_briefly(*program);
  }
}

}  // namespace stitch::fuzz
