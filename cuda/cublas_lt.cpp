#include "cuda/cublas_lt.h"

#include <dlfcn.h>

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

/// Finds a library's functions, and remembers the first one that is missed.
class FunctionFinder {
 public:
  explicit FunctionFinder(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<const Api>> Api::load(const std::vector<std::string>& libraries) {
  std::string why;
  for (const std::string& library : libraries) {
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* said = ::dlerror();
      why += (why.empty() ? "" : "; ") + std::string(said != nullptr ? said : library.c_str());
      continue;
    }
    auto api = std::make_shared<Api>();
    FunctionFinder finder(handle);
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
    if (finder.missing() == nullptr) return std::shared_ptr<const Api>(std::move(api));
    why += fmt::format("{}{} has no {}", why.empty() ? "" : "; ", library, finder.missing());
  }
  return make_error(ErrorKind::unavailable, "no cuBLASLt: {}", why);
}

stitch::Status Api::check(Status status, const char* call) const {
  if (status == Status::success) return {};
  const char* said = status_string(status);
  return make_error(kind_of(status), "{}: {}", call, said != nullptr ? said : "an unknown error");
}

}  // namespace stitch::cuda::lt
