// What is declared of cuDNN, beside its own headers where there are any, and the real library where there is one.
#include "cuda/cudnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

namespace stitch::cuda::dnn {
namespace {

using testing::HasSubstr;

#if __has_include(<cudnn_graph.h>)
#define STITCH_IS(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
STITCH_IS(Status::not_initialized, CUDNN_STATUS_NOT_INITIALIZED);
STITCH_IS(Status::sublibrary_loading_failed, CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
STITCH_IS(Status::bad_param, CUDNN_STATUS_BAD_PARAM);
STITCH_IS(Status::bad_param_null_pointer, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
STITCH_IS(Status::bad_param_misaligned_pointer, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
STITCH_IS(Status::bad_param_not_finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
STITCH_IS(Status::bad_param_size_insufficient, CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
STITCH_IS(Status::bad_param_shape_mismatch, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
STITCH_IS(Status::bad_param_duplicated_entries, CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
STITCH_IS(Status::bad_param_attribute_type, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
STITCH_IS(Status::not_supported, CUDNN_STATUS_NOT_SUPPORTED);
STITCH_IS(Status::not_supported_graph_pattern, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
STITCH_IS(Status::not_supported_data_type, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
STITCH_IS(Status::not_supported_incompatible_cuda_driver, CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER);
STITCH_IS(Status::not_supported_arch_mismatch, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
STITCH_IS(Status::internal_error, CUDNN_STATUS_INTERNAL_ERROR);
STITCH_IS(Status::internal_error_host_allocation_failed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
STITCH_IS(Status::internal_error_device_allocation_failed, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
STITCH_IS(Status::execution_failed, CUDNN_STATUS_EXECUTION_FAILED);
STITCH_IS(DataType::f32, CUDNN_DATA_FLOAT);
STITCH_IS(DataType::f64, CUDNN_DATA_DOUBLE);
STITCH_IS(DataType::f16, CUDNN_DATA_HALF);
STITCH_IS(DataType::bf16, CUDNN_DATA_BFLOAT16);
STITCH_IS(ConvolutionMode::convolution, CUDNN_CONVOLUTION);
STITCH_IS(ConvolutionMode::cross_correlation, CUDNN_CROSS_CORRELATION);
STITCH_IS(PointwiseMode::add, CUDNN_POINTWISE_ADD);
STITCH_IS(PointwiseMode::relu, CUDNN_POINTWISE_RELU_FWD);
STITCH_IS(NanPropagation::not_propagate, CUDNN_NOT_PROPAGATE_NAN);
STITCH_IS(NanPropagation::propagate, CUDNN_PROPAGATE_NAN);
STITCH_IS(HeuristicMode::fallback, CUDNN_HEUR_MODE_FALLBACK);
STITCH_IS(HeuristicMode::a, CUDNN_HEUR_MODE_A);
STITCH_IS(NumericalNote::tensor_core, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
STITCH_IS(NumericalNote::down_convert_inputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
STITCH_IS(NumericalNote::reduced_precision_reduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
STITCH_IS(NumericalNote::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
STITCH_IS(DescriptorType::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
STITCH_IS(DescriptorType::convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
STITCH_IS(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
STITCH_IS(DescriptorType::engine_configuration, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
STITCH_IS(DescriptorType::engine_heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
STITCH_IS(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
STITCH_IS(DescriptorType::convolution_forward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
STITCH_IS(DescriptorType::convolution_backward_filter, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
STITCH_IS(DescriptorType::convolution_backward_data, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
STITCH_IS(DescriptorType::operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
STITCH_IS(DescriptorType::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
STITCH_IS(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
STITCH_IS(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
STITCH_IS(AttributeType::handle, CUDNN_TYPE_HANDLE);
STITCH_IS(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
STITCH_IS(AttributeType::boolean, CUDNN_TYPE_BOOLEAN);
STITCH_IS(AttributeType::int64, CUDNN_TYPE_INT64);
STITCH_IS(AttributeType::f32, CUDNN_TYPE_FLOAT);
STITCH_IS(AttributeType::f64, CUDNN_TYPE_DOUBLE);
STITCH_IS(AttributeType::pointer, CUDNN_TYPE_VOID_PTR);
STITCH_IS(AttributeType::convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE);
STITCH_IS(AttributeType::heuristic_mode, CUDNN_TYPE_HEUR_MODE);
STITCH_IS(AttributeType::nan_propagation, CUDNN_TYPE_NAN_PROPOGATION);
STITCH_IS(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
STITCH_IS(AttributeType::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
STITCH_IS(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
STITCH_IS(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
STITCH_IS(Attribute::pointwise_math_type, CUDNN_ATTR_POINTWISE_MATH_PREC);
STITCH_IS(Attribute::pointwise_nan_propagation, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
STITCH_IS(Attribute::convolution_compute_type, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
STITCH_IS(Attribute::convolution_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
STITCH_IS(Attribute::convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
STITCH_IS(Attribute::convolution_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
STITCH_IS(Attribute::convolution_post_paddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
STITCH_IS(Attribute::convolution_pre_paddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
STITCH_IS(Attribute::convolution_spatial_dims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
STITCH_IS(Attribute::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
STITCH_IS(Attribute::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
STITCH_IS(Attribute::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
STITCH_IS(Attribute::configuration_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
STITCH_IS(Attribute::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
STITCH_IS(Attribute::plan_configuration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
STITCH_IS(Attribute::plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
STITCH_IS(Attribute::forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
STITCH_IS(Attribute::forward_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
STITCH_IS(Attribute::forward_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
STITCH_IS(Attribute::forward_w, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
STITCH_IS(Attribute::forward_x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
STITCH_IS(Attribute::forward_y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
STITCH_IS(Attribute::backward_data_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
STITCH_IS(Attribute::backward_data_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
STITCH_IS(Attribute::backward_data_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
STITCH_IS(Attribute::backward_data_w, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
STITCH_IS(Attribute::backward_data_dx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
STITCH_IS(Attribute::backward_data_dy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
STITCH_IS(Attribute::backward_filter_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
STITCH_IS(Attribute::backward_filter_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
STITCH_IS(Attribute::backward_filter_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
STITCH_IS(Attribute::backward_filter_dw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
STITCH_IS(Attribute::backward_filter_x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
STITCH_IS(Attribute::backward_filter_dy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
STITCH_IS(Attribute::operation_pointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
STITCH_IS(Attribute::pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
STITCH_IS(Attribute::pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
STITCH_IS(Attribute::pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
STITCH_IS(Attribute::pointwise_alpha1, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1);
STITCH_IS(Attribute::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
STITCH_IS(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
STITCH_IS(Attribute::tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
STITCH_IS(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
STITCH_IS(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
STITCH_IS(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
STITCH_IS(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
STITCH_IS(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
STITCH_IS(Attribute::pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
STITCH_IS(Attribute::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
STITCH_IS(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
STITCH_IS(Attribute::engine_numerical_notes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
#undef STITCH_IS

/// Functions whose parameters are as many and as wide.
template <class... Theirs, class... Own>
constexpr bool alike(cudnnStatus_t (*)(Theirs...), dnn::Status (*)(Own...)) {
  if constexpr (sizeof...(Theirs) != sizeof...(Own)) {
    return false;
  } else {
    return ((sizeof(Theirs) == sizeof(Own)) && ...);
  }
}
#define STITCH_ALIKE(type, function) \
  static_assert(alike(static_cast<decltype(&function)>(nullptr), static_cast<type*>(nullptr)))
STITCH_ALIKE(Create, cudnnCreate);
STITCH_ALIKE(Destroy, cudnnDestroy);
STITCH_ALIKE(SetStream, cudnnSetStream);
STITCH_ALIKE(CreateDescriptor, cudnnBackendCreateDescriptor);
STITCH_ALIKE(DestroyDescriptor, cudnnBackendDestroyDescriptor);
STITCH_ALIKE(Finalize, cudnnBackendFinalize);
STITCH_ALIKE(SetAttribute, cudnnBackendSetAttribute);
STITCH_ALIKE(GetAttribute, cudnnBackendGetAttribute);
STITCH_ALIKE(Execute, cudnnBackendExecute);
#undef STITCH_ALIKE
#endif

TEST(Cudnn, ALibraryThatIsNotThereIsNamed) {
  const auto api = Api::load({"libnosuchconvolutions.so.1", "libnorthis.so"});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(api.error().message, HasSubstr("no cuDNN: libnosuchconvolutions.so.1"));
  EXPECT_THAT(api.error().message, HasSubstr("libnorthis.so"));
}

TEST(Cudnn, AnotherLibraryLacksItsFunctions) {
  const auto api = Api::load({"libc.so.6"});
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.error().message, HasSubstr("libc.so.6 has no cudnnCreate"));
}

/// The real library, of PyPI's packages or of a toolkit, on a machine without a GPU, or with one.
TEST(Cudnn, TheRealOneIsReadyOrSaysWhyNot) {
  const auto api = Api::load({STITCH_PYPI_CUDNN, STITCH_CUDA_LIBRARY_FOLDER "/libcudnn.so.9", "libcudnn.so.9"});
  if (!api) GTEST_SKIP() << api.error().message;
  EXPECT_GE((*api)->version(), 90000U);
  Handle handle = nullptr;
  const auto created = (*api)->check((*api)->create(&handle), "cudnnCreate");
  if (created) {
    EXPECT_EQ((*api)->destroy(handle), dnn::Status::success);
  } else {
    EXPECT_EQ(created.error().kind, ErrorKind::unavailable) << created.error().message;
    EXPECT_THAT(created.error().message, HasSubstr("cudnnCreate: CUDNN_STATUS_"));
  }
}

}  // namespace
}  // namespace stitch::cuda::dnn
