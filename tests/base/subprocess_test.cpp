#include "base/subprocess.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/base/test_variable.h"

namespace stitch {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr double patience = 30;  // seconds; only a test that fails waits so long

std::unique_ptr<Process> start(std::vector<std::string> arguments, ProcessOptions options = {}) {
  options.arguments = std::move(arguments);
  auto process = RealProcessLauncher().start(options);
  EXPECT_TRUE(process) << process.error().message;
  return process ? std::move(*process) : nullptr;
}

std::unique_ptr<Process> start_shell(const std::string& script, ProcessOptions options = {}) {
  return start({"/bin/sh", "-c", script}, std::move(options));
}

bool exists(int pid) { return ::kill(pid, 0) == 0; }

TEST(Subprocess, WhatIsWrittenToCatComesBack) {
  const auto cat = start({"cat"});
  ASSERT_TRUE(cat->write("hello ", deadline_in(patience)));
  ASSERT_TRUE(cat->write("world", deadline_in(patience)));
  const auto text = cat->read_exactly(11, deadline_in(patience));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "hello world");
  EXPECT_TRUE(cat->running());
  cat->close_input();
  const auto end = cat->read_some(100, deadline_in(patience));
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(*end, "");
  const auto status = cat->wait(deadline_in(patience));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(status->success());
  EXPECT_FALSE(cat->running());
}

// Far more than two pipes hold: neither side may block the other for good.
TEST(Subprocess, MegabytesThroughCatWithoutReadingInBetween) {
  std::string sent;
  for (int i = 0; sent.size() < (8u << 20); ++i) sent += std::to_string(i) + ",";
  const auto cat = start({"cat"});
  ASSERT_TRUE(cat->write(sent, deadline_in(patience)));
  cat->close_input();
  const auto text = cat->read_exactly(sent.size(), deadline_in(patience));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(*text == sent);
}

TEST(Subprocess, ReadSomeGivesAtMostTheLimit) {
  const auto process = start_shell("printf abcdef");
  std::string all;
  while (true) {
    const auto chunk = process->read_some(4, deadline_in(patience));
    ASSERT_TRUE(chunk) << chunk.error().message;
    if (chunk->empty()) break;
    EXPECT_LE(chunk->size(), 4u);
    all += *chunk;
  }
  EXPECT_EQ(all, "abcdef");
}

TEST(Subprocess, OutputThatEndsEarlyIsAnErrorAndStaysReadable) {
  const auto process = start_shell("printf abc");
  const auto text = process->read_exactly(5, deadline_in(patience));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::io);
  EXPECT_THAT(text.error().message, HasSubstr("output ended after 3 of 5 bytes"));
  EXPECT_EQ(process->read_exactly(3, deadline_in(patience)).value_or(""), "abc");
}

TEST(Subprocess, SilenceIsATimeout) {
  const auto process = start({"sleep", "1000"});
  const auto nothing = process->read_some(1, deadline_in(0.02));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::timeout);
  EXPECT_THAT(nothing.error().message, MatchesRegex("sleep \\(process [0-9]+\\): wrote nothing within the deadline"));
  const auto still = process->wait(deadline_in(0.02));
  ASSERT_FALSE(still);
  EXPECT_EQ(still.error().kind, ErrorKind::timeout);
  EXPECT_TRUE(process->running());
}

TEST(Subprocess, AChildThatNeverReadsTimesOutTheWriter) {
  const auto process = start({"sleep", "1000"});
  const Status written = process->write(std::string(1 << 20, 'x'), deadline_in(0.05));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::timeout);
  EXPECT_THAT(written.error().message, HasSubstr("did not read its input"));
}

// It floods its output so that every round has something to do; the deadline must hold all the same.
TEST(Subprocess, AChildThatOnlyTalksTimesOutTheWriter) {
  const auto process = start({"yes"});
  const Status written = process->write(std::string(1 << 20, 'x'), deadline_in(0.05));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::timeout);
}

TEST(Subprocess, AChildThatClosesItsInputFailsTheWriterWithoutASignal) {
  const auto process = start_shell("exec <&-; echo closed; sleep 1000");
  ASSERT_EQ(process->read_exactly(7, deadline_in(patience)).value_or(""), "closed\n");
  const Status written = process->write("x", deadline_in(patience));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::io);
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

