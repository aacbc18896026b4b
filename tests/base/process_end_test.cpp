#include "base/process_end.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace stitch {
namespace {

TEST(ProcessEnd, FlushesAndCallsNoHandlers) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    std::atexit([] { std::printf("handler"); });
    std::printf("printed");
    end_process(7);
  }
  ::close(ends[1]);
  std::array<char, 64> text{};
  EXPECT_EQ(::read(ends[0], text.data(), text.size() - 1), 7);
  EXPECT_STREQ(text.data(), "printed");
  EXPECT_EQ(::read(ends[0], text.data(), text.size() - 1), 0);
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace stitch
