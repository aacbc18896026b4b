#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "profiler/runner/device.h"

namespace stitch::profiler::test {

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "fine" : fmt::format("{}: {}", to_string(result.error().kind), result.error().message);
}

/// Beside the tests' build, or where $STITCH_RUNNER says (the bundle of bench/gpu).
inline const std::string runner_program =
    std::getenv("STITCH_RUNNER") != nullptr ? std::getenv("STITCH_RUNNER") : STITCH_BINARY_DIR "/bin/stitch-runner";

inline RunnerOptions runner_options(std::vector<std::string> arguments) {
  RunnerOptions options;
  options.program = runner_program;
  options.arguments = std::move(arguments);
  return options;
}

/// A device behind a real stitch-runner, with a quarantine of its own.
struct RunningDevice {
  explicit RunningDevice(RunnerOptions options, const std::filesystem::path& file = {})
      : quarantine(files, clock, file) {
    if (Status loaded = quarantine.load(); !loaded) ADD_FAILURE() << loaded.error().message;
    auto created = RunnerDevice::create(launcher, std::move(options), quarantine);
    if (created) {
      device = std::move(*created);
    } else {
      error = created.error();
    }
  }

  RealProcessLauncher launcher;
  RealFileSystem files;
  SystemClock clock;
  Quarantine quarantine;
  std::unique_ptr<RunnerDevice> device;
  Error error;
};

/// 4-byte words from `first` on, counting up.
inline Fill counting(std::uint32_t first) {
  return Filler([first](std::uint64_t offset, std::span<std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint64_t at = offset + i;
      const std::uint32_t word = first + at / 4;
      bytes[i] = static_cast<std::byte>(word >> (8 * (at % 4)) & 0xFF);
    }
  });
}

inline std::vector<std::uint32_t> words_of(Session& session, BufferHandle buffer) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(buffer.bytes) / 4);
  const Status read = session.read(buffer, 0, std::as_writable_bytes(std::span(words)));
  EXPECT_TRUE(read.ok()) << (read ? "" : read.error().message);
  return words;
}

}  // namespace stitch::profiler::test