TEST(Subprocess, TellsHowAChildEnded) {
  const struct {
    const char* script;
    ExitStatus status;
    const char* text;
  } rows[] = {
      {"exit 0", {0, 0}, "exit code 0"},
      {"exit 3", {3, 0}, "exit code 3"},
      {"kill -SEGV $$", {0, SIGSEGV}, "signal 11 (Segmentation fault)"},
      {"kill -KILL $$", {0, SIGKILL}, "signal 9 (Killed)"},
  };
  for (const auto& row : rows) {
    const auto status = start_shell(row.script)->wait(deadline_in(patience));
    ASSERT_TRUE(status) << row.script << ": " << status.error().message;
    EXPECT_EQ(*status, row.status) << row.script;
    EXPECT_EQ(status->describe(), row.text);
  }
}

TEST(Subprocess, OutputOfACrashedChildIsStillRead) {
  const auto process = start_shell("printf last; printf words >&2; kill -ABRT $$");
  const auto status = process->wait(deadline_in(patience));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->signal, SIGABRT);
  EXPECT_EQ(process->read_exactly(4, deadline_in(patience)).value_or(""), "last");
  EXPECT_EQ(process->standard_error(), "words");
  EXPECT_EQ(*process->wait(deadline_in(0)), *status) << "asked again";
}

TEST(Subprocess, KillEndsTheWholeGroup) {
  const auto process = start_shell("sleep 1000 & echo $!; wait");
  std::string line;
  while (line.empty() || line.back() != '\n') line += process->read_some(1, deadline_in(patience)).value_or("\n");
  const int grandchild = std::atoi(line.c_str());
  ASSERT_GT(grandchild, 1);
  ASSERT_TRUE(exists(grandchild));
  process->kill();
  const auto status = process->wait(deadline_in(patience));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->signal, SIGKILL);
  process->kill();  // harmless
  // The pipe's end shows that the grandchild, which held it open, is gone too.
  EXPECT_EQ(process->read_some(1, deadline_in(patience)).value_or("?"), "");
}

TEST(Subprocess, WhatAChildLeavesRunningIsEndedWithIt) {
  const auto process = start_shell("sleep 1000 & exit 7");
  const auto status = process->wait(deadline_in(patience));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->code, 7);
  EXPECT_EQ(process->read_some(1, deadline_in(patience)).value_or("?"), "");
}

TEST(Subprocess, DestructionKillsAndLeavesNoZombie) {
  int pid = 0;
  {
    const auto process = start({"sleep", "1000"});
    pid = process->id();
    ASSERT_TRUE(exists(pid));
  }
  EXPECT_FALSE(exists(pid)) << "a zombie would still answer";
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Subprocess, CapturedStandardErrorKeepsItsEnd) {
  ProcessOptions options;
  options.standard_error_limit = 10;
  const auto process = start_shell("i=0; while [ $i -lt 20000 ]; do echo line$i >&2; i=$((i+1)); done", options);
  ASSERT_TRUE(process->wait(deadline_in(patience)));
  EXPECT_EQ(process->standard_error(), "line19999\n");
}

TEST(Subprocess, DiscardedStandardErrorIsNotKept) {
  ProcessOptions options;
  options.standard_error = ProcessOptions::Stderr::discard;
  const auto process = start_shell("echo noise >&2; echo ok", options);
  EXPECT_EQ(process->read_exactly(3, deadline_in(patience)).value_or(""), "ok\n");
  EXPECT_EQ(process->standard_error(), "");
}

