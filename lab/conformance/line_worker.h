#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/subprocess.h"

namespace stitch::lab {

/// A child process that answers each line of input with one line of output. It is started when it is needed first, and
/// again after it died or was killed, so that whatever one question does to it cannot touch the next. Used by one
/// thread at a time.
class LineWorker {
 public:
  /// `launcher` must outlive the worker.
  LineWorker(ProcessLauncher& launcher, ProcessOptions options) : launcher_(launcher), options_(std::move(options)) {}

  /// The answer, without its end of line. Errors, after which the child is gone: runtime (it died; how, and the end of
  /// what it said on standard error), timeout; and those of starting it.
  Result<std::string> ask(std::string_view question, double seconds);

 private:
  Error bury(const Error& cause, double seconds);

  ProcessLauncher& launcher_;
  const ProcessOptions options_;
  std::unique_ptr<Process> process_;
  std::string pending_;  ///< output that was read and not used yet
};

}  // namespace stitch::lab
