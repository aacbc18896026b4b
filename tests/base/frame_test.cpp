#include "base/frame.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace stitch {
namespace {

TEST(Frame, FramesAreBounded) {
  const auto frame = make_frame("abc");
  ASSERT_TRUE(frame);
  EXPECT_EQ(*frame, std::string("\3\0\0\0abc", 7));
  EXPECT_EQ(*frame_length(*frame), 3U);
  EXPECT_EQ(frame_length(std::string_view("\0\0\0\0", 4)).error().message, "a frame of no bytes");
  EXPECT_EQ(frame_length(std::string_view("\1\0\0\4", 4)).error().message,
            "a frame of 67108865 bytes, at most 67108864 are read");
  EXPECT_EQ(make_frame(std::string(most_frame_bytes + 1, 'x')).error().kind, ErrorKind::resource_exhausted);
}

/// Both ends of a pipe, closed when the test ends.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends[0]);
    close_input();
  }
  void close_input() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

TEST(Frame, TravelsThroughAPipeInWhateverPiecesItComes) {
  Pipe pipe;
  const std::string body(1u << 20, 'b');  // more than a pipe holds
  std::thread writer([&] {
    EXPECT_TRUE(write_frame(pipe.ends[1], *make_frame(body)));
    const std::string frame = *make_frame("xyz");
    for (const char byte : frame) EXPECT_EQ(::write(pipe.ends[1], &byte, 1), 1);
    pipe.close_input();
  });
  const auto first = read_frame(pipe.ends[0]);
  const auto second = read_frame(pipe.ends[0]);
  const auto end = read_frame(pipe.ends[0]);
  writer.join();
  ASSERT_TRUE(first && second && end);
  EXPECT_EQ(**first, body);
  EXPECT_EQ(**second, "xyz");
  EXPECT_FALSE(*end);
}

TEST(Frame, EndsWithinAreErrors) {
  for (const auto& [sent, message] :
       {std::pair<std::string, std::string>{"\3", "input ended after 1 bytes of a frame's length"},
        {std::string("\3\0\0\0ab", 6), "input ended after 2 of a frame's 3 bytes"},
        {std::string(4, '\0'), "a frame of no bytes"}}) {
    Pipe pipe;
    ASSERT_EQ(::write(pipe.ends[1], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
    pipe.close_input();
    const auto frame = read_frame(pipe.ends[0]);
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().message, message);
  }
}

}  // namespace
}  // namespace stitch
