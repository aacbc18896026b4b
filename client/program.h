#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/program_document.h"
#include "base/blas.h"
#include "client/executor.h"
#include "client/program_step.h"

namespace stitch::client {

struct ProgramOptions {
  /// Whether steps that nothing else computes (a fragment without a plan, a product of integers) may be computed by the
  /// float64 reference evaluator. ProgramRunner::fallbacks names them; without, opening such a program is an error.
  bool allow_reference = true;
  std::string blas = "libopenblas.so.0";            ///< for library calls on host memory
  std::int64_t most_trips = std::int64_t{1} << 20;  ///< of one loop whose count is not known
};

/// A step that is not computed as the program says, and why.
struct ProgramFallback {
  int region = 0, index = 0;
  std::string step;  ///< its name
  std::string reason;
};

/// A program on an executor: its plans loaded, its arena allocated.
///
///   STITCH_ASSIGN(const auto program, ProgramRunner::open_package(bytes, executor));
///   program->inputs();                              // names and types, weights among them
///   STITCH_TRY(program->run(parameters, results));  // host memory, 16-byte aligned, in their order
///
/// It needs no server and no compiler: a package (api::Program with artifacts) has all, and elsewhere `artifacts` gives
/// code by its hash. Running allocates nothing in the arena's stead. Used by one thread at a time.
class ProgramRunner {
 public:
  /// `executor` must outlive the runner. Errors: those of Executor::load with the fragment's place; unsupported (a
  /// foreign operator, which the message names; a step that needs the reference where that is not allowed);
  /// resource_exhausted (the arena).
  static Result<std::unique_ptr<ProgramRunner>> open(api::Program program, Executor& executor,
                                                     const ArtifactSource& artifacts = {},
                                                     const ProgramOptions& options = {});
  /// The same of the bytes of a document. Errors besides: those of api::decode_program.
  static Result<std::unique_ptr<ProgramRunner>> open_package(std::string_view bytes, graph::Encoding encoding,
                                                             Executor& executor, const ArtifactSource& artifacts = {},
                                                             const ProgramOptions& options = {});
  ~ProgramRunner();

  [[nodiscard]] const api::Program& program() const { return program_; }
  [[nodiscard]] const std::vector<api::ProgramPort>& inputs() const { return program_.parameters; }
  [[nodiscard]] const std::vector<api::ProgramPort>& outputs() const { return program_.results; }
  [[nodiscard]] std::int64_t arena_bytes() const { return program_.regions[0].arena_bytes; }
  /// What its plans have for themselves, besides the arena.
  [[nodiscard]] std::int64_t workspace_bytes() const;
  [[nodiscard]] const std::vector<ProgramFallback>& fallbacks() const { return fallbacks_; }
  /// Who computes library calls: "OpenBLAS 0.3.21 …", or why nobody does.
  [[nodiscard]] std::string library() const;

  /// Runs it on host memory, one span per input and output. Errors: invalid_argument (number, size or alignment of
  /// buffers, by the port's name), resource_exhausted (a loop of too many turns), those of the steps with their place.
  Status run(Inputs parameters, Outputs results, StepObserver* observer = nullptr);

 private:
  struct Aligned {
    void operator()(std::byte* memory) const;
  };

  ProgramRunner(api::Program program, const ProgramOptions& options);
  Status load(Executor& executor, const ArtifactSource& artifacts);
  Status check_steps();
  void note_fallback(int region, int index, std::string reason);
  [[nodiscard]] StepBy computed_by(const api::ProgramStep& step) const;

  const api::Program program_;
  const ProgramOptions options_;
  std::vector<std::unique_ptr<LoadedPlan>> plans_;  ///< per fragment; null: none
  std::optional<Blas> blas_;
  std::string why_no_blas_;
  std::vector<bool> covered_;  ///< per call: a library computes it
  std::vector<ProgramFallback> fallbacks_;
  std::unique_ptr<std::byte, Aligned> arena_;
};

}  // namespace stitch::client
