#include "library/stream_libraries.h"

#include <cstdlib>

#include "cuda/cublas_lt.h"

namespace stitch::library {
namespace {

std::vector<std::string> named_or(const char* variable, std::vector<std::string> usual) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return {named};
  return usual;
}

}  // namespace

std::vector<std::string> StreamLibraries::usual_cublas_lt() {
  return named_or("STITCH_CUBLAS_LT", {"libcublasLt.so.13", "libcublasLt.so.12"});
}
std::vector<std::string> StreamLibraries::usual_cudnn() { return named_or("STITCH_CUDNN", {"libcudnn.so.9"}); }

bool StreamLibraries::are_there() const { return cuda::lt::Api::load(cublas_lt).ok(); }

}  // namespace stitch::library
