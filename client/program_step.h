#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/program_document.h"
#include "client/executor.h"

namespace stitch::client {

/// Who computes a step.
enum class StepBy : std::uint8_t {
  device,     ///< a plan's kernels
  library,    ///< a BLAS
  host,       ///< a copy, or the control of regions
  reference,  ///< the float64 reference evaluator, for want of anything else
};
std::string_view to_string(StepBy by);

/// A step while it runs. Spans hold what its parameters and results hold, in the step's order.
struct StepRun {
  int region = 0, index = 0;  ///< place in the program
  const api::ProgramStep& step;
  const graph::Graph* graph = nullptr;  ///< what it computes: of fragments and library calls
  StepBy by = StepBy::host;
  Inputs parameters;
  std::span<const std::span<std::byte>> results;
};

/// Told of every step, in order, those inside loops and branches too. An error ends the run.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual Status before(const StepRun&) { return {}; }
  virtual Status after(const StepRun&) { return {}; }
};

}  // namespace stitch::client
