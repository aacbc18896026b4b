#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace stitch {

/// Matrix products of the host, by a BLAS that is loaded at run time (OpenBLAS; Debian's libopenblas0): programs that
/// never run a whole model on host memory need none.
class Blas {
 public:
  /// Loads the library. Error: unavailable, with the loader's words.
  static Result<Blas> load(const std::string& library = "libopenblas.so.0");

  /// c[m][n] = Σ a[m][k] b[k][n], all dense and row-major; m, n and k below 2^31.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) const;
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b, double* c) const;

  /// "OpenBLAS 0.3.21 …", as the library calls itself; its file where it does not.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  using Single = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                          int);
  using Double = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                          int);
  Blas() = default;

  std::shared_ptr<void> library_;
  Single single_ = nullptr;
  Double double_ = nullptr;
  std::string name_;
};

}  // namespace stitch
