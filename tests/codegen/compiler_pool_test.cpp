#include "codegen/compile/compiler_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "codegen/compile/compile_messages.h"
#include "codegen/compile/compiler.h"
#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::shared_ptr<const CompilerPool> pool_with(CompilerPoolOptions options = {}) {
  auto pool = CompilerPool::start(std::move(options));
  if (!pool) throw std::runtime_error(pool.error().message);
  return std::move(*pool);
}

NvrtcInput input_of(std::string source) {
  NvrtcInput input;
  input.source = std::move(source);
  input.name = "kernel.cu";
  input.options = {"-arch=sm_90a"};
  return input;
}

NvrtcInput small(int value = 1) {
  return input_of(fmt::format("extern \"C\" __global__ void k(int* x) {{ x[threadIdx.x] = {}; }}", value));
}

/// Minutes of work: what it takes grows faster than the number of calls.
NvrtcInput endless() {
  std::string source = "extern \"C\" __global__ void k(float* x) {\n  float v = x[threadIdx.x];\n";
  for (int i = 0; i < 20'000; ++i) source += "  v = tanhf(v);\n";
  return input_of(source + "  x[threadIdx.x] = v;\n}\n");
}

/// Waits until the pool's counts are as wanted; that they never will be shows after half a minute.
template <class Wanted>
[[nodiscard]] bool wait_until(Wanted wanted) {
  for (int i = 0; i < 3000; ++i) {
    if (wanted()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool is_alive(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z";
}

double processor_seconds(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string skipped;
  for (int field = 1; field < 14; ++field) stat >> skipped;
  double user = 0, system = 0;
  stat >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Of a child of this process: whether all of its threads have ended, the first of which may be a zombie before.
bool has_ended(int child) {
  siginfo_t info{};
  return ::waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

TEST(CompilerPool, GivesWhatNvrtcGivesInThisProcess) {
  const auto here = NvrtcCompiler::create();
  ASSERT_TRUE(here) << here.error().message;
  NvrtcCompiler there(CompilerOptions(), pool_with());
  EXPECT_EQ(there.nvrtc().facts(), (*here)->nvrtc().facts());
  CompileRequest request;
  request.architecture = "sm_90a";
  request.source = "#include \"stitch/memory.cuh\"\n" + small(7).source;
  auto mine = there.compile(request);
  const auto other = (*here)->compile(request);
  ASSERT_TRUE(mine) << mine.error().message;
  ASSERT_TRUE(other) << other.error().message;
  mine->seconds = other->seconds;
  EXPECT_EQ(*mine, *other);
  request.source += "nonsense";
  EXPECT_EQ(there.compile(request).error(), (*here)->compile(request).error());
  request.source.assign(most_source_bytes + 1, ' ');
  EXPECT_EQ(there.compile(request).error(),
            (Error{ErrorKind::constraint, "a source of 4194305 bytes, at most 4194304 are compiled"}));
}

TEST(CompilerPool, ChildrenLiveOn) {
  const auto pool = pool_with();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool->compile(small(i)));
  EXPECT_EQ(pool->counts().started, 1);
  EXPECT_EQ(pool->counts().compiled, 3);
  EXPECT_THAT(pool->children(), SizeIs(1));
}

TEST(CompilerPool, OneThatHasWorkedLongGetsASuccessor) {
  for (const CompilerPoolOptions& options :
       {CompilerPoolOptions{.compiles_per_child = 1}, CompilerPoolOptions{.retire_at_bytes = 1}}) {
    const auto pool = pool_with(options);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool->compile(small(i)));
    EXPECT_EQ(pool->counts().started, 3);
    EXPECT_EQ(pool->counts().retired, 3);
  }
}

TEST(CompilerPool, ACompilationEndsWhenNobodyWantsItAnyMore) {
  const auto pool = pool_with({.children = 2});
  std::stop_source stop;
  NvrtcInput long_one = endless();
  long_one.stop = stop.get_token();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {  // the third waits for a child
    threads.emplace_back([&] {
      const auto output = pool->compile(long_one);
      ASSERT_FALSE(output);
      EXPECT_EQ(output.error().kind, ErrorKind::cancelled);
    });
  }
  ASSERT_TRUE(wait_until([&] { return pool->counts().most_at_once == 2 && pool->children().size() == 2; }));
  stop.request_stop();
  threads.clear();
  EXPECT_EQ(pool->counts().compiled, 0) << "they would have taken minutes";
  EXPECT_THAT(pool->children(), IsEmpty());
  EXPECT_TRUE(pool->compile(small()));
}

TEST(CompilerPool, OthersAreCompiledBesideALongOne) {
  const auto pool = pool_with({.children = 2});
  std::stop_source stop;
  NvrtcInput long_one = endless();
  long_one.stop = stop.get_token();
  std::jthread other([&] { EXPECT_FALSE(pool->compile(long_one)); });
  ASSERT_TRUE(wait_until([&] { return pool->counts().most_at_once == 1; }));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool->compile(small(i)));
  EXPECT_EQ(pool->counts().compiled, 3) << "and the long one is still at it";
  stop.request_stop();
}

TEST(CompilerPool, ATimeIsKept) {
  const auto pool = pool_with();
  NvrtcInput input = endless();
  input.timeout_seconds = 0.2;
  const auto output = pool->compile(input);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error(), (Error{ErrorKind::timeout, "compilation of kernel.cu took more than 0.2 s"}));
}

TEST(CompilerPool, ADeadChildIsReplacedAndASourceThatKillsTwoIsToBlame) {
  const auto pool = pool_with({.children = 1});
  const int idle = pool->children().front();
  ::kill(idle, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return has_ended(idle); }));
  EXPECT_TRUE(pool->compile(small()));
  EXPECT_EQ(pool->counts().started, 2);
  EXPECT_EQ(pool->counts().died, 0) << "nobody noticed";

  // Each is killed at its work: a second of it, which is more than start and greeting take.
  std::jthread killer([&] {
    for (int deaths = 0; deaths < 2; ++deaths) {
      std::vector<int> ids;
      ASSERT_TRUE(wait_until([&] {
        ids = pool->children();
        return pool->counts().died == deaths && !ids.empty() && processor_seconds(ids.front()) > 1;
      }));
      ::kill(ids.front(), SIGKILL);
    }
  });
  const auto output = pool->compile(endless());
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::compile);
  EXPECT_THAT(output.error().message, AllOf(HasSubstr("NVRTC died of kernel.cu"), HasSubstr("signal 9")));
  EXPECT_EQ(pool->counts().died, 2);
  EXPECT_TRUE(pool->compile(small()));
}

