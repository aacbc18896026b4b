#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "emulator/run/launch.h"

/// Loads the kernels of tests/data/emulator and runs them with buffers made from vectors.
namespace stitch::emulator::test {

inline std::string read_data(const std::string& name) {
  const std::string path = std::string(STITCH_SOURCE_DIR) + "/tests/data/emulator/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `kernel` of tests/data/emulator/`file`.ptx.
inline Program load_kernel(const std::string& file, const std::string& kernel) {
  static std::map<std::string, std::string> texts;
  if (!texts.contains(file)) texts[file] = read_data(file + ".ptx");
  Result<Program> program = Program::load(texts[file], kernel);
  if (!program) {
    ADD_FAILURE() << file << " " << kernel << ": " << program.error().message;
    std::abort();
  }
  return *program;
}

/// `count` values between -2 and 2, the same for the same seed.
inline std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(mix(seed, i) >> 40) / static_cast<float>(1 << 22) - 2.0F;
  return values;
}

template <class T>
Buffer put(Memory& memory, std::string name, const std::vector<T>& values) {
  Result<Buffer> buffer =
      memory.allocate(std::move(name), values.size() * sizeof(T), Contents::bytes(std::as_bytes(std::span(values))));
  EXPECT_TRUE(buffer.ok());
  return *buffer;
}

inline Buffer make(Memory& memory, std::string name, std::uint64_t bytes,
                   Contents contents = Contents::uninitialised()) {
  Result<Buffer> buffer = memory.allocate(std::move(name), bytes, std::move(contents));
  EXPECT_TRUE(buffer.ok());
  return *buffer;
}

template <class T>
std::vector<T> get(const Memory& memory, const Buffer& buffer) {
  std::vector<T> values(buffer.bytes / sizeof(T));
  EXPECT_TRUE(memory.read(buffer.address, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

inline LaunchReport run(const Program& program, const LaunchConfig& config, const ParameterBlock& parameters,
                        Memory& memory, const LaunchOptions& options = {}) {
  Result<LaunchReport> report = launch(program, config, parameters.bytes(), memory, options);
  if (!report) {
    ADD_FAILURE() << program.name() << ": " << report.error().message;
    return {};
  }
  return *report;
}

inline std::string findings_text(const LaunchReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += to_text(finding) + "\n";
  return text;
}

/// As run, and the kernel must be free of findings.
inline LaunchReport run_clean(const Program& program, const LaunchConfig& config, const ParameterBlock& parameters,
                              Memory& memory, const LaunchOptions& options = {}) {
  LaunchReport report = run(program, config, parameters, memory, options);
  EXPECT_TRUE(report.clean()) << program.name() << "\n" << findings_text(report);
  return report;
}

inline LaunchConfig shape(std::uint32_t grid, std::uint32_t block, std::uint32_t dynamic_shared_bytes = 0) {
  LaunchConfig config;
  config.grid.x = grid;
  config.block.x = block;
  config.dynamic_shared_bytes = dynamic_shared_bytes;
  return config;
}

}  // namespace stitch::emulator::test
