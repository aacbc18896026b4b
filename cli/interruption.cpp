#include "cli/interruption.h"

#include <pthread.h>
#include <unistd.h>

#include "cli/session.h"

namespace stitch::cli {

Interruption::Interruption() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  waiter_ = std::jthread([this](const std::stop_token& ended) { wait_for_signals(ended); });
}

Interruption::~Interruption() {
  waiter_.request_stop();
  waiter_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interruption::wait_for_signals(const std::stop_token& ended) {
  constexpr timespec moment{0, 100'000'000};
  while (!ended.stop_requested()) {
    if (sigtimedwait(&signals_, nullptr, &moment) < 0) continue;
    if (!source_.request_stop()) _exit(static_cast<int>(ExitCode::interrupted));
  }
}

}  // namespace stitch::cli
