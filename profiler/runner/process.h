#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "profiler/runner/protocol.h"

namespace stitch::profiler {

struct RunnerOptions {
  std::string program;  ///< default_runner_program() says where it usually is
  std::vector<std::string> arguments = {"--device", "gpu:0"};
  double start_seconds = 60;    ///< for a runner to start and to greet: a driver may take long to wake a GPU
  double call_seconds = 60;     ///< for a request that runs no kernel
  double launch_seconds = 20;   ///< for a kernel to end; more is a hang
  double measure_seconds = 20;  ///< for a measurement, beyond the time that its own options allow
};

/// `chosen` (from the environment or a command line) if it is not empty; else stitch-runner beside the running program.
std::string default_runner_program(const char* chosen);

/// A stitch-runner: started when it is first needed, killed when it does not answer, started anew after its end. Used
/// by one thread at a time.
class RunnerProcess {
 public:
  RunnerProcess(ProcessLauncher& launcher, RunnerOptions options) : launcher_(launcher), options_(std::move(options)) {}
  /// Asks the runner to end, and kills it if it does not within a second.
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  /// Starts a runner unless one runs, and returns what it said of itself. Errors: not_found (no such program), io,
  /// unavailable (no device; the driver's own words), version_mismatch, timeout.
  Result<WelcomeReply> start();

  /// Sends a request to the running runner and waits for its reply. Errors are the runner's own, or, of a runner that
  /// is gone then: timeout (killed for want of an answer), runtime (it ended; how, and its last words), corrupt (its
  /// answer is none), unavailable (none was running, or it left as somebody had asked it to, and did not look at the
  /// request).
  Result<decltype(Reply::body)> call(decltype(Request::body) body, int session, double seconds);

  [[nodiscard]] bool running() const { return process_ != nullptr; }
  /// Counts runners; what was made with an earlier one is lost.
  [[nodiscard]] int generation() const { return generation_; }
  /// Whether the last runner is gone because it was asked to end: by nothing that it ran.
  [[nodiscard]] bool left() const { return left_; }
  /// Why the last runner is gone.
  [[nodiscard]] const std::string& last_end() const { return last_end_; }
  /// Process id of the running one; 0 for none.
  [[nodiscard]] int id() const { return process_ ? process_->id() : 0; }
  [[nodiscard]] const RunnerOptions& options() const { return options_; }

 private:
  Result<WelcomeReply> greet();
  Result<std::string> exchange(const std::string& frame, Deadline deadline);
  Error gone(ErrorKind kind, const std::string& what);
  Error failed(const Error& error, std::string_view request, double seconds);

  ProcessLauncher& launcher_;
  RunnerOptions options_;
  std::unique_ptr<Process> process_;
  std::string last_end_ = "none was started";
  std::int64_t next_id_ = 1;
  int generation_ = 0;
  bool left_ = false;
};

}  // namespace stitch::profiler
