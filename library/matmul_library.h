#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cublas_lt.h"
#include "graph/calls/strided_matmul.h"

namespace stitch::library {

/// Matrix products on a GPU by NVIDIA's cuBLASLt, which is loaded when a program needs it. Products are made ready
/// beforehand, with the algorithm that the library suggests first; launching one allocates nothing and waits for
/// nothing. All share the caller's workspace, so launches must be ordered on the device. Used by one thread at a time;
/// a context must be current.
class MatmulLibrary {
 public:
  /// `libraries`: the first that there is. Errors: unavailable, in the words of loader or library.
  static Result<std::unique_ptr<MatmulLibrary>> open(const std::vector<std::string>& libraries);
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;
  ~MatmulLibrary();

  /// "cuBLASLt 13.0.0"
  [[nodiscard]] std::string name() const;
  /// Makes a product ready; its number. Error: unsupported (the library says that it has no algorithm for it).
  Result<int> prepare(const graph::StridedMatmul& matmul);
  /// How many calls of the library a product takes: one for every step of all loops but one.
  [[nodiscard]] std::int64_t calls(int product) const;
  /// The largest workspace of what is ready; no more than most_library_workspace_bytes.
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// `parameters`, `result`: addresses as the product's call has them. Error: runtime.
  Status launch(int product, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                std::uint64_t workspace, CUstream stream);

 private:
  enum Operand : std::uint8_t { a, b, c, d, bias };
  /// Destroys a description of the library's.
  template <class Thing>
  using Held = std::unique_ptr<std::remove_pointer_t<Thing>, cuda::lt::Status (*)(Thing)>;

  /// A product as the library is called for it: column-major, and so transposed where the result is by rows.
  struct Product {
    Held<cuda::lt::Matmul> matmul{nullptr, nullptr};
    std::vector<Held<cuda::lt::Layout>> layouts;  ///< of A, B, C and D
    cuda::lt::Algorithm algorithm{};
    std::size_t workspace_bytes = 0;
    std::array<int, 5> parameters{};                   ///< by operand; -1: the result, -2: there is none
    std::vector<std::array<std::int64_t, 5>> offsets;  ///< of every call, bytes by operand
    bool doubles = false;                              ///< alpha and beta are
    double alpha = 1, beta = 0;
    float single_alpha = 1, single_beta = 0;
  };
  struct Matrix;

  explicit MatmulLibrary(std::shared_ptr<const cuda::lt::Api> api);
  Status make_ready(Product& product, const graph::StridedMatmul& matmul) const;
  Result<Held<cuda::lt::Layout>> layout_of(const Matrix& matrix, std::int64_t batches) const;
  Status describe(Product& product, const std::array<Matrix, 5>& matrices, std::int64_t batches,
                  const graph::StridedMatmul& matmul) const;
  Status choose_algorithm(Product& product, const std::array<Matrix, 5>& matrices) const;

  std::shared_ptr<const cuda::lt::Api> api_;
  cuda::lt::Handle handle_ = nullptr;
  std::vector<Product> products_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace stitch::library
