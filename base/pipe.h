#pragma once

#include <unistd.h>

#include <utility>

#include "base/result.h"

// Pipes to and from child processes (base/subprocess.h).
namespace stitch {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

/// A pipe whose ends no program that is started inherits, and which leaves the standard streams' descriptors alone: a
/// child's own are put over those. Error: io.
Result<Pipe> make_pipe();

/// Reads and writes of it wait no longer.
void make_nonblocking(const Descriptor& fd);

}  // namespace stitch
