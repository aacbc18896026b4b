// What the real file system does when the machine says no: each fault in a child process of its own, because limits
// and rights are those of the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "base/file.h"

namespace stitch {
namespace {

using ::testing::HasSubstr;

class FileFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    // Not below TempDir: its folders need not let other users through.
    std::string pattern = "/tmp/stitch_fault_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  }
  void TearDown() override {
    ::chmod(folder_.c_str(), 0755);
    std::filesystem::remove_all(folder_);
  }

  /// Runs `body` in a child; its text (the error it met) comes back.
  static std::string in_child(const std::function<std::string()>& body) {
    int ends[2];
    if (::pipe(ends) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string text = body();
      const ssize_t written = ::write(ends[1], text.data(), text.size());
      ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    std::string text;
    char chunk[512];
    for (ssize_t got; (got = ::read(ends[0], chunk, sizeof chunk)) > 0;)
      text.append(chunk, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int state = 0;
    ::waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? text : "the child died: " + text;
  }

  static std::string describe(const Status& status) {
    return status.ok() ? "success" : fmt::format("{}: {}", to_string(status.error().kind), status.error().message);
  }

  std::filesystem::path folder_;
  RealFileSystem files_;
};

/// A disk that is full after 4 KiB: the write fails part way.
TEST_F(FileFaults, AFullDiskKeepsTheOldContentsAndLeavesNoTemporary) {
  ASSERT_TRUE(files_.publish(folder_ / "state", "old"));
  const std::string outcome = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return describe(RealFileSystem().publish(folder_ / "state", std::string(100'000, 'x')));
  });
  EXPECT_THAT(outcome, ::testing::StartsWith("io: cannot write "));
  EXPECT_THAT(outcome, HasSubstr("File too large"));
  EXPECT_EQ(*files_.read(folder_ / "state"), "old");
  EXPECT_EQ(files_.list(folder_).size(), 1U);
}

/// A real file system of 64 KiB, mounted in a namespace of the child's own.
TEST_F(FileFaults, NoSpaceLeftKeepsTheOldContentsAndLeavesNoTemporary) {
  const std::string outcome = in_child([&]() -> std::string {
    const uid_t user = ::geteuid();
    if (::unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return "skip";
    if (user != 0) std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    // Without this the mount would show in the parent's namespace too.
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("none", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) return "skip";
    RealFileSystem files;
    if (const Status first = files.publish(folder_ / "state", "old"); !first) return describe(first);
    const std::string text = describe(files.publish(folder_ / "state", std::string(100'000, 'x')));
    return fmt::format("{}; then {} in {} file", text, *files.read(folder_ / "state"), files.list(folder_).size());
  });
  if (outcome == "skip") GTEST_SKIP() << "this machine lets nobody mount in a namespace of their own";
  EXPECT_THAT(outcome, ::testing::StartsWith("io: cannot write "));
  EXPECT_THAT(outcome, HasSubstr("No space left on device; then old in 1 file"));
}

TEST_F(FileFaults, AnUnwritableFolderIsNamed) {
  ASSERT_TRUE(files_.publish(folder_ / "state", "old"));
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  const auto as_nobody = [&](auto body) {
    return in_child([&]() -> std::string {
      if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "cannot drop rights";
      return describe(body());
    });
  };
  const std::string published = as_nobody([&] { return RealFileSystem().publish(folder_ / "state", "new"); });
  EXPECT_THAT(published, ::testing::StartsWith("io: cannot create " + folder_.string()));
  EXPECT_THAT(published, HasSubstr("Permission denied"));
  const std::string removed = as_nobody([&] { return RealFileSystem().remove(folder_ / "state"); });
  EXPECT_THAT(removed, HasSubstr("cannot remove " + (folder_ / "state").string() + ": Permission denied"));
  const std::string made = as_nobody([&] { return RealFileSystem().make_directories(folder_ / "a" / "b"); });
  EXPECT_THAT(made, HasSubstr("cannot create folder " + (folder_ / "a" / "b").string()));
  EXPECT_EQ(*files_.read(folder_ / "state"), "old");
}

TEST_F(FileFaults, AnUnreadableFileIsNamed) {
  ASSERT_TRUE(files_.publish(folder_ / "secret", "text"));
  ASSERT_EQ(::chmod((folder_ / "secret").c_str(), 0000), 0);
  const std::string outcome = in_child([&]() -> std::string {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "cannot drop rights";
    const Result<std::string> read = RealFileSystem().read(folder_ / "secret");
    return read.ok() ? "success" : describe(read.error());
  });
  EXPECT_EQ(outcome, "io: cannot open " + (folder_ / "secret").string() + ": Permission denied");
}

TEST_F(FileFaults, PathsThroughFilesAndFoldersInTheWay) {
  ASSERT_TRUE(files_.publish(folder_ / "file", "text"));
  EXPECT_THAT(files_.publish(folder_ / "file" / "below", "x").error().message, HasSubstr("Not a directory"));
  EXPECT_FALSE(files_.make_directories(folder_ / "file" / "below").ok());
  EXPECT_EQ(files_.read(folder_).error().kind, ErrorKind::io);
  EXPECT_THAT(files_.read(folder_).error().message, HasSubstr("Is a directory"));
  EXPECT_FALSE(files_.remove(folder_).ok());
  EXPECT_TRUE(files_.list(folder_ / "file").empty());
  EXPECT_EQ(files_.publish(folder_ / std::string(300, 'n'), "x").error().kind, ErrorKind::io);
}

TEST_F(FileFaults, ReadersSeeOldOrNewButNeverAPart) {
  const std::string old_contents(50'000, 'a'), new_contents(70'000, 'b');
  ASSERT_TRUE(files_.publish(folder_ / "state", old_contents));
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!stop) {
      const Result<std::string> read = files_.read(folder_ / "state");
      if (!read.ok() || (*read != old_contents && *read != new_contents)) ++torn;
    }
  });
  std::thread writer([&] {
    RealFileSystem other;
    for (int i = 0; i < 50; ++i) {
      if (!other.publish(folder_ / "state", i % 2 == 0 ? new_contents : old_contents).ok()) ++torn;
    }
  });
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(files_.publish(folder_ / "state", new_contents).ok());
  writer.join();
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(files_.list(folder_).size(), 1U);
}

}  // namespace
}  // namespace stitch
