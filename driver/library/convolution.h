#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/cudnn.h"
#include "driver/library/tensor_image.h"
#include "driver/state/library_work.h"

namespace stitch::driver {

/// A convolution, or one of its gradients, as the emulated cuDNN is asked for it.
struct ConvolutionOperation {
  enum class Kind : std::uint8_t { forward, backward_data, backward_filter };
  Kind kind = Kind::forward;
  cuda::dnn::DataType compute = cuda::dnn::DataType::f32;
  bool flipped = false;  ///< filters are read backwards
  std::vector<std::int64_t> pre_padding, post_padding, strides, dilation;
  double alpha = 1, beta = 0;  ///< of the sum, and of what the result's memory holds before
  ConvolutionTensor x, w, y;

  [[nodiscard]] const ConvolutionTensor& result() const;
};

/// result = function(alpha1 · x [, b]), where extents of 1 in b are repeated.
struct PointwiseOperation {
  cuda::dnn::PointwiseMode mode = cuda::dnn::PointwiseMode::add;
  cuda::dnn::DataType compute = cuda::dnn::DataType::f32;
  bool propagates_nan = false;
  double alpha1 = 1;
  ConvolutionTensor x, y;
  std::optional<ConvolutionTensor> b;
};

/// A convolution and what is done to its result.
struct ConvolutionGraph {
  ConvolutionOperation convolution;
  std::vector<PointwiseOperation> behind;

  /// What lies in memory: tensors that are read, then the one that is written.
  [[nodiscard]] std::vector<ConvolutionTensor> in_memory() const;
  /// Whether f32 is multiplied, which an engine may round to TF32 before.
  [[nodiscard]] bool multiplies_f32() const;
};

/// Whether descriptors fit together as cuDNN's manual has it (backend descriptor types: tensor, convolution, operation
/// and operation graph). Errors: invalid_argument, unsupported (types and patterns that it does not list).
Status check_tensor(const ConvolutionTensor& tensor);
Status check_convolution(const ConvolutionOperation& operation);
Status check_pointwise(const PointwiseOperation& operation);
Status check_graph(const ConvolutionGraph& graph);

/// "convolution f32 [2,3,9,8]*[4,3,3,3] + bias".
std::string describe(const ConvolutionGraph& graph);

/// The memory that it reads and writes, and how it is computed there, in double where the convolution's type is, else
/// in float, rounded where a tensor lies. `at`: addresses by the tensors' numbers; `tf32`: operands of f32 are rounded.
LibraryWork work_of(const ConvolutionGraph& graph, const std::map<std::int64_t, CUdeviceptr>& at, bool tf32);

}  // namespace stitch::driver