TEST(Subprocess, EnvironmentIsInheritedAndOverridden) {
  ASSERT_EQ(::setenv("STITCH_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(::setenv("STITCH_TEST_REPLACED", "old", 1), 0);
  ProcessOptions options;
  options.environment = {"STITCH_TEST_REPLACED=new", "STITCH_TEST_ADDED=added"};
  const auto process = start_shell(
      "echo $STITCH_TEST_KEPT,$STITCH_TEST_REPLACED,$STITCH_TEST_ADDED; env | grep -c ^STITCH_TEST_REP", options);
  EXPECT_EQ(process->read_exactly(17, deadline_in(patience)).value_or(""), "kept,new,added\n1\n");
}

// One descriptor of ours without close-on-exec, one pipe of another child: neither may be seen.
TEST(Subprocess, ChildrenInheritOnlyTheirStandardStreams) {
  const int leaky = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(leaky, 0);
  const auto other = start({"cat"});
  const auto process = start_shell("echo $(ls /proc/self/fd)");
  const auto text = process->read_some(100, deadline_in(patience));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "0 1 2 3\n") << "3 is ls's own view of the folder";
  ::close(leaky);
}

TEST(Subprocess, SignalsBlockedHereAreNotBlockedThere) {
  sigset_t term;
  sigset_t before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto process = start({"sleep", "1000"});
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::kill(process->id(), SIGTERM);
  const auto status = process->wait(deadline_in(patience));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->signal, SIGTERM);
}

TEST(Subprocess, WhatCannotBeStartedSaysSo) {
  ProcessOptions options;
  const auto none = RealProcessLauncher().start(options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid_argument);
  options.arguments = {"/nonexistent/program"};
  const auto absent = RealProcessLauncher().start(options);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error(),
            (Error{ErrorKind::not_found, "cannot start /nonexistent/program: No such file or directory"}));
  options.arguments = {"/etc/passwd"};
  const auto denied = RealProcessLauncher().start(options);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error(), (Error{ErrorKind::io, "cannot start /etc/passwd: Permission denied"}));
}

TEST(Subprocess, ManyThreadsStartAndReapAtOnce) {
  std::vector<std::thread> threads;
  std::array<int, 4> good{};
  for (int& count : good) {
    threads.emplace_back([&count] {
      RealProcessLauncher launcher;
      for (int i = 0; i < 10; ++i) {
        ProcessOptions options;
        options.arguments = {"cat"};
        const std::string input(100'000, static_cast<char>('a' + i));
        const auto output = run_process(launcher, options, input, deadline_in(patience));
        if (output && output->status.success() && output->standard_output == input) ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, (std::array<int, 4>{10, 10, 10, 10}));
}

TEST(RunProcess, GivesStatusAndBothStreams) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", "tr a-z A-Z; echo complaint >&2; exit 2"};
  const auto output = run_process(launcher, options, "text", deadline_in(patience));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->standard_output, "TEXT");
  EXPECT_EQ(output->standard_error, "complaint\n");
  EXPECT_EQ(output->status, (ExitStatus{2, 0}));
}

TEST(RunProcess, AProgramThatIgnoresItsInputIsNoError) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {"true"};
  const auto output = run_process(launcher, options, std::string(1 << 20, 'x'), deadline_in(patience));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_TRUE(output->status.success());
}

TEST(RunProcess, KillsAtTheDeadline) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {"sleep", "1000"};
  const auto output = run_process(launcher, options, "", deadline_in(0.05));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::timeout);
}

TEST(Subprocess, AChildGetsOnlyTheVariablesThatItIsMeantToHave) {
  const TestVariable mine("STITCH_TEST_ONE", "1");
  const TestVariable secret("STITCH_SECRET", "2");
  ProcessOptions options;
  options.arguments = {"/usr/bin/env"};
  options.environment = {"ADDED=3"};
  options.inherited = {{"STITCH_TEST_*", "PATH"}};
  options.ends_with_us = true;
  RealProcessLauncher launcher;
  const auto output = run_process(launcher, options, "", deadline_in(patience));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_THAT(output->standard_output, HasSubstr("STITCH_TEST_ONE=1\n"));
  EXPECT_THAT(output->standard_output, HasSubstr("ADDED=3\n"));
  EXPECT_THAT(output->standard_output, HasSubstr(fmt::format("STITCH_PARENT={}\n", ::getpid())));
  EXPECT_THAT(output->standard_output, Not(HasSubstr("STITCH_SECRET")));
  EXPECT_THAT(output->standard_output, Not(HasSubstr("HOME=")));
}

}  // namespace
}  // namespace stitch
