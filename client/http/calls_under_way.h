#pragma once

#include <atomic>

namespace stitch::client {

/// Whether calls to servers go on, those that are under way too, so that a program which ends need not wait for whoever
/// does not answer. Shared by all clients of a process (ClientOptions::calls). Safe to use from several threads.
class CallsUnderWay {
 public:
  /// Ends them within a tenth of a second, their error is `cancelled`, and so is that of all that are made from now on.
  /// It cannot be taken back.
  void end() { ended_ = true; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  std::atomic<bool> ended_ = false;
};

}  // namespace stitch::client
