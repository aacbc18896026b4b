#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/subprocess.h"
#include "tests/daemon/raw_http.h"

namespace stitch::daemon {

/// A stitchd process on a database and a socket of the test's.
class StitchdProcess {
 public:
  explicit StitchdProcess(const std::filesystem::path& folder, std::vector<std::string> more = {})
      : socket(folder / "stitchd.sock"), database(folder / "stitch.db") {
    ProcessOptions options;
    options.arguments = {STITCH_BINARY_DIR "/bin/stitchd", "--db", database.string(), "--socket", socket.string()};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    RealProcessLauncher launcher;
    auto started = launcher.start(options);
    EXPECT_TRUE(started.ok()) << (started ? "" : started.error().message);
    if (started) process = *std::move(started);
  }

  /// Waits until it serves.
  [[nodiscard]] bool ready() const { return raw::wait_for_server(socket); }
  /// kill -9.
  void kill() const {
    process->kill();
    EXPECT_TRUE(process->wait(deadline_in(30)).ok());
  }
  /// SIGTERM; how it ended.
  [[nodiscard]] ExitStatus terminate() const {
    ::kill(process->id(), SIGTERM);
    const auto status = process->wait(deadline_in(60));
    EXPECT_TRUE(status.ok());
    return status.value_or({-1, 0});
  }

  std::filesystem::path socket, database;
  std::unique_ptr<Process> process;
};

}  // namespace stitch::daemon
