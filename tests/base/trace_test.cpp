#include "base/trace.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"

namespace stitch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  const std::string text = *RealFileSystem().read(file);
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(text.substr(at, end - at));
  if (at < text.size()) lines.push_back(text.substr(at));
  return lines;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : RealFileSystem().list(folder)) files.push_back(entry.path);
  return files;
}

/// What a child process does, and how it ended (waitpid's status).
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Trace, WritesALineAnEvent) {
  const TestFolder folder;
  const TestVariable variable("STITCH_TRACE", (folder / "made").string());
  const TestVariable rank("RANK", "3");
  EXPECT_TRUE(trace::enabled());
  trace::event("swap", {{"from", "a \"b\"\n"}, {"count", 7}, {"stale", false}, {"us", 1.5}});
  {
    trace::Phase phase("load", {{"plan", std::string("77a0")}});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    phase.add({"error", "no memory"});
  }
  const auto files = files_in(folder / "made");
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0].filename().string(), MatchesRegex("stitch-rank3-[0-9]+-[0-9]+\\.jsonl"));
  const auto lines = lines_of(files[0]);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr(R"("format":"stitch-trace","version":1,"pid":)"));
  EXPECT_THAT(lines[0], HasSubstr(R"("rank":3,"host":)"));
  EXPECT_THAT(lines[0], HasSubstr(R"("program":"base_test)"));
  EXPECT_THAT(lines[1], StartsWith(R"({"event":"swap","ts":)"));
  EXPECT_THAT(lines[1], EndsWith(R"(,"from":"a \"b\"\u000a","count":7,"stale":false,"us":1.5})"));
  EXPECT_THAT(lines[2], MatchesRegex(R"(\{"event":"load","ts":[0-9]+,"dur":[0-9]{4,},"tid":[0-9]+,"plan":"77a0",)"
                                     R"("error":"no memory"\})"));
}

TEST(Trace, IsReadAtTheCall) {
  const TestFolder folder;
  const TestVariable off("STITCH_TRACE", "");
  EXPECT_FALSE(trace::enabled());
  trace::event("nowhere");
  for (const char* const name : {"one", "two"}) {
    const TestVariable on("STITCH_TRACE", (folder / name).string());
    trace::event(name);
    const auto files = files_in(folder / name);
    ASSERT_EQ(files.size(), 1U);
    EXPECT_THAT(lines_of(files[0]).back(), HasSubstr(name));
  }
}

TEST(Trace, ThreadsAndChildrenDoNotMixLines) {
  const TestFolder folder;
  const TestVariable variable("STITCH_TRACE", folder.path().string());
  constexpr int threads = 4, each = 200, children = 3;
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([] {
        for (int i = 0; i < each; ++i) trace::event("step", {{"text", std::string(300, 'x')}});
      });
    }
    for (int c = 0; c < children; ++c) EXPECT_EQ(in_child([] { trace::event("child"); }), 0);
  }
  const auto files = files_in(folder);
  ASSERT_EQ(files.size(), 1U + children) << "a file a process";
  std::size_t lines = 0;
  for (const auto& file : files) {
    for (const std::string& line : lines_of(file)) {
      ++lines;
      EXPECT_THAT(line, StartsWith("{\"event\":"));
      EXPECT_THAT(line, EndsWith("}"));
    }
  }
  EXPECT_EQ(lines, 1U + threads * each + children * 2U);
}

TEST(Trace, ThreadsThatBeginAtOnceHaveOneFile) {
  for (int round = 0; round < 20; ++round) {
    const TestFolder folder;
    const TestVariable variable("STITCH_TRACE", folder.path().string());
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < 8; ++t) all.emplace_back([] { trace::event("begun"); });
    }
    const auto files = files_in(folder);
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(lines_of(files[0]).size(), 9U);
  }
}

/// Descriptors that this process has open.
std::size_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

TEST(Trace, AFileThatAnotherHasReplacedIsClosed) {
  const TestFolder folder;
  const auto trace_in = [&](int number) {
    const TestVariable variable("STITCH_TRACE", (folder / fmt::format("{}", number % 2)).string());
    std::vector<std::jthread> all;
    for (int t = 0; t < 3; ++t) all.emplace_back([] { trace::event("begun"); });
  };
  trace_in(0);
  const std::size_t before = descriptors();
  for (int i = 1; i <= 50; ++i) trace_in(i);
  EXPECT_EQ(descriptors(), before);
  std::size_t lines = 0;
  for (const char* const name : {"0", "1"}) {
    for (const auto& file : files_in(folder / name)) lines += lines_of(file).size();
  }
  EXPECT_EQ(lines, 51 * 4U) << "none is lost";
}

TEST(Trace, AKilledProcessLeavesWhatItWrote) {
  const TestFolder folder;
  const TestVariable variable("STITCH_TRACE", folder.path().string());
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0;; ++i) trace::event("step", {{"number", i}});
  }
  while (files_in(folder).empty() || RealFileSystem().list(folder)[0].bytes < 100'000)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto lines = lines_of(files_in(folder)[0]);
  ASSERT_GT(lines.size(), 1000U);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_THAT(lines[i], EndsWith(fmt::format("\"number\":{}}}", i - 1)));
  }
}

TEST(Trace, AFolderThatCannotBeCostsOneWarning) {
  const TestFolder folder;
  ASSERT_TRUE(RealFileSystem().publish(folder / "file", "no folder").ok());
  const TestVariable variable("STITCH_TRACE", (folder / "file").string());
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) trace::event("lost");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, MatchesRegex("stitch: STITCH_TRACE: cannot write .*jsonl: Not a directory; .*\n"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
}

TEST(Trace, AFileThatMayNotGrowCostsOneWarning) {
  const TestFolder folder;
  const TestVariable variable("STITCH_TRACE", folder.path().string());
  testing::internal::CaptureStderr();
  const int status = in_child([] {
    const rlimit limit{2000, 2000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 1000; ++i) trace::event("step", {{"number", i}});
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 0) << "no signal ends it";
  EXPECT_THAT(said, HasSubstr("File too large"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  EXPECT_GT(lines_of(files_in(folder)[0]).size(), 10U);
}

}  // namespace
}  // namespace stitch
