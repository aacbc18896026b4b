#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/cudnn.h"
#include "graph/calls/strided_convolution.h"
#include "library/convolution_operations.h"
#include "library/device_memory.h"

namespace stitch::library {

/// Convolutions and their gradients on a GPU by NVIDIA's cuDNN, which is loaded when a program needs it. They are made
/// ready beforehand: of what the library's heuristics suggest (mode A, then its fallbacks), the fastest plan of several
/// that compute as the call asks and take no more workspace than there may be. They are timed on memory of their own:
/// what heuristics put first took 117 ms on an H100 for what others do in one (bench/results/gpu). Where nothing can be
/// timed it is the first. cuDNN fuses forward convolutions with a
/// bias, and all else on tensor cores alone ("Supported Graph Patterns"): where there is no plan without, there is one
/// with a bias of zeros, and a tensor that is added to a gradient is copied to the result first, onto which the
/// gradient is added. Launching allocates no memory of the device and waits for nothing. All share the caller's
/// workspace, so launches must be ordered on the device. Used by one thread at a time; a context must be current.
class ConvolutionLibrary {
 public:
  /// `libraries`: the first that there is. Errors: unavailable, in the words of loader or library.
  static Result<std::unique_ptr<ConvolutionLibrary>> open(std::shared_ptr<const cuda::DriverApi> driver,
                                                          const std::vector<std::string>& libraries);
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;
  ~ConvolutionLibrary();

  /// What `run` takes that enqueues on a stream, us. Errors: those of `run`; runtime.
  using PlanTimer = std::function<Result<double>(const std::function<Status(CUstream)>& run)>;
  /// How plans are timed that are made ready from now on; empty: not at all. At first by the device's events, and on an
  /// emulated driver not at all.
  void time_plans_by(PlanTimer timer) { timer_ = std::move(timer); }

  /// "cuDNN 9.8.0"
  [[nodiscard]] std::string name() const;
  /// Makes a convolution ready; its number. Error: unsupported (the library has no plan for it, and why it refused the
  /// last, or what was wrong with those that it had).
  Result<int> prepare(const graph::StridedConvolution& convolution);
  /// How many calls of the library and copies it takes: one, two, or none where the result is empty.
  [[nodiscard]] std::int64_t calls(int convolution) const;
  /// How many of them are copies.
  [[nodiscard]] int copies(int convolution) const { return convolutions_[convolution].copied ? 1 : 0; }
  /// The largest workspace of what is ready; no more than most_library_workspace_bytes.
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Allocates what is kept on the device for all that is ready, and waits for it. Before anything is launched, again
  /// after more was made ready. Error: resource_exhausted.
  Status make_constants();

  /// `parameters`, `result`: addresses as the convolution's call has them. Error: runtime.
  Status launch(int convolution, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                std::uint64_t workspace, CUstream stream);

 private:
  struct Convolution {
    std::vector<ConvolutionOperations::Tensor> tensors;
    std::optional<cuda::dnn::Descriptor> plan;  ///< nothing: there is nothing to compute
    std::int64_t workspace_bytes = 0;
    std::optional<graph::StridedConvolution::Tensor> copied;  ///< to the result before it runs
    std::vector<std::uint64_t> addresses;                     ///< of the tensors, then the workspace, in `pack`
    std::optional<cuda::dnn::Descriptor> pack;  ///< kept for the next launch, which mostly has the same addresses
  };

  ConvolutionLibrary(std::shared_ptr<const cuda::DriverApi> driver, std::shared_ptr<const cuda::dnn::Api> api);
  Status make_ready(Convolution& made, const graph::StridedConvolution& how, bool onto_result = false) const;
  /// Where there is no plan for what the call says: in other words of the same meaning. False: in none.
  bool make_ready_otherwise(Convolution& made, const graph::StridedConvolution& how);
  struct Plan {
    cuda::dnn::Descriptor plan;
    std::int64_t workspace_bytes = 0;
  };
  Status choose_plan(Convolution& made, const cuda::dnn::Descriptor& graph, const graph::StridedConvolution& how) const;
  /// The configuration's plan if it will do. `why`: else why not.
  Result<std::optional<Plan>> plan_of(const cuda::dnn::Descriptor& configuration, const graph::StridedConvolution& how,
                                      std::string& why) const;
  /// Which of the plans is the fastest; the first where that cannot be told.
  std::size_t fastest(const std::vector<Plan>& plans, const std::vector<ConvolutionOperations::Tensor>& tensors,
                      const graph::StridedConvolution& how) const;
  Result<cuda::dnn::Descriptor> make_pack(const std::vector<ConvolutionOperations::Tensor>& tensors,
                                          std::vector<std::uint64_t> addresses) const;

  std::shared_ptr<const cuda::DriverApi> driver_;
  std::shared_ptr<const cuda::dnn::Api> api_;
  cuda::dnn::Handle handle_ = nullptr;
  PlanTimer timer_;
  std::vector<Convolution> convolutions_;
  std::int64_t workspace_bytes_ = 0;
  std::int64_t zero_bytes_ = 0;  ///< of the longest bias of zeros
  DeviceMemory zeros_;
};

}  // namespace stitch::library
