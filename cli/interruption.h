#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace stitch::cli {

/// While it lives, SIGINT and SIGTERM ask for a stop instead of ending the process; a second one ends it at once with
/// exit code 130. Must be made before the threads whose work it stops: they inherit that the signals are blocked.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  void wait_for_signals(const std::stop_token& ended);

  std::stop_source source_;
  sigset_t signals_{}, before_{};
  std::jthread waiter_;
};

}  // namespace stitch::cli
