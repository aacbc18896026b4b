#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch {

/// A moment by which an operation must have finished. A deadline that has passed still lets an operation take what
/// is ready without waiting, so Deadline{} polls.
using Deadline = std::chrono::steady_clock::time_point;

/// The moment `seconds` from now.
Deadline deadline_in(double seconds);

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< exit code; meaningless when a signal ended it
  int signal = 0;  ///< the signal that ended it, or 0

  [[nodiscard]] bool success() const { return code == 0 && signal == 0; }
  /// "exit code 3", "signal 11 (Segmentation fault)".
  [[nodiscard]] std::string describe() const;
  bool operator==(const ExitStatus&) const = default;
};

struct ProcessOptions {
  /// The program (looked up on PATH unless it has a slash) and its arguments.
  std::vector<std::string> arguments;
  /// "NAME=value" entries that are added to the inherited environment or replace what it has.
  std::vector<std::string> environment;
  /// The names of what is inherited; "CUDA_*" are all that begin so. Nothing: the whole environment is.
  std::optional<std::vector<std::string>> inherited = {};
  /// The kernel kills the child when this process ends, however that happens, if the child's main lets it
  /// (base/parent_watch.h).
  bool ends_with_us = false;
  enum class Stderr : unsigned char {
    inherit,  ///< the child writes to our standard error
    capture,  ///< kept for standard_error()
    discard,
  } standard_error = Stderr::capture;
  /// Bytes of captured standard error that are kept: the last ones.
  std::size_t standard_error_limit = 64 * 1024;
  /// Output that may pile up while the caller writes; a child that has more to say must wait until it is read.
  std::size_t unread_limit = 64u << 20;
};

/// A running child with pipes on its standard input and output. Used by one thread at a time.
///
/// The child leads a process group of its own and inherits no descriptor but its standard streams. Every operation
/// that waits also drains the other streams, so that a chatty child cannot block us while we block it. Destruction
/// kills the group and reaps the child.
class Process {
 public:
  virtual ~Process() = default;

  /// Writes all of `data`. Errors: timeout (the child does not read), io (it closed its input or is gone).
  virtual Status write(std::string_view data, Deadline deadline) = 0;

  /// The next bytes of output, at least one and at most `limit`; empty at the end of output. Errors: timeout.
  virtual Result<std::string> read_some(std::size_t limit, Deadline deadline) = 0;

  /// Exactly `size` bytes of output. Errors: timeout, io (output ended before). On an error, what did arrive stays
  /// readable.
  virtual Result<std::string> read_exactly(std::size_t size, Deadline deadline) = 0;

  /// Tells the child that no more input comes.
  virtual void close_input() = 0;

  /// SIGKILL to the child's process group; harmless when it is gone. wait() still tells how it ended.
  virtual void kill() = 0;

  /// Waits for the child itself to end; whatever is left of its group is killed then. May be called again.
  /// Errors: timeout.
  virtual Result<ExitStatus> wait(Deadline deadline) = 0;

  /// Whether the child itself is still running.
  virtual bool running() = 0;

  /// The last bytes of captured standard error that have arrived.
  virtual std::string standard_error() = 0;

  /// Process id, for messages.
  [[nodiscard]] virtual int id() const = 0;
};

/// Starts processes; tests of those who need one pass a fake.
class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  /// Errors: not_found (no such program), io (it cannot be started), invalid_argument (no arguments).
  virtual Result<std::unique_ptr<Process>> start(const ProcessOptions& options) = 0;
};

/// The operating system's processes. Safe to use from any thread of a multi-threaded program.
class RealProcessLauncher final : public ProcessLauncher {
 public:
  Result<std::unique_ptr<Process>> start(const ProcessOptions& options) override;
};

struct ProcessOutput {
  ExitStatus status;
  std::string standard_output;
  std::string standard_error;
};

/// Runs a program over `input` to its end; the program is killed at the deadline (error: timeout). A program that
/// stops reading its input is no error, nor is one that fails: look at `status`.
Result<ProcessOutput> run_process(ProcessLauncher& launcher, const ProcessOptions& options, std::string_view input,
                                  Deadline deadline);

}  // namespace stitch
