#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/blas.h"
#include "cuda/cublas_lt.h"
#include "driver/state/library_work.h"

namespace stitch::driver {

/// A matrix, or a batch of them, as a layout of cuBLASLt describes it: column-major, sizes in elements.
struct ProductLayout {
  cuda::lt::DataType type = cuda::lt::DataType::r_32f;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int32_t batches = 1;
  std::int64_t batch_stride = 0;
};

/// A product as the emulated cuBLASLt is asked for it.
struct Product {
  cuda::lt::ComputeType compute = cuda::lt::ComputeType::f32;
  cuda::lt::DataType scale = cuda::lt::DataType::r_32f;
  bool transpose_a = false, transpose_b = false;
  cuda::lt::Epilogue epilogue = cuda::lt::Epilogue::none;
  cuda::lt::DataType bias_type = cuda::lt::DataType::r_32f;
  bool has_bias_type = false;  ///< else the bias has D's type
  std::int64_t bias_stride = 0;
  ProductLayout a, b, c, d;

  [[nodiscard]] bool has_bias() const;
  [[nodiscard]] bool has_relu() const;
};

/// What cuBLASLt computes of this (cuBLAS library, §3.4.17, the tables of types; epilogues of its table). Error:
/// invalid_argument (shapes that do not fit together), unsupported (types that no table has).
Status check_product(const Product& product);

/// "product f16 [64,32]·[32,16] × 4".
std::string describe(const Product& product);

struct ProductAddresses {
  CUdeviceptr a = 0, b = 0, c = 0, d = 0, bias = 0;
};

/// The memory that it reads and writes, and how it is computed there: in float or double by the host's BLAS, rounded
/// once. `beta` of 0 reads no C.
LibraryWork work_of(const Product& product, const ProductAddresses& at, double alpha, double beta, Blas blas);

}  // namespace stitch::driver
