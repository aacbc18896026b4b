// The program itself: start, stop, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/daemon/lookup_request.h"
#include "tests/daemon/running_service.h"
#include "tests/daemon/stitchd_process.h"

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

class StitchdDaemonTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / ""); }
  /// Starts one that is expected to give up; what it says.
  static std::string failure_of(const StitchdProcess& daemon) {
    const auto status = daemon.process->wait(deadline_in(60));
    EXPECT_TRUE(status.ok() && status->code == 1) << (status ? status->describe() : status.error().message);
    return daemon.process->standard_error();
  }

  const TestFolder folder_;
};

TEST_F(StitchdDaemonTest, ServesUntilItIsToldToStop) {
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  EXPECT_THAT(raw::request(daemon.socket, "GET", "/v1/version").body, HasSubstr("\"architecture\":\"sm_90a\""));
  EXPECT_TRUE(daemon.terminate().success());
  EXPECT_FALSE(std::filesystem::exists(daemon.socket));
  EXPECT_THAT(daemon.process->standard_error(), HasSubstr("stopped"));
}

TEST_F(StitchdDaemonTest, OneDatabaseOneDaemon) {
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  const StitchdProcess second(folder_ / "");
  EXPECT_THAT(failure_of(second), HasSubstr("another stitchd uses the database"));
  EXPECT_TRUE(raw::wait_for_server(daemon.socket));
  daemon.kill();
  // The dead one's lock and socket are in nobody's way.
  const StitchdProcess third(folder_ / "");
  EXPECT_TRUE(third.ready());
  EXPECT_TRUE(third.terminate().success());
}

// Under another name SQLite keeps another log for the same file, and both daemons destroy it.
TEST_F(StitchdDaemonTest, OneDatabaseOneDaemonUnderAnyName) {
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  const std::filesystem::path hard = folder_ / "hard", soft = folder_ / "soft";
  std::filesystem::create_directories(hard);
  std::filesystem::create_directories(soft);
  std::filesystem::create_hard_link(daemon.database, hard / "stitch.db");
  std::filesystem::create_symlink(daemon.database, soft / "stitch.db");
  EXPECT_THAT(failure_of(StitchdProcess(hard)), HasSubstr("another stitchd uses the database"));
  EXPECT_FALSE(std::filesystem::exists(hard / "stitch.db-wal")) << "it was not even opened";
  EXPECT_THAT(failure_of(StitchdProcess(soft)), HasSubstr("another stitchd uses the database"));
  EXPECT_TRUE(daemon.terminate().success());
  const StitchdProcess next(hard);
  EXPECT_TRUE(next.ready()) << "its turn now";
  EXPECT_TRUE(next.terminate().success());
}

TEST_F(StitchdDaemonTest, TheSecretOverTcpIsInAFileForItsClients) {
  const std::filesystem::path file = folder_ / "token";
  const StitchdProcess daemon(folder_ / "", {"--tcp", "0", "--token-file", file.string()});
  ASSERT_TRUE(daemon.ready());
  for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::ifstream stream(file);
  std::string secret;
  stream >> secret;
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_TRUE(daemon.terminate().success());
  const std::string said = daemon.process->standard_error();
  EXPECT_THAT(said, HasSubstr("whose secret is in " + file.string()));
  EXPECT_EQ(said.find(secret), std::string::npos) << "logs are read by others";
  EXPECT_FALSE(std::filesystem::exists(file)) << "it goes with the daemon";
}

TEST_F(StitchdDaemonTest, AFewBytesThatMeanAGibibyteTakeNoMemory) {
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  const auto ask = [&](std::int64_t elements) {
    return raw::request(daemon.socket, "POST", "/v1/lookup", raw::splat_lookup(elements),
                        "Content-Type: application/json\r\n")
        .status;
  };
  EXPECT_EQ(ask(std::int64_t{1} << 28), 202) << "1 GiB, if anybody wrote it out";
  EXPECT_EQ(ask(std::int64_t{1} << 30), 202);
  std::ifstream status(fmt::format("/proc/{}/status", daemon.process->id()));
  std::int64_t peak_kib = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> peak_kib;
  }
  EXPECT_GT(peak_kib, 0);
  EXPECT_LT(peak_kib, std::int64_t{1} << 18) << "a splat stays one element";
  daemon.kill();
}

TEST_F(StitchdDaemonTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(failure_of(StitchdProcess(folder_ / "", {"--tcp", "0.0.0.0:80"})), HasSubstr("not a loopback address"));
  EXPECT_THAT(failure_of(StitchdProcess(folder_ / "", {"--target", "abacus"})), HasSubstr("abacus"));
  EXPECT_THAT(failure_of(StitchdProcess(folder_ / "", {"--device", "abacus"})), HasSubstr("abacus"));
  std::filesystem::remove(folder_ / "stitch.db");
  std::ofstream(folder_ / "stitch.db") << "not a database";
  EXPECT_THAT(failure_of(StitchdProcess(folder_ / "")), HasSubstr("stitch.db"));
  std::ifstream left(folder_ / "stitch.db");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(left), {}), "not a database");
}

}  // namespace
}  // namespace stitch::daemon
