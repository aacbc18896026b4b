#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/program_document.h"
#include "client/convolution_library.h"
#include "client/cuda_context.h"
#include "client/device_steps.h"
#include "client/matmul_library.h"
#include "client/stream_libraries.h"

namespace stitch::client {

/// A program's library calls as NVIDIA's libraries compute them: what is a product of matrices by cuBLASLt, other
/// convolutions and their gradients by cuDNN, each loaded for the first call that needs it. All share one workspace, so
/// launches must be ordered on the device. Used by one thread at a time; the context must be current.
class LibraryCalls {
 public:
  LibraryCalls(std::shared_ptr<const CudaContext> context, StreamLibraries libraries)
      : context_(std::move(context)), libraries_(std::move(libraries)), workspace_(*context_->driver) {}

  /// Makes them ready, not while a stream is captured. That no library computes one, or that a library is not there, is
  /// said of the call (DeviceCall::covered), with the programs that do without. Errors: what else libraries fail for.
  Status prepare(const std::vector<api::ProgramCall>& calls);
  /// What has become of every call.
  [[nodiscard]] const std::vector<DeviceCall>& calls() const { return calls_; }
  /// "cuBLASLt 13.0.0, cuDNN 9.8.0"; "no library calls".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::int64_t workspace_bytes() const;
  /// Allocates what all that is ready needs of the device, and waits for it. Error: resource_exhausted, naming it.
  Status make_memory();

  /// `parameters`, `result`: addresses as the call's graph has them. Error: runtime.
  Status launch(int call, const std::vector<std::uint64_t>& parameters, std::uint64_t result, CUstream stream);

 private:
  /// Who computes a call, and its number there.
  struct Computed {
    enum class By : std::uint8_t { nobody, matmuls, convolutions };
    By by = By::nobody;
    int number = -1;
  };
  /// Errors: unsupported, unavailable (both: of this call), what else libraries fail for.
  Result<Computed> prepare(const graph::Graph& call);
  Result<Computed> prepare_matmul(const graph::StridedMatmul& matmul);
  Result<Computed> prepare_convolution(const graph::StridedConvolution& convolution);

  std::shared_ptr<const CudaContext> context_;
  StreamLibraries libraries_;
  std::unique_ptr<MatmulLibrary> matmuls_;             ///< null: nobody needed it, or there is none
  std::unique_ptr<ConvolutionLibrary> convolutions_;   ///< likewise
  std::optional<Error> no_matmuls_, no_convolutions_;  ///< why there is none: nobody tries to load it again
  std::vector<Computed> computed_;                     ///< per call
  std::vector<DeviceCall> calls_;
  DeviceMemory workspace_;
};

}  // namespace stitch::client
