#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cuda/driver_api.h"
#include "graph/graph.h"
#include "library/convolution_library.h"
#include "library/device_memory.h"
#include "library/matmul_library.h"
#include "library/stream_libraries.h"

namespace stitch::library {

/// Library calls, each given by the graph of what it computes (api::ProgramCall::graph), as NVIDIA's libraries compute
/// them: what is a product of matrices by cuBLASLt, other convolutions and their gradients by cuDNN, each loaded for
/// the first call that needs it. A program that is run has such calls (client/library_calls.h), and stitch-runner
/// measures them (profiler/gpu/session.h). All share one workspace, so launches must be ordered on the device. Used by
/// one thread at a time; a context must be current, and outlive it.
class GraphCalls {
 public:
  GraphCalls(std::shared_ptr<const cuda::DriverApi> driver, StreamLibraries libraries)
      : driver_(std::move(driver)), libraries_(std::move(libraries)), workspace_(*driver_) {}

  /// Makes a call ready, not while a stream is captured; its number. Errors: unsupported (no library has a call for
  /// it), unavailable (the library is not there, in the loader's words), what else libraries fail for.
  Result<int> prepare(const graph::Graph& call);
  /// How often a library is called for one, copies counted.
  [[nodiscard]] std::int64_t launches(int call) const;
  /// How many of these are copies.
  [[nodiscard]] int copies(int call) const;
  /// Who computes it: "cuBLASLt 13.0.0".
  [[nodiscard]] std::string name_of(int call) const;
  /// Who computes all of them: "cuBLASLt 13.0.0, cuDNN 9.8.0"; "no library calls".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::int64_t workspace_bytes() const;
  /// Allocates what all that is ready needs of the device, and waits for it; again after more was made ready. Error:
  /// resource_exhausted, naming it.
  Status make_memory();

  /// `parameters`, `result`: addresses as the call's graph has them, at multiples of operand_alignment. Error: runtime.
  Status launch(int call, const std::vector<std::uint64_t>& parameters, std::uint64_t result, CUstream stream);

 private:
  /// Who computes a call, and its number there.
  struct Computed {
    enum class By : std::uint8_t { matmuls, convolutions };
    By by = By::matmuls;
    int number = -1;
  };
  Result<Computed> prepare_matmul(const graph::StridedMatmul& matmul);
  Result<Computed> prepare_convolution(const graph::StridedConvolution& convolution);

  std::shared_ptr<const cuda::DriverApi> driver_;
  StreamLibraries libraries_;
  std::unique_ptr<MatmulLibrary> matmuls_;             ///< null: nobody needed it, or there is none
  std::unique_ptr<ConvolutionLibrary> convolutions_;   ///< likewise
  std::optional<Error> no_matmuls_, no_convolutions_;  ///< why there is none: nobody tries to load it again
  std::vector<Computed> computed_;                     ///< per call
  DeviceMemory workspace_;
};

}  // namespace stitch::library
