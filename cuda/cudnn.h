#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

/// As much of cuDNN 9's binary interface as convolutions with an epilogue need: its backend, in which operations are
/// descriptors (NVIDIA, "cuDNN backend API", cudnn_graph library). Declared here because its headers come with a
/// package of half a gigabyte; tests hold it against them where there are any. Strides are in elements.
namespace stitch::cuda::dnn {

/// A thousand statuses for each kind: of initialisation, parameters, what is not supported, internal ones, execution.
enum class Status : int {
  success = 0,
  not_initialized = 1001,
  sublibrary_loading_failed = 1008,
  bad_param = 2000,
  bad_param_null_pointer = 2002,
  bad_param_misaligned_pointer = 2003,
  bad_param_not_finalized = 2004,
  bad_param_size_insufficient = 2006,
  bad_param_shape_mismatch = 2008,
  bad_param_duplicated_entries = 2009,
  bad_param_attribute_type = 2010,
  not_supported = 3000,
  not_supported_graph_pattern = 3001,
  not_supported_data_type = 3003,
  not_supported_incompatible_cuda_driver = 3005,
  not_supported_arch_mismatch = 3007,
  internal_error = 4000,
  internal_error_host_allocation_failed = 4003,
  internal_error_device_allocation_failed = 4004,
  execution_failed = 5000,
};

enum class DataType : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 9 };
enum class ConvolutionMode : int { convolution = 0, cross_correlation = 1 };  ///< the first reads filters backwards
enum class PointwiseMode : int { add = 0, relu = 100 };
enum class NanPropagation : int { not_propagate = 0, propagate = 1 };
enum class HeuristicMode : int { fallback = 2, a = 3 };
/// What an engine's results are like.
enum class NumericalNote : int {
  tensor_core = 0,
  down_convert_inputs = 1,
  reduced_precision_reduction = 2,
  nondeterministic = 4,
};

enum class DescriptorType : int {
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_configuration = 3,
  engine_heuristics = 4,
  execution_plan = 5,
  convolution_forward = 10,
  convolution_backward_filter = 11,
  convolution_backward_data = 12,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
};

enum class AttributeType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  f32 = 4,
  f64 = 5,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  nan_propagation = 10,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
};

enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_math_type = 1,
  pointwise_nan_propagation = 2,
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  configuration_engine = 300,
  plan_handle = 400,
  plan_configuration = 401,
  plan_workspace_size = 402,
  forward_alpha = 700,  ///< of every convolution: alpha, beta, its description, then three tensors
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  backward_data_alpha = 706,
  backward_data_beta = 707,
  backward_data_convolution = 708,
  backward_data_w = 709,
  backward_data_dx = 710,
  backward_data_dy = 711,
  backward_filter_alpha = 712,
  backward_filter_beta = 713,
  backward_filter_convolution = 714,
  backward_filter_dw = 715,
  backward_filter_x = 716,
  backward_filter_dy = 717,
  operation_pointwise = 750,
  pointwise_x = 751,
  pointwise_b = 752,
  pointwise_y = 753,
  pointwise_alpha1 = 754,
  graph_handle = 800,
  graph_operations = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  pack_unique_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_numerical_notes = 1303,
};

struct HandleData;
struct DescriptorData;
using Handle = HandleData*;
using DescriptorPointer = DescriptorData*;

using Create = Status(Handle*);
using Destroy = Status(Handle);
using SetStream = Status(Handle, CUstream);
using Version = std::size_t();
using ErrorString = const char*(Status);
using LastErrorString = void(char* message, std::size_t most);
using CreateDescriptor = Status(DescriptorType, DescriptorPointer*);
using DestroyDescriptor = Status(DescriptorPointer);
using Finalize = Status(DescriptorPointer);
using SetAttribute = Status(DescriptorPointer, Attribute, AttributeType, std::int64_t count, const void* elements);
using GetAttribute = Status(DescriptorPointer, Attribute, AttributeType, std::int64_t wanted, std::int64_t* count,
                            void* elements);
using Execute = Status(Handle, DescriptorPointer plan, DescriptorPointer pack);

/// Its functions, found in the library when a program runs. The library stays loaded: it is the process's, as the
/// driver is.
struct Api {
  Create* create = nullptr;
  Destroy* destroy = nullptr;
  SetStream* set_stream = nullptr;
  Version* version = nullptr;
  ErrorString* error_string = nullptr;
  LastErrorString* last_error_string = nullptr;
  CreateDescriptor* create_descriptor = nullptr;
  DestroyDescriptor* destroy_descriptor = nullptr;
  Finalize* finalize = nullptr;
  SetAttribute* set_attribute = nullptr;
  GetAttribute* get_attribute = nullptr;
  Execute* execute = nullptr;

  /// The first of these libraries that there is (usually libcudnn.so.9). Error: unavailable, in the loader's words.
  static Result<std::shared_ptr<const Api>> load(const std::vector<std::string>& libraries);

  /// Success, or "cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED: why" (as the library says it): unsupported where it
  /// says that, unavailable where it cannot work at all, resource_exhausted for want of memory, else runtime.
  [[nodiscard]] stitch::Status check(Status status, const char* call) const;
};

/// A descriptor of the library's backend, which it destroys at its end: attributes are set, it is finalised, and from
/// then on others may have it as theirs, which keep what they need of it. `api` must outlive it.
class Descriptor {
 public:
  /// Errors: those of Api::check, as of all members.
  static Result<Descriptor> make(const Api& api, DescriptorType type);
  Descriptor(Descriptor&& other) noexcept : api_(other.api_), pointer_(std::exchange(other.pointer_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Descriptor();

  stitch::Status set(Attribute attribute, AttributeType type, std::int64_t count, const void* elements);
  stitch::Status set(Attribute attribute, DataType value) {
    return set(attribute, AttributeType::data_type, 1, &value);
  }
  stitch::Status set(Attribute attribute, bool value) { return set(attribute, AttributeType::boolean, 1, &value); }
  stitch::Status set(Attribute attribute, std::int64_t value) {
    return set(attribute, AttributeType::int64, 1, &value);
  }
  stitch::Status set(Attribute attribute, std::span<const std::int64_t> values) {
    return set(attribute, AttributeType::int64, std::ssize(values), values.data());
  }
  stitch::Status set(Attribute attribute, Handle value) { return set(attribute, AttributeType::handle, 1, &value); }
  stitch::Status set(Attribute attribute, const Descriptor& value) {
    return set(attribute, AttributeType::descriptor, 1, &value.pointer_);
  }
  stitch::Status finalize();
  /// How many elements there are, which may be more than were `wanted` and written; before a heuristic has looked, an
  /// upper bound of them.
  Result<std::int64_t> get(Attribute attribute, AttributeType type, std::int64_t wanted, void* elements) const;

  [[nodiscard]] DescriptorPointer pointer() const { return pointer_; }

 private:
  Descriptor(const Api& api, DescriptorPointer pointer) : api_(&api), pointer_(pointer) {}

  const Api* api_;
  DescriptorPointer pointer_;
};

}  // namespace stitch::cuda::dnn
