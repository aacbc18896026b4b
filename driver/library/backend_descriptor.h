#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cuda/cudnn.h"
#include "driver/library/convolution.h"
#include "driver/library/convolution_plan.h"
#include "driver/library/outcome.h"

namespace stitch::driver {

struct BackendDescriptor;
using SharedDescriptor = std::shared_ptr<const BackendDescriptor>;

/// A descriptor of the emulated cuDNN's backend: attributes as they were set, and what finalising makes of them.
struct BackendDescriptor {
  struct Value {
    std::int64_t count = 0;
    cuda::dnn::AttributeType type = cuda::dnn::AttributeType::int64;
    std::vector<std::byte> bytes;
    std::vector<SharedDescriptor> descriptors;
  };
  cuda::dnn::DescriptorType type = cuda::dnn::DescriptorType::tensor;
  bool finalized = false;
  std::map<cuda::dnn::Attribute, Value> values;
  /// A convolution's is an operation without its tensors, a pointwise descriptor's likewise.
  std::variant<std::monostate, ConvolutionTensor, ConvolutionOperation, PointwiseOperation, ConvolutionGraph,
               std::vector<ConvolutionPlan>, ConvolutionPlan, VariantPack>
      made;
};

/// Whether there are descriptors of a type.
bool has_attributes(cuda::dnn::DescriptorType type);

/// cudnnBackendSetAttribute: attributes of the descriptor's table only, with their type and count, before it is
/// finalised. `descriptors`: what the elements are where they are descriptors.
Outcome set_attribute(BackendDescriptor& descriptor, cuda::dnn::Attribute attribute, cuda::dnn::AttributeType type,
                      std::int64_t count, const void* elements, std::vector<SharedDescriptor> descriptors);

/// cudnnBackendFinalize: all required attributes are there and fit together.
Outcome finalize(BackendDescriptor& descriptor);

}  // namespace stitch::driver
