// What is declared of cuBLASLt, beside its own header where there is one, and the real library where there is one.
#include "cuda/cublas_lt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace stitch::cuda::lt {
namespace {

using testing::HasSubstr;

#if __has_include(<cublasLt.h>)
static_assert(static_cast<int>(Status::not_initialized) == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(static_cast<int>(Status::alloc_failed) == CUBLAS_STATUS_ALLOC_FAILED);
static_assert(static_cast<int>(Status::invalid_value) == CUBLAS_STATUS_INVALID_VALUE);
static_assert(static_cast<int>(Status::arch_mismatch) == CUBLAS_STATUS_ARCH_MISMATCH);
static_assert(static_cast<int>(Status::mapping_error) == CUBLAS_STATUS_MAPPING_ERROR);
static_assert(static_cast<int>(Status::execution_failed) == CUBLAS_STATUS_EXECUTION_FAILED);
static_assert(static_cast<int>(Status::internal_error) == CUBLAS_STATUS_INTERNAL_ERROR);
static_assert(static_cast<int>(Status::not_supported) == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(static_cast<int>(DataType::r_32f) == CUDA_R_32F);
static_assert(static_cast<int>(DataType::r_64f) == CUDA_R_64F);
static_assert(static_cast<int>(DataType::r_16f) == CUDA_R_16F);
static_assert(static_cast<int>(DataType::r_16bf) == CUDA_R_16BF);
static_assert(static_cast<int>(ComputeType::f32) == CUBLAS_COMPUTE_32F);
static_assert(static_cast<int>(ComputeType::f64) == CUBLAS_COMPUTE_64F);
static_assert(static_cast<int>(ComputeType::f32_fast_tf32) == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(static_cast<int>(Operation::none) == CUBLAS_OP_N);
static_assert(static_cast<int>(Operation::transpose) == CUBLAS_OP_T);
static_assert(static_cast<int>(Epilogue::none) == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(static_cast<int>(Epilogue::relu) == CUBLASLT_EPILOGUE_RELU);
static_assert(static_cast<int>(Epilogue::bias) == CUBLASLT_EPILOGUE_BIAS);
static_assert(static_cast<int>(Epilogue::relu_bias) == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(static_cast<int>(MatmulAttribute::transpose_a) == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(static_cast<int>(MatmulAttribute::transpose_b) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(static_cast<int>(MatmulAttribute::epilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(static_cast<int>(MatmulAttribute::bias_pointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(static_cast<int>(MatmulAttribute::bias_batch_stride) == CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
static_assert(static_cast<int>(MatmulAttribute::bias_type) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(static_cast<int>(LayoutAttribute::batch_count) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(static_cast<int>(LayoutAttribute::batch_stride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(static_cast<int>(PreferenceAttribute::max_workspace_bytes) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::reduction_schemes) == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(reduction_in_compute_type == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(static_cast<int>(PreferenceAttribute::min_alignment_a) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::min_alignment_b) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::min_alignment_c) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::min_alignment_d) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Suggestion) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Suggestion, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Suggestion, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Suggestion, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

/// Functions whose parameters are as many and as wide.
template <class Ours, class... Theirs, class... Own>
constexpr bool alike(cublasStatus_t (*)(Theirs...), lt::Status (*)(Own...)) {
  if constexpr (sizeof...(Theirs) != sizeof...(Own)) {
    return false;
  } else {
    return ((sizeof(Theirs) == sizeof(Own)) && ...);
  }
}
#define STITCH_ALIKE(type, function) \
  static_assert(alike<type>(static_cast<decltype(&function)>(nullptr), static_cast<type*>(nullptr)))
STITCH_ALIKE(Create, cublasLtCreate);
STITCH_ALIKE(Destroy, cublasLtDestroy);
STITCH_ALIKE(MatmulCreate, cublasLtMatmulDescCreate);
STITCH_ALIKE(MatmulDestroy, cublasLtMatmulDescDestroy);
STITCH_ALIKE(MatmulSet, cublasLtMatmulDescSetAttribute);
STITCH_ALIKE(LayoutCreate, cublasLtMatrixLayoutCreate);
STITCH_ALIKE(LayoutDestroy, cublasLtMatrixLayoutDestroy);
STITCH_ALIKE(LayoutSet, cublasLtMatrixLayoutSetAttribute);
STITCH_ALIKE(PreferenceCreate, cublasLtMatmulPreferenceCreate);
STITCH_ALIKE(PreferenceDestroy, cublasLtMatmulPreferenceDestroy);
STITCH_ALIKE(PreferenceSet, cublasLtMatmulPreferenceSetAttribute);
STITCH_ALIKE(Suggest, cublasLtMatmulAlgoGetHeuristic);
STITCH_ALIKE(Multiply, cublasLtMatmul);
#undef STITCH_ALIKE
#endif

TEST(CublasLt, ALibraryThatIsNotThereIsNamed) {
  const auto api = Api::load({"libnosuchproducts.so.1", "libnorthis.so"});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(api.error().message, HasSubstr("libnosuchproducts.so.1"));
  EXPECT_THAT(api.error().message, HasSubstr("libnorthis.so"));
}

TEST(CublasLt, AnotherLibraryLacksItsFunctions) {
  const auto api = Api::load({"libc.so.6"});
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.error().message, HasSubstr("libc.so.6 has no cublasLtCreate"));
}

/// The real library, of a toolkit or of PyPI's packages, on a machine without a GPU, or with one.
TEST(CublasLt, TheRealOneIsReadyOrSaysWhyNot) {
  const std::vector<std::string> libraries = {STITCH_CUDA_LIBRARY_FOLDER "/libcublasLt.so.13",
                                              STITCH_CUDA_LIBRARY_FOLDER "/libcublasLt.so.12", STITCH_PYPI_CUBLAS_LT,
                                              "libcublasLt.so.13", "libcublasLt.so.12"};
  const auto api = Api::load(libraries);
  if (!api) GTEST_SKIP() << api.error().message;
  EXPECT_GT((*api)->version(), 120000U);
  Handle handle = nullptr;
  const auto created = (*api)->check((*api)->create(&handle), "cublasLtCreate");
  if (created) {
    EXPECT_EQ((*api)->destroy(handle), lt::Status::success);
  } else {
    EXPECT_EQ(created.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(created.error().message, HasSubstr("cublasLtCreate: "));
  }
}

}  // namespace
}  // namespace stitch::cuda::lt
