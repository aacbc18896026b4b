#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "client/http/connection.h"

namespace stitch::client {

/// The calls to servers that are under way, so that a program which ends need not wait for whoever does not answer.
/// Shared by all clients of a process (ClientOptions::calls). Safe to use from several threads.
class CallsUnderWay {
 public:
  /// Ends them at once, their error is `cancelled`, and so is that of all that are made from now on. It cannot be taken
  /// back.
  void end();
  [[nodiscard]] bool ended() const;

  /// A call on a connection, which lives longer than this does.
  class Call {
   public:
    Call(CallsUnderWay* calls, Connection& via);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallsUnderWay* const calls_;  ///< null: nobody ends it
    Connection& via_;
  };

 private:
  mutable std::mutex mutex_;  ///< guards what follows
  std::set<Connection*> under_way_;
  bool ended_ = false;
};

}  // namespace stitch::client
