#pragma once

#include <functional>
#include <vector>

#include "base/blas.h"
#include "client/program_step.h"

namespace stitch::client {

/// One run of a program: follows its regions' steps, each in its memory.
class ProgramFrame {
 public:
  /// All must outlive it. `plans`: per fragment, null where there is none. `computed_by`: who computes a step.
  ProgramFrame(const api::Program& program, std::vector<LoadedPlan*> plans, const Blas* blas, std::int64_t most_trips,
               std::function<StepBy(const api::ProgramStep&)> computed_by, StepObserver* observer)
      : program_(program),
        plans_(std::move(plans)),
        blas_(blas),
        most_trips_(most_trips),
        computed_by_(std::move(computed_by)),
        observer_(observer) {}

  /// Runs a region with its parameters and results at these addresses and its arena at that one.
  Status run_region(int region, const std::vector<std::byte*>& parameters, const std::vector<std::byte*>& results,
                    std::byte* arena);

 private:
  using Memory = std::vector<std::byte*>;  ///< per value of a region

  Status run_step(int region, int index, const Memory& memory);
  Status run_work(const api::ProgramStep& step, StepRun& run, const Memory& memory);
  Status run_loop(const api::ProgramStep& step, const api::LoopStep& loop, const Memory& memory, int region);
  Status run_branch(const api::ProgramStep& step, const api::BranchStep& branch, const Memory& memory, int region);

  const api::Program& program_;
  const std::vector<LoadedPlan*> plans_;
  const Blas* const blas_;
  const std::int64_t most_trips_;
  const std::function<StepBy(const api::ProgramStep&)> computed_by_;
  StepObserver* const observer_;
};

}  // namespace stitch::client
