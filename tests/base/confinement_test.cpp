#include "base/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/base/test_folder.h"

namespace stitch {
namespace {

/// What must hold in a process that has confined itself; says which does not by its exit code.
using Checks = std::vector<std::function<bool()>>;

constexpr int cannot_confine = 99;

/// Runs the checks in a process of their own: what it gives up, this one keeps. The exit code is the place of the first
/// check that does not hold, counted from 1; 0: all do.
int run_confined(const Confinement& confinement, const Checks& checks) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!confine(confinement).empty()) ::_exit(cannot_confine);
    for (std::size_t i = 0; i < checks.size(); ++i) {
      if (!checks[i]()) ::_exit(static_cast<int>(i) + 1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Whether a call failed in this way.
bool refused(int result, int code) { return result < 0 && errno == code; }

bool can_start_a_thread() {
  bool ran = false;
  std::thread([&] { ran = true; }).join();
  return ran;
}

bool can_start_a_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  return child > 0;
}

#define SKIP_UNCONFINED(code) \
  if ((code) == cannot_confine) GTEST_SKIP() << "this kernel or container does not let a process confine itself"

TEST(Confinement, FilesOutOfReachStaySo) {
  const TestFolder inside, outside;
  { std::ofstream(inside / "a") << "a"; }
  { std::ofstream(outside / "b") << "b"; }
  const int open_before = ::open((outside / "b").c_str(), O_RDONLY);
  Confinement confinement;
  confinement.readable = {inside, "/no/such/folder"};
  const int code = run_confined(
      confinement, {[&] { return ::open((inside / "a").c_str(), O_RDONLY) >= 0; },
                    [&] { return refused(::open((inside / "a").c_str(), O_WRONLY), EACCES); },
                    [&] { return refused(::open((inside / "new").c_str(), O_WRONLY | O_CREAT, 0600), EACCES); },
                    [&] { return refused(::unlink((inside / "a").c_str()), EACCES); },
                    [&] { return refused(::open((outside / "b").c_str(), O_RDONLY), EACCES); },
                    [&] { return refused(::open("/etc/passwd", O_RDONLY), EACCES); },
                    [&] {
                      char byte = 0;
                      return ::read(open_before, &byte, 1) == 1 && byte == 'b';
                    }});
  ::close(open_before);
  SKIP_UNCONFINED(code);
  EXPECT_EQ(code, 0);
}

TEST(Confinement, NoSocketsNoProgramsNoOtherProcesses) {
  const pid_t parent = ::getpid();
  const Checks checks = {[] { return refused(::socket(AF_INET, SOCK_STREAM, 0), EACCES); },
                         [] { return refused(::socket(AF_INET6, SOCK_DGRAM, 0), EACCES); },
                         [] { return refused(::execl("/bin/true", "true", nullptr), EPERM); },
                         [] { return !can_start_a_process(); },
                         [&] { return refused(::kill(parent, 0), EPERM); },
                         [] { return can_start_a_thread(); },
                         [] { return ::kill(::getpid(), 0) == 0; }};
  Confinement confinement;
  int code = run_confined(confinement, checks);
  SKIP_UNCONFINED(code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(run_confined(confinement, {[] { return refused(::socket(AF_UNIX, SOCK_STREAM, 0), EACCES); }}), 0);
  confinement.local_sockets = true;
  EXPECT_EQ(run_confined(confinement, {[] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }}), 0);
  EXPECT_EQ(run_confined(confinement, checks), 0);
}

TEST(Confinement, LimitsAreKept) {
  const TestFolder folder;
  Confinement confinement;
  confinement.files = confinement.network = confinement.programs = false;
  confinement.limits = {.address_space_bytes = 0, .file_bytes = 4096, .descriptors = 16};
  const auto limit_of = [](__rlimit_resource resource) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    return limit;
  };
  const auto file = folder / "file";
  EXPECT_EQ(run_confined(confinement, {[&] { return limit_of(RLIMIT_CORE).rlim_max == 0; },
                                       [&] { return limit_of(RLIMIT_NOFILE).rlim_max == 16; },
                                       [&] {
                                         ::signal(SIGXFSZ, SIG_IGN);
                                         const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT, 0600);
                                         const std::string much(8192, 'x');
                                         return ::write(fd, much.data(), much.size()) == 4096 &&
                                                refused(static_cast<int>(::write(fd, much.data(), 1)), EFBIG);
                                       },
                                       [] { return can_start_a_process(); }}),
            0);
  EXPECT_EQ(run_confined(confinement, {[] { return false; }}), 1) << "a check that fails is seen";
#if !defined(STITCH_SHADOW_MEMORY)
  confinement.limits.address_space_bytes = std::int64_t{256} << 20;
  EXPECT_EQ(run_confined(confinement, {[] { return std::malloc(std::size_t{1} << 30) == nullptr; }}), 0);
#endif
}

#if !defined(STITCH_SHADOW_MEMORY)
/// A driver reserves gigabytes when it is loaded, and some machines give threads stacks of gigabytes.
TEST(Confinement, MemoryIsWhatIsTakenFromThenOn) {
  Confinement confinement;
  confinement.files = confinement.network = confinement.programs = false;
  confinement.limits.address_space_bytes = std::int64_t{256} << 20;
  constexpr std::size_t reserved = std::size_t{8} << 30;
  void* const held = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(held, MAP_FAILED);
  pthread_attr_t before, large;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&large), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&large, std::size_t{2} << 30), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&large), 0);
  EXPECT_EQ(run_confined(confinement, {can_start_a_thread, [] { return std::malloc(std::size_t{64} << 20) != nullptr; },
                                       [] { return std::malloc(std::size_t{1} << 30) == nullptr; }}),
            0);
  ::pthread_setattr_default_np(&before);
  ::pthread_attr_destroy(&before);
  ::pthread_attr_destroy(&large);
  ::munmap(held, reserved);
}
#endif

}  // namespace
}  // namespace stitch
