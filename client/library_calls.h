#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/program_document.h"
#include "client/cuda_context.h"
#include "client/device_steps.h"
#include "library/graph_calls.h"

namespace stitch::client {

/// A program's library calls as NVIDIA's libraries compute them (library/graph_calls.h). All share one workspace, so
/// launches must be ordered on the device. Used by one thread at a time; the context must be current.
class LibraryCalls {
 public:
  LibraryCalls(std::shared_ptr<const CudaContext> context, library::StreamLibraries libraries)
      : context_(std::move(context)), computed_(context_->driver, std::move(libraries)) {}

  /// Makes them ready, not while a stream is captured. That no library computes one, or that a library is not there, is
  /// said of the call (DeviceCall::covered), with the programs that do without. Errors: what else libraries fail for.
  Status prepare(const std::vector<api::ProgramCall>& calls);
  /// What has become of every call.
  [[nodiscard]] const std::vector<DeviceCall>& calls() const { return calls_; }
  /// "cuBLASLt 13.0.0, cuDNN 9.8.0"; "no library calls".
  [[nodiscard]] std::string name() const { return computed_.name(); }
  [[nodiscard]] std::int64_t workspace_bytes() const { return computed_.workspace_bytes(); }
  /// Allocates what all that is ready needs of the device, and waits for it. Error: resource_exhausted, naming it.
  Status make_memory() { return computed_.make_memory(); }

  /// `parameters`, `result`: addresses as the call's graph has them. Error: runtime.
  Status launch(int call, const std::vector<std::uint64_t>& parameters, std::uint64_t result, CUstream stream) {
    return computed_.launch(numbers_[call], parameters, result, stream);
  }

 private:
  std::shared_ptr<const CudaContext> context_;  ///< outlives what the libraries hold of it
  library::GraphCalls computed_;
  std::vector<int> numbers_;  ///< of each call there; -1: nobody computes it
  std::vector<DeviceCall> calls_;
};

}  // namespace stitch::client
