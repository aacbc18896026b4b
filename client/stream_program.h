#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/program_document.h"
#include "client/cuda_executor.h"
#include "client/executor.h"
#include "library/stream_libraries.h"

namespace stitch::client {

using library::StreamLibraries;

/// What a step of a program did in a timed run.
struct StepTime {
  std::string place;                   ///< in the program: "step 2 (level 1)"
  std::size_t number = 0;              ///< of the step in the program's first region
  std::string_view kind;               ///< "fragment", "library", "copy", "loop"
  std::int64_t bytes = 0;              ///< memory moved, as planned
  std::int64_t operations = 0;         ///< kernels, library calls and copies; a loop's of all its turns
  std::optional<double> microseconds;  ///< from the device's event before it to the one behind it; the emulated driver
                                       ///< has none
};

struct ProgramTime {
  std::vector<StepTime> steps;
  /// The whole program as one CUDA graph, median of several replays, by the device's events: what a step takes where
  /// the host is in nobody's way. The emulated driver, and one without graphs, have none.
  std::optional<double> replay_us;
  /// The same graph where nothing is in the L2 of what it reads: each replay behind a fill of twice the L2, µs, as they
  /// came. From the fill's end on, so that what it takes to begin a graph counts. Empty where replay_us is none.
  std::vector<double> cold_us;
};

/// A program on a GPU: its plans loaded, its arena allocated, and all that a run does worked out.
///
///   STITCH_ASSIGN(const auto program, StreamProgram::open_package(bytes, graph::Encoding::cbor, *executor));
///   STITCH_TRY(program->launch(parameters, results, stream));  // addresses in device memory
///
/// A run is enqueued on a stream of the caller's. Launching allocates nothing, loads nothing and waits for nothing, so
/// that it may be captured into a CUDA graph; better plans that a server has by then are another program's. Everything
/// on the stream is a kernel of a plan, a product by cuBLASLt, a convolution by cuDNN or a copy. (The libraries may
/// load a kernel when they are first asked for it: CUDA's lazy loading. A run before the capture, or
/// CUDA_MODULE_LOADING=EAGER, is on the safe side.) What they have no call for (integers, above all) must have plans
/// (`--products stream`), and what the host would have to look at (branches, loops until something holds) is refused.
/// client::ProgramRunner runs those on host memory. Runs share arena and workspace and must be ordered on the device.
/// Used by one thread at a time.
class StreamProgram {
 public:
  /// The device stays in use for as long as the program is there. Errors: those of Executor::load with the fragment's
  /// place; unsupported (names the first step that cannot be enqueued); resource_exhausted (the arena).
  static Result<std::unique_ptr<StreamProgram>> open(api::Program program, CudaExecutor& executor,
                                                     const ArtifactSource& artifacts = {},
                                                     const StreamLibraries& libraries = {});
  /// The same of the bytes of a document. Errors besides: those of api::decode_program.
  static Result<std::unique_ptr<StreamProgram>> open_package(std::string_view bytes, graph::Encoding encoding,
                                                             CudaExecutor& executor,
                                                             const ArtifactSource& artifacts = {},
                                                             const StreamLibraries& libraries = {});
  ~StreamProgram();

  [[nodiscard]] const api::Program& program() const { return program_; }
  [[nodiscard]] const std::vector<api::ProgramPort>& inputs() const { return program_.parameters; }
  [[nodiscard]] const std::vector<api::ProgramPort>& outputs() const { return program_.results; }
  [[nodiscard]] std::int64_t arena_bytes() const { return program_.regions[0].arena_bytes; }
  /// What its plans and library calls have for themselves, besides the arena.
  [[nodiscard]] std::int64_t workspace_bytes() const;
  /// Who computes library calls: "cuBLASLt 13.0.0, cuDNN 9.8.0", as far as there are any; "no library calls".
  [[nodiscard]] std::string library() const;
  /// Kernels, library calls and copies that one run enqueues.
  [[nodiscard]] std::int64_t operations() const;

  /// Enqueues one run on a stream (a CUstream; null: the default one) and does not wait. `parameters`, `results`: one
  /// address per input and output, 16-byte aligned. Results are apart from each other, and from inputs but where
  /// api::in_place_of allows a pair: values lie in their memory before they do. Memory must stay until the run has
  /// ended, and the program for as long as there are CUDA graphs that it was captured into. Errors: invalid_argument
  /// (names the port), runtime, with the step's place.
  Status launch(Addresses parameters, Addresses results, void* stream);
  /// Runs it on host memory and waits: parameters are copied to the device, results back. For trying things out; memory
  /// on the device is allocated for each run. Errors: as of ProgramRunner::run.
  Status run(Inputs parameters, Outputs results);
  /// The same twice, the second time with an event of the device between steps (a loop is one), and then replayed as a
  /// CUDA graph. What is measured has warm caches of code, and (but for cold_us) inputs as warm as the run itself
  /// leaves them; a step that is shorter than the host takes to enqueue it and an event is as long as that. Errors:
  /// those of run.
  Result<ProgramTime> run_timed(Inputs parameters, Outputs results);

 private:
  struct Contents;
  StreamProgram(api::Program program, std::unique_ptr<Contents> contents);

  const api::Program program_;
  std::unique_ptr<Contents> contents_;
};

}  // namespace stitch::client
