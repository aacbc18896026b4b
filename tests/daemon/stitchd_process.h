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
  /// `limits` are shell commands that are run first in the same process ("ulimit -n 48").
  explicit StitchdProcess(const std::filesystem::path& folder, std::vector<std::string> more = {},
                          const std::string& limits = "")
      : socket(folder / "stitchd.sock"), database(folder / "stitch.db") {
    ProcessOptions options;
    options.arguments = {STITCH_BINARY_DIR "/bin/stitchd", "--db", database.string(), "--socket", socket.string()};
    if (!limits.empty()) {
      const std::string script = limits + R"(; exec "$0" "$@")";
      options.arguments.insert(options.arguments.begin(), {"/bin/sh", "-c", script});
    }
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
