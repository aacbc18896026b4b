// A stand-in for cuBLASLt that takes any product, and ends the process that it is in when it is to multiply.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

static int nothing = 0;

int cublasLtCreate(void** handle) {
  *handle = &nothing;
  return 0;
}
int cublasLtDestroy(void* /*handle*/) { return 0; }
const char* cublasLtGetStatusString(int /*status*/) { return "a stand-in"; }
std::size_t cublasLtGetVersion() { return 130000; }
int cublasLtMatmulDescCreate(void** matmul, int /*compute*/, int /*scale*/) { return cublasLtCreate(matmul); }
int cublasLtMatmulDescDestroy(void* /*matmul*/) { return 0; }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** layout, int, std::uint64_t, std::uint64_t, std::int64_t) {
  return cublasLtCreate(layout);
}
int cublasLtMatrixLayoutDestroy(void* /*layout*/) { return 0; }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** preference) { return cublasLtCreate(preference); }
int cublasLtMatmulPreferenceDestroy(void* /*preference*/) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void* suggestion, int* found) {
  std::memset(suggestion, 0, 96);  // an algorithm, no workspace, success, and what is reserved
  *found = 1;
  return 0;
}
int cublasLtMatmul() { std::abort(); }

}  // extern "C"
