// Calls that another thread ends: a server that does not answer keeps nobody.
#include "client/http/calls_under_way.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "client/client.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/running_service.h"

namespace stitch::client {
namespace {

/// A socket on which everybody is let in and nobody is answered.
class SilentServer {
 public:
  explicit SilentServer(const std::filesystem::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
  }
  ~SilentServer() { ::close(socket_); }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  /// Waits until somebody asks, and leaves the question unanswered.
  void await_question() {
    const int connection = ::accept(socket_, nullptr, nullptr);
    ASSERT_GE(connection, 0);
    char first = 0;
    ASSERT_EQ(::read(connection, &first, 1), 1);
    connections_.push_back(connection);
  }

 private:
  const int socket_;
  std::vector<int> connections_;
};

constexpr double an_hour = 3600;

TEST(CallsUnderWayTest, ACallThatNobodyAnswersIsEnded) {
  const TestFolder folder;
  SilentServer server(folder / "s");
  ClientOptions options;
  options.server = "unix://" + (folder / "s").string();
  options.timeout_seconds = an_hour;
  options.calls = std::make_shared<CallsUnderWay>();
  std::optional<Error> error;
  std::jthread asking([&] { error = Client::open(options).error(); });
  server.await_question();
  EXPECT_FALSE(options.calls->ended());
  options.calls->end();
  asking.join();
  EXPECT_EQ(error->kind, ErrorKind::cancelled) << error->message;
  // Nor does another one begin.
  EXPECT_EQ(Client::open(options).error().kind, ErrorKind::cancelled);
}

TEST(CallsUnderWayDaemonTest, AClientThatIsOpenAsksNoMore) {
  const TestFolder folder;
  const daemon::RunningService running{folder / "stitch.db", {.work = true, .serve = true}};
  ClientOptions options;
  options.server = "unix://" + running.socket.string();
  options.cache = folder / "cache";
  options.timeout_seconds = an_hour;
  options.calls = std::make_shared<CallsUnderWay>();
  const auto client = Client::open(options);
  ASSERT_TRUE(client.ok()) << client.error().message;
  const auto others = Client::open({.server = options.server, .cache = folder / "cache"});
  ASSERT_TRUE(others.ok());
  // A long question, which the server answers in a minute.
  const auto feed = (*client)->promotions(0, 0);
  ASSERT_TRUE(feed.ok()) << feed.error().message;
  std::optional<Error> error;
  std::jthread asking([&] { error = (*client)->promotions(feed->last, 60'000).error(); });
  options.calls->end();
  asking.join();
  EXPECT_EQ(error->kind, ErrorKind::cancelled) << error->message;
  EXPECT_EQ((*client)->metrics().error().kind, ErrorKind::cancelled);
  EXPECT_TRUE((*others)->metrics().ok()) << "of another program's";
}

}  // namespace
}  // namespace stitch::client