TEST(CompilerPool, SourcesReadNothingButWhatTheyAreGiven) {
  std::vector<std::string> unconfined;
  const TestFolder folder;
  { std::ofstream(folder / "given.h") << "#define GIVEN 1\n"; }
  const TestFolder elsewhere;
  { std::ofstream(elsewhere / "secret.h") << "#define SECRET 1\n"; }
  CompilerPoolOptions options;
  options.readable = {folder};
  options.complain = [&](std::string_view what) { unconfined.emplace_back(what); };
  const auto pool = pool_with(std::move(options));
  const auto including = [&](const std::filesystem::path& file) {
    return pool->compile(input_of(fmt::format("#include \"{}\"\n{}", file.string(), small().source)));
  };
  const auto given = including(folder / "given.h");
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_TRUE(given->compiled) << given->log;
  if (!unconfined.empty()) GTEST_SKIP() << "this kernel cannot confine: " << unconfined.front();
  const auto secret = including(elsewhere / "secret.h");
  ASSERT_TRUE(secret) << secret.error().message;
  EXPECT_FALSE(secret->compiled);
}

TEST(CompilerPool, WhatCannotBeStartedIsSaid) {
  EXPECT_EQ(CompilerPool::start({.program = "/no/such/stitch-compiler"}).error().kind, ErrorKind::not_found);
  EXPECT_THAT(CompilerPool::start({.program = "/bin/true"}).error().message,
              HasSubstr("stitch-compiler did not greet: exit code 0"));
  const auto no_library = CompilerPool::start({.nvrtc = {"/no/such/libnvrtc.so"}});
  ASSERT_FALSE(no_library);
  EXPECT_EQ(no_library.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(no_library.error().message, HasSubstr("/no/such/libnvrtc.so"));
}

TEST(CompilerPoolDeathTest, ChildrenEndWithTheirParentHoweverItEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path file = testing::TempDir() + "/stitch_compiler_child";
  EXPECT_EXIT(
      {
        const auto pool = pool_with();
        std::jthread busy([&] { (void)pool->compile(endless()); });
        if (!wait_until([&] { return pool->counts().most_at_once == 1; })) std::abort();
        { std::ofstream(file) << pool->children().front(); }
        ::raise(SIGKILL);
      },
      testing::KilledBySignal(SIGKILL), "");
  int child = 0;
  std::ifstream(file) >> child;
  ASSERT_GT(child, 0);
  EXPECT_TRUE(wait_until([&] { return !is_alive(child); }));
  std::filesystem::remove(file);
}

TEST(CompileMessages, ComeBackAsTheyWere) {
  NvrtcInput input = small();
  input.headers = {{"a.cuh", "contents \xFF"}};
  input.timeout_seconds = 1.5;
  const auto sent = decode_compilation(encode(SentCompilation(input)));
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->source, input.source);
  EXPECT_EQ(sent->options, input.options);
  EXPECT_STREQ(sent->input().headers.front().contents, "contents \xFF");
  EXPECT_EQ(sent->timeout_seconds, 1.5);

  CompilerGreeting greeting;
  greeting.facts = {"13.0.88", 13, 0, "/lib/libnvrtc.so", {75, 90}};
  greeting.unconfined = {"no Landlock"};
  const auto greeted = decode_greeting(encode(Result<CompilerGreeting>(greeting)));
  ASSERT_TRUE(greeted);
  EXPECT_EQ(greeted->facts, greeting.facts);
  EXPECT_EQ(greeted->unconfined, greeting.unconfined);
  const Error none = make_error(ErrorKind::unavailable, "no NVRTC");
  EXPECT_EQ(decode_greeting(encode(Result<CompilerGreeting>(none))).error(), none);
  greeting.protocol = 99;
  EXPECT_EQ(decode_greeting(encode(Result<CompilerGreeting>(greeting))).error(),
            (Error{ErrorKind::version_mismatch, "stitch-compiler speaks protocol 99, this program 1"}));

  const auto reply = decode_compile_reply(encode(CompileReply{NvrtcOutput{true, "log", "ptx", "\x7F\x80"}, 5}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->output->cubin, "\x7F\x80");
  EXPECT_EQ(reply->peak_bytes, 5);
  EXPECT_EQ(decode_compile_reply(encode(CompileReply{none, 5}))->output.error(), none);
}

TEST(CompileMessages, WhatIsNoneIsAnError) {
  for (const std::string& bytes : {std::string(), std::string("\xFF\xFF"), std::string("\xA0"), std::string("\x80")}) {
    EXPECT_EQ(decode_compilation(bytes).error().kind, ErrorKind::parse);
    EXPECT_EQ(decode_compile_reply(bytes).error().kind, ErrorKind::parse);
    EXPECT_EQ(decode_greeting(bytes).error().kind, ErrorKind::parse);
  }
}

}  // namespace
}  // namespace stitch::codegen
