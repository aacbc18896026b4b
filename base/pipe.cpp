#include "base/pipe.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace stitch {
namespace {

/// A descriptor above the standard streams, which the child's own are put over. A program that runs with its
/// standard streams closed gets pipes down there.
Result<Descriptor> above_standard_streams(int fd) {
  Descriptor low(fd);
  if (fd > STDERR_FILENO) return low;
  Descriptor high(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!high.open()) return make_error(ErrorKind::io, "cannot duplicate a pipe: {}", std::strerror(errno));
  return high;
}

}  // namespace

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_error(ErrorKind::io, "cannot make a pipe: {}", std::strerror(errno));
  Pipe pipe;
  auto read_end = above_standard_streams(ends[0]);
  auto write_end = above_standard_streams(ends[1]);
  if (!read_end) return read_end.error();
  if (!write_end) return write_end.error();
  pipe.read_end = std::move(*read_end);
  pipe.write_end = std::move(*write_end);
  return pipe;
}

void make_nonblocking(const Descriptor& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

}  // namespace stitch
