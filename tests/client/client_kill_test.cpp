// kill -9 of client programs: the daemon does not mind, and what the next client finds in the cache is whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "base/subprocess.h"
#include "graph/codec/codec.h"
#include "tests/base/rounds.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;

TEST(ClientKillDaemonTest, AKilledClientHarmsNeitherTheDaemonNorTheNextClient) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  const daemon::StitchdProcess daemon(folder / "", {"--workers", "1"});
  ASSERT_TRUE(daemon.ready());
  const std::filesystem::path fragment = folder / "fragment.json";
  std::ofstream(fragment) << graph::encode(tuning::samples::softmax(8, 64), graph::Encoding::json);
  ProcessOptions program;
  program.arguments = {STITCH_BINARY_DIR "/bin/fetch_and_run", fragment.string(), "unix://" + daemon.socket.string()};
  program.environment = {"XDG_CACHE_HOME=" + (folder / "xdg").string()};
  RealProcessLauncher launcher;
  const auto expect_served = [&](int round) {
    const auto ended = run_process(launcher, program, "", deadline_in(120));
    ASSERT_TRUE(ended.ok()) << ended.error().message;
    ASSERT_TRUE(ended->status.success()) << "after kill " << round << ": " << ended->standard_error;
    ASSERT_THAT(ended->standard_output, HasSubstr("result 0: "));
  };
  expect_served(0);
  Random random(7);
  const int kills = rounds(25);
  int hit = 0;
  for (int round = 1; round <= kills; ++round) {
    // Every other client has to fetch everything again.
    if (round % 2 == 0) std::filesystem::remove_all(folder / "xdg");
    auto started = launcher.start(program);
    ASSERT_TRUE(started.ok()) << started.error().message;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(12'000)));
    (*started)->kill();
    const auto status = (*started)->wait(deadline_in(30));
    ASSERT_TRUE(status.ok());
    hit += static_cast<int>(status->signal == SIGKILL);
    if (round % 8 == 0) expect_served(round);
  }
  expect_served(kills);
  EXPECT_GT(hit, kills / 10) << "nearly all clients ended before they were killed";
  EXPECT_TRUE(daemon.terminate().success());
  std::printf("%d kills of clients, %d while they ran\n", kills, hit);
}

}  // namespace
}  // namespace stitch::client
