#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "client/program.h"
#include "python/native/open_executor.h"

namespace stitch::python {

/// A program with all that it runs on, on host memory. Safe to use from several threads; runs follow one another.
class HostProgram {
 public:
  /// `document`: a program's CBOR with its code inside (docs/program-format.md). Errors: those of open_executor and of
  /// client::ProgramRunner::open_package.
  static Result<std::unique_ptr<HostProgram>> open(std::string_view document, std::string_view device, int ordinal);

  [[nodiscard]] const client::ProgramRunner& runner() const { return *runner_; }
  [[nodiscard]] std::vector<graph::TensorType> inputs() const;
  [[nodiscard]] std::vector<graph::TensorType> outputs() const;

  /// Waits for its end. What is not aligned as plans want it goes through memory that is. Errors: those of
  /// client::ProgramRunner::run.
  Status run(client::Inputs inputs, client::Outputs outputs);

 private:
  explicit HostProgram(OpenExecutor executor) : executor_(std::move(executor)) {}

  OpenExecutor executor_;
  std::mutex running_;  ///< guards what follows
  std::unique_ptr<client::ProgramRunner> runner_;
};

}  // namespace stitch::python
