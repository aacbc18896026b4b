#include "base/parent_watch.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace stitch {

void die_with_parent(int code) {
  if (const char* parent = std::getenv(parent_variable); parent != nullptr) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have gone before the kernel was told, and somebody else be the parent now.
    if (std::to_string(::getppid()) != parent) ::_exit(code);
  }
}

void end_with_parent(int input, double grace_seconds, int code) {
  die_with_parent(code);
  std::thread([input, grace_seconds, code] {
    pollfd closed{input, 0, 0};
    while (::poll(&closed, 1, -1) < 0 && errno == EINTR) {
    }
    if ((closed.revents & (POLLHUP | POLLERR)) == 0) return;  // a file, which never hangs up
    std::this_thread::sleep_for(std::chrono::duration<double>(grace_seconds));
    ::_exit(code);
  }).detach();
}

}  // namespace stitch
