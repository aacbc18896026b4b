#include "base/blas.h"

#include <dlfcn.h>

namespace stitch {
namespace {

// cblas.h's enumerations.
constexpr int row_major = 101, no_transpose = 111;

}  // namespace

Result<Blas> Blas::load(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return make_error(ErrorKind::unavailable, "no BLAS for library calls on host memory (Debian: libopenblas0): {}",
                      why != nullptr ? why : library);
  }
  Blas blas;
  blas.library_ = std::shared_ptr<void>(handle, [](void* loaded) { ::dlclose(loaded); });
  blas.single_ = reinterpret_cast<Single>(::dlsym(handle, "cblas_sgemm"));
  blas.double_ = reinterpret_cast<Double>(::dlsym(handle, "cblas_dgemm"));
  if (blas.single_ == nullptr || blas.double_ == nullptr)
    return make_error(ErrorKind::unavailable, "{} has no cblas_sgemm and cblas_dgemm", library);
  const auto configuration = reinterpret_cast<const char* (*)()>(::dlsym(handle, "openblas_get_config"));
  blas.name_ = configuration != nullptr ? configuration() : library;
  return blas;
}

void Blas::multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) const {
  single_(row_major, no_transpose, no_transpose, m, n, k, 1, a, k, b, n, 0, c, n);
}

void Blas::multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b, double* c) const {
  double_(row_major, no_transpose, no_transpose, m, n, k, 1, a, k, b, n, 0, c, n);
}

}  // namespace stitch
