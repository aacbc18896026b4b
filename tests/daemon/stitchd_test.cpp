// The program itself: start, stop, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

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
