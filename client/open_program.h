#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "api/package_document.h"
#include "client/open_executor.h"
#include "client/program.h"
#include "client/stream_program.h"

namespace stitch::client {

/// The program of a package that fits the device best (api::compatibility). Errors: constraint (none runs on it, and
/// why).
Result<api::Program> program_for(api::Package package, const DeviceSpec& device);
/// The same of what the executor runs on: of the emulated device, which runs them all, that for an H100. Errors: also
/// unavailable (a GPU of which the driver does not say what it is).
Result<api::Program> program_for(api::Package package, const Executor& executor);

/// A program with all that it runs on, in whichever way it runs there: on a GPU enqueued on a stream (StreamProgram),
/// on the emulated device step by step on host memory (ProgramRunner), and so too on a GPU where a step needs the host
/// (a branch, a library's call that no stream takes). What the C and the Python interface have of programs. Safe to use
/// from several threads; runs follow one another.
class OpenProgram {
 public:
  /// `document`: a program's CBOR with its code inside, or a package, of which the program that fits the device best is
  /// taken (docs/program-format.md). Errors: those of open_executor, api::decode_package and the two runners;
  /// constraint (a package without a program for this GPU, and why).
  static Result<std::unique_ptr<OpenProgram>> open(std::string_view document, DeviceKind kind, int ordinal);
  /// The same of a program that is there, its code inside, on a device that is open.
  static Result<std::unique_ptr<OpenProgram>> open(api::Program program, OpenExecutor executor);

  [[nodiscard]] const api::Program& program() const;
  [[nodiscard]] std::vector<graph::TensorType> inputs() const;
  [[nodiscard]] std::vector<graph::TensorType> outputs() const;
  [[nodiscard]] std::int64_t workspace_bytes() const;
  /// Steps that the reference evaluator computes, and why.
  [[nodiscard]] std::vector<ProgramFallback> fallbacks() const;
  /// Who computes library calls.
  [[nodiscard]] std::string library() const;
  /// Of the GPU that it runs on.
  [[nodiscard]] int ordinal() const { return executor_.ordinal; }
  /// Whether it can be enqueued on a stream; if not, why.
  [[nodiscard]] const Status& can_launch() const { return can_launch_; }

  /// Runs on host memory and waits; what is not aligned as plans want it goes through memory that is. A result may have
  /// the memory of parameters (it is computed aside, and written when all is read). Errors: those of ProgramRunner::run
  /// and StreamProgram::run.
  Status run(Inputs parameters, Outputs results);
  /// Enqueues it on a stream with addresses of device memory. Errors: those of StreamProgram::launch; that of
  /// can_launch.
  Status launch(Addresses parameters, Addresses results, void* stream);

 private:
  explicit OpenProgram(OpenExecutor executor) : executor_(std::move(executor)) {}
  Status load(api::Program program);

  OpenExecutor executor_;
  Status can_launch_;
  std::mutex running_;  ///< guards what follows
  bool launched_ = false;
  std::unique_ptr<ProgramRunner> runner_;          ///< one of the two
  std::unique_ptr<StreamProgram> stream_program_;  ///< is there
};

}  // namespace stitch::client
