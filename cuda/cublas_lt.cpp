#include "cuda/cublas_lt.h"

#include "cuda/library_loading.h"

namespace stitch::cuda::lt {
namespace {

ErrorKind kind_of(Status status) {
  switch (status) {
    case Status::not_supported:
    case Status::arch_mismatch: return ErrorKind::unsupported;
    case Status::not_initialized: return ErrorKind::unavailable;
    case Status::alloc_failed: return ErrorKind::resource_exhausted;
    default: return ErrorKind::runtime;
  }
}

}  // namespace

Result<std::shared_ptr<const Api>> Api::load(const std::vector<std::string>& libraries) {
  auto api = std::make_shared<Api>();
  STITCH_TRY(load_first(libraries, "cuBLASLt", [&](FunctionFinder& finder) {
    finder.find(api->create, "cublasLtCreate");
    finder.find(api->destroy, "cublasLtDestroy");
    finder.find(api->status_string, "cublasLtGetStatusString");
    finder.find(api->version, "cublasLtGetVersion");
    finder.find(api->matmul_create, "cublasLtMatmulDescCreate");
    finder.find(api->matmul_destroy, "cublasLtMatmulDescDestroy");
    finder.find(api->matmul_set, "cublasLtMatmulDescSetAttribute");
    finder.find(api->layout_create, "cublasLtMatrixLayoutCreate");
    finder.find(api->layout_destroy, "cublasLtMatrixLayoutDestroy");
    finder.find(api->layout_set, "cublasLtMatrixLayoutSetAttribute");
    finder.find(api->preference_create, "cublasLtMatmulPreferenceCreate");
    finder.find(api->preference_destroy, "cublasLtMatmulPreferenceDestroy");
    finder.find(api->preference_set, "cublasLtMatmulPreferenceSetAttribute");
    finder.find(api->suggest, "cublasLtMatmulAlgoGetHeuristic");
    finder.find(api->multiply, "cublasLtMatmul");
  }));
  return std::shared_ptr<const Api>(std::move(api));
}

stitch::Status Api::check(Status status, const char* call) const {
  if (status == Status::success) return {};
  const char* said = status_string(status);
  return make_error(kind_of(status), "{}: {}", call, said != nullptr ? said : "an unknown error");
}

}  // namespace stitch::cuda::lt
