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

namespace stitch::driver {

/// What a call of cuDNN's backend came to.
struct Outcome {
  cuda::dnn::Status status = cuda::dnn::Status::success;
  std::string why;  ///< empty where it is a success

  explicit operator bool() const { return status == cuda::dnn::Status::success; }
};

struct BackendDescriptor;
using SharedDescriptor = std::shared_ptr<const BackendDescriptor>;

/// A way to compute a graph: what the emulated library suggests.
struct ConvolutionEngine {
  std::vector<cuda::dnn::NumericalNote> notes;
  std::int64_t workspace_bytes = 0;
  bool tf32 = false;  ///< rounds operands of f32
};
/// Engine configurations, suggestions and plans: a graph and one way to compute it.
struct ConvolutionPlan {
  SharedDescriptor graph;
  ConvolutionEngine engine;
};
struct EngineSuggestions {
  std::vector<ConvolutionPlan> plans;
};
struct VariantPack {
  std::map<std::int64_t, CUdeviceptr> addresses;  ///< by the tensors' numbers
  CUdeviceptr workspace = 0;
};

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
               EngineSuggestions, ConvolutionPlan, VariantPack>
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

/// Checks that a pack has an address, aligned as promised, for every tensor of a plan, and lies apart where it writes;
/// what the device has to do then.
Outcome launchable(const ConvolutionPlan& plan, const VariantPack& pack, LibraryWork& work);

}  // namespace stitch::driver
