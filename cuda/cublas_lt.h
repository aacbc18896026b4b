#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

/// As much of cuBLASLt's binary interface (NVIDIA, "cuBLAS library", §3) as matrix products with an epilogue need.
/// Declared here because its header comes with a package of half a gigabyte; tests hold it against the header where
/// there is one. Matrices are column-major, sizes are in elements.
namespace stitch::cuda::lt {

enum class Status : int {
  success = 0,
  not_initialized = 1,
  alloc_failed = 3,
  invalid_value = 7,
  arch_mismatch = 8,
  mapping_error = 11,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15,
};
enum class DataType : int { r_32f = 0, r_64f = 1, r_16f = 2, r_16bf = 14 };
enum class ComputeType : int { f32 = 68, f64 = 70, f32_fast_tf32 = 77 };
enum class Operation : std::int32_t { none = 0, transpose = 1 };
enum class Epilogue : std::uint32_t { none = 1, relu = 2, bias = 4, relu_bias = 6 };

enum class MatmulAttribute : int {
  transpose_a = 3,         ///< Operation
  transpose_b = 4,         ///< Operation
  epilogue = 7,            ///< Epilogue
  bias_pointer = 8,        ///< address of one element per row of D
  bias_batch_stride = 10,  ///< int64
  bias_type = 26,          ///< DataType as int32
};
enum class LayoutAttribute : int {
  batch_count = 5,   ///< int32
  batch_stride = 6,  ///< int64
};
enum class PreferenceAttribute : int {
  max_workspace_bytes = 1,  ///< uint64
  reduction_schemes = 3,    ///< uint32, a mask: how parts of one sum may be added
  min_alignment_a = 5,      ///< uint32, bytes; then of B, C and D
  min_alignment_b = 6,
  min_alignment_c = 7,
  min_alignment_d = 8,
};

inline constexpr std::uint32_t reduction_in_compute_type = 2;

struct HandleData;
struct MatmulData;
struct LayoutData;
struct PreferenceData;
using Handle = HandleData*;
using Matmul = MatmulData*;  ///< a product's type, transpositions and epilogue
using Layout = LayoutData*;
using Preference = PreferenceData*;

/// How the library is going to compute a product; bytes of its own.
struct Algorithm {
  std::uint64_t data[8];
};
struct Suggestion {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

using Create = Status(Handle*);
using Destroy = Status(Handle);
using StatusString = const char*(Status);
using Version = std::size_t();
using MatmulCreate = Status(Matmul*, ComputeType, DataType scale);
using MatmulDestroy = Status(Matmul);
using MatmulSet = Status(Matmul, MatmulAttribute, const void*, std::size_t bytes);
using LayoutCreate = Status(Layout*, DataType, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
using LayoutDestroy = Status(Layout);
using LayoutSet = Status(Layout, LayoutAttribute, const void*, std::size_t bytes);
using PreferenceCreate = Status(Preference*);
using PreferenceDestroy = Status(Preference);
using PreferenceSet = Status(Preference, PreferenceAttribute, const void*, std::size_t bytes);
using Suggest = Status(Handle, Matmul, Layout a, Layout b, Layout c, Layout d, Preference, int wanted, Suggestion*,
                       int* found);
/// D = epilogue(alpha · op(A) · op(B) + beta · C); alpha and beta on the host.
using Multiply = Status(Handle, Matmul, const void* alpha, const void* a, Layout, const void* b, Layout,
                        const void* beta, const void* c, Layout, void* d, Layout, const Algorithm*, void* workspace,
                        std::size_t workspace_bytes, CUstream);

/// Its functions, found in the library when a program runs. The library stays loaded: it is the process's, as the
/// driver is.
struct Api {
  Create* create = nullptr;
  Destroy* destroy = nullptr;
  StatusString* status_string = nullptr;
  Version* version = nullptr;
  MatmulCreate* matmul_create = nullptr;
  MatmulDestroy* matmul_destroy = nullptr;
  MatmulSet* matmul_set = nullptr;
  LayoutCreate* layout_create = nullptr;
  LayoutDestroy* layout_destroy = nullptr;
  LayoutSet* layout_set = nullptr;
  PreferenceCreate* preference_create = nullptr;
  PreferenceDestroy* preference_destroy = nullptr;
  PreferenceSet* preference_set = nullptr;
  Suggest* suggest = nullptr;
  Multiply* multiply = nullptr;

  /// The first of these libraries that there is (usually libcublasLt.so.13, of CUDA 13). Error: unavailable, in the
  /// loader's words.
  static Result<std::shared_ptr<const Api>> load(const std::vector<std::string>& libraries);

  /// Success, or "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED" (as the library says it): unsupported where it says
  /// that, unavailable where it cannot work at all, resource_exhausted for want of memory, else runtime.
  [[nodiscard]] stitch::Status check(Status status, const char* call) const;
};

}  // namespace stitch::cuda::lt
