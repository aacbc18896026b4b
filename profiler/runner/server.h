#pragma once

#include <map>
#include <memory>

#include "base/result.h"
#include "profiler/measure/timed_device.h"
#include "profiler/runner/protocol.h"

namespace stitch::profiler {

/// How serving ended; the values are stitch-runner's exit codes.
enum class ServeEnd : int {
  finished = 0,   ///< shutdown was asked for, by the parent or by `leave`, or no more requests came
  lost = 3,       ///< a fault made the device useless; the last reply said so
  broken = 4,     ///< the parent sent what is no message, or closed its end in the middle of one
  no_device = 5,  ///< there is no such device; the reply to hello said why
};

/// The runner's side of the protocol: turns requests into calls on a device. Sessions are the parent's to open and
/// close. Used by one thread.
class RunnerServer {
 public:
  explicit RunnerServer(TimedDevice& device) : device_(device) {}

  /// Never fails itself: what goes wrong is in the reply.
  Reply handle(const Request& request);

 private:
  struct Served {
    std::unique_ptr<TimedSession> session;
    std::map<int, BufferHandle> writable;
  };
  using Body = decltype(Reply::body);

  Result<Body> answer(const HelloRequest& hello, int session);
  Result<Body> answer(const OpenRequest& open, int session);
  Result<Body> answer(const CloseRequest& close, int session);
  Result<Body> answer(const LoadRequest& load, int session);
  Result<Body> answer(const PrepareRequest& prepare, int session);
  Result<Body> answer(const AllocateRequest& allocate, int session);
  Result<Body> answer(const FreeRequest& free, int session);
  Result<Body> answer(const ReadRequest& read, int session);
  Result<Body> answer(const WriteRequest& write, int session);
  Result<Body> answer(const LaunchRequest& launch, int session);
  Result<Body> answer(const MeasureRequest& measure, int session);
  Result<Body> answer(const ShutdownRequest& shutdown, int session);
  Result<Served*> find(int session);

  TimedDevice& device_;
  std::map<int, Served> sessions_;
  int next_ = 1;
};

/// Serves requests that come from descriptor `input`, replies to `output`, until there is a reason to end. A device
/// that could not be had answers every request with its error. Once there is something to read from `leave` (-1: none)
/// it ends: the request that is being served is answered, later ones are not, and all sessions give back what they
/// hold.
ServeEnd serve(const Result<std::unique_ptr<TimedDevice>>& device, int input, int output, int leave = -1);

}  // namespace stitch::profiler
