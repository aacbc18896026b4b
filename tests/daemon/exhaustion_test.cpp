// A daemon whose machine has run out of something: it says so, serves on, and is whole afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/confinement.h"
#include "base/random.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/lookup_request.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

/// The status of a look-up that waits for its plan.
int look_up(const std::filesystem::path& socket) {
  return raw::look_up(socket, tuning::samples::softmax(8, 64), "exhaustion test", 20'000).status;
}

TEST(ExhaustionDaemonSlowTest, WithoutDescriptorsItWaitsAndServesAgain) {
#ifdef STITCH_SHADOW_MEMORY
  GTEST_SKIP() << "a sanitizer looks through a pipe whether memory is there, and there are no descriptors for one";
#endif
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  const StitchdProcess daemon(folder / "", {"--workers", "1"}, "ulimit -n 64");
  ASSERT_TRUE(daemon.ready());
  EXPECT_EQ(look_up(daemon.socket), 200);
  {
    // More connections than descriptors, all silent.
    std::vector<raw::Socket> silent;
    for (int i = 0; i < 80; ++i) silent.emplace_back(daemon.socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(daemon.process->wait(deadline_in(0)).ok()) << "it still runs";
  }
  ASSERT_TRUE(daemon.ready()) << "they are gone, and it answers";
  EXPECT_EQ(look_up(daemon.socket), 200);
  EXPECT_TRUE(daemon.terminate().success());
}

TEST(ExhaustionDaemonSlowTest, BeyondAFilesLargestSizeItRefusesAndServesWhatItHas) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  {
    const StitchdProcess daemon(folder / "", {"--workers", "1"});
    ASSERT_TRUE(daemon.ready());
    EXPECT_EQ(look_up(daemon.socket), 200);
    EXPECT_TRUE(daemon.terminate().success());
  }
  // Blocks of 512 bytes (POSIX): a megabyte for every file.
  const StitchdProcess daemon(folder / "", {"--workers", "1"}, "ulimit -f 2048");
  ASSERT_TRUE(daemon.ready());
  std::string model(std::size_t{3} << 20, '\0');  // of bytes that nothing compresses
  Random random(1);
  for (char& byte : model) byte = static_cast<char>(random.below(256));
  const raw::Answer refused = raw::request(daemon.socket, "POST", "/v1/models?name=large.onnx", model,
                                           "Content-Type: application/octet-stream\r\n");
  EXPECT_GE(refused.status, 500) << refused.body;
  EXPECT_EQ(look_up(daemon.socket), 200) << "what is stored is served on";
  EXPECT_TRUE(daemon.terminate().success());
}

}  // namespace
}  // namespace stitch::daemon
