// cuBLASLt for programs that run on the emulated driver: NVIDIA's is machine code. As much of it as cuda/cublas_lt.h
// declares; products are computed by the host's BLAS, in the order of their stream. Calls are checked: shapes, types,
// an algorithm that was suggested for this very product, alignments that were promised, enough workspace, and that D
// lies apart from all that is read.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "cuda/cublas_lt.h"
#include "driver/library/product.h"

using namespace stitch::cuda::lt;
using stitch::driver::Product;
using stitch::driver::ProductLayout;

struct stitch::cuda::lt::HandleData {
  stitch::Blas blas;
};
struct stitch::cuda::lt::MatmulData {
  Product product;
  CUdeviceptr bias = 0;
};
struct stitch::cuda::lt::LayoutData {
  ProductLayout layout;
};
struct stitch::cuda::lt::PreferenceData {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

/// What products are given for themselves, as the real library's algorithms are, so that one that is shared shows.
constexpr std::size_t workspace_bytes = 4096;

void complain(const char* function, const std::string& what) {
  const char* quiet = std::getenv("STITCH_EMULATED_QUIET");
  if (quiet == nullptr || std::strcmp(quiet, "1") != 0)
    std::fprintf(stderr, "stitch emulated cuBLASLt: %s: %s\n", function, what.c_str());
}

Status refused(const char* function, const stitch::Error& error) {
  complain(function, error.message);
  return error.kind == stitch::ErrorKind::unsupported ? Status::not_supported : Status::invalid_value;
}
Status invalid(const char* function, const char* what) {
  complain(function, what);
  return Status::invalid_value;
}

template <class T>
bool take(T& into, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(T)) return false;
  std::memcpy(&into, from, sizeof(T));
  return true;
}

/// By which an algorithm is known to be for a product.
std::uint64_t fingerprint(const Product& product) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::int64_t value) { hash = stitch::mix(hash, static_cast<std::uint64_t>(value)); };
  for (const ProductLayout* each : {&product.a, &product.b, &product.c, &product.d}) {
    for (const std::int64_t value : {std::int64_t{static_cast<int>(each->type)}, each->rows, each->columns,
                                     each->leading, std::int64_t{each->batches}, each->batch_stride})
      mix(value);
  }
  for (const std::int64_t value :
       {std::int64_t{static_cast<int>(product.compute)}, std::int64_t{product.transpose_a},
        std::int64_t{product.transpose_b}, static_cast<std::int64_t>(product.epilogue), product.bias_stride})
    mix(value);
  return hash;
}

bool same_layout(const ProductLayout& a, const ProductLayout& b) {
  return a.rows == b.rows && a.columns == b.columns && a.leading == b.leading && a.batch_stride == b.batch_stride;
}

/// What is written where something else of the product lies; empty: nothing is. `in_place`: C may be D itself.
std::string overlap_in(const stitch::driver::LibraryWork& work, bool in_place) {
  for (const auto& written : work.accesses) {
    if (!written.writes) continue;
    for (const auto& other : work.accesses) {
      // Batches of one result may lie between one another's lines, as heads do.
      if (other.writes || (in_place && other.address == written.address)) continue;
      const bool apart = written.address + written.span_bytes() <= other.address ||
                         other.address + other.span_bytes() <= written.address;
      if (!apart) return "D lies where an operand does";
    }
  }
  return "";
}

/// The whole product of its parts.
Product assembled(Matmul matmul, Layout a, Layout b, Layout c, Layout d) {
  Product product = matmul->product;
  product.a = a->layout;
  product.b = b->layout;
  product.c = c->layout;
  product.d = d->layout;
  return product;
}

double scalar(const Product& product, const void* at) {
  if (product.scale == DataType::r_64f) {
    double value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  float value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// The largest power of two, up to 256, that divides an address; suggestions depend on the bias's.
std::uint64_t alignment_of(CUdeviceptr address) {
  std::uint64_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

#define STITCH_EXPORTED extern "C" __attribute__((visibility("default")))

STITCH_EXPORTED Status cublasLtCreate(Handle* handle);
STITCH_EXPORTED Status cublasLtCreate(Handle* handle) {
  if (handle == nullptr) return Status::invalid_value;
  auto blas = stitch::Blas::load();
  if (!blas) {
    complain("cublasLtCreate", blas.error().message);
    return Status::not_initialized;
  }
  *handle = new HandleData{*std::move(blas)};
  return Status::success;
}

STITCH_EXPORTED Status cublasLtDestroy(Handle handle);
STITCH_EXPORTED Status cublasLtDestroy(Handle handle) {
  delete handle;
  return Status::success;
}

STITCH_EXPORTED const char* cublasLtGetStatusString(Status status);
STITCH_EXPORTED const char* cublasLtGetStatusString(Status status) {
  switch (status) {
    case Status::success: return "CUBLAS_STATUS_SUCCESS";
    case Status::not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case Status::invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case Status::not_supported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case Status::execution_failed: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

STITCH_EXPORTED std::size_t cublasLtGetVersion();
STITCH_EXPORTED std::size_t cublasLtGetVersion() { return 130000; }

STITCH_EXPORTED Status cublasLtMatmulDescCreate(Matmul* matmul, ComputeType compute, DataType scale);
STITCH_EXPORTED Status cublasLtMatmulDescCreate(Matmul* matmul, ComputeType compute, DataType scale) {
  if (matmul == nullptr) return Status::invalid_value;
  *matmul = new MatmulData;
  (*matmul)->product.compute = compute;
  (*matmul)->product.scale = scale;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatmulDescDestroy(Matmul matmul);
STITCH_EXPORTED Status cublasLtMatmulDescDestroy(Matmul matmul) {
  delete matmul;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatmulDescSetAttribute(Matmul matmul, MatmulAttribute attribute, const void* from,
                                                      std::size_t bytes);
STITCH_EXPORTED Status cublasLtMatmulDescSetAttribute(Matmul matmul, MatmulAttribute attribute, const void* from,
                                                      std::size_t bytes) {
  constexpr const char* function = "cublasLtMatmulDescSetAttribute";
  if (matmul == nullptr) return Status::invalid_value;
  Product& product = matmul->product;
  Operation operation{};
  bool taken = false;
  switch (attribute) {
    case MatmulAttribute::transpose_a:
      taken = take(operation, from, bytes);
      product.transpose_a = operation == Operation::transpose;
      break;
    case MatmulAttribute::transpose_b:
      taken = take(operation, from, bytes);
      product.transpose_b = operation == Operation::transpose;
      break;
    case MatmulAttribute::epilogue: taken = take(product.epilogue, from, bytes); break;
    case MatmulAttribute::bias_pointer: taken = take(matmul->bias, from, bytes); break;
    case MatmulAttribute::bias_batch_stride: taken = take(product.bias_stride, from, bytes); break;
    case MatmulAttribute::bias_type: product.has_bias_type = taken = take(product.bias_type, from, bytes); break;
    default: return invalid(function, "an attribute that is not emulated");
  }
  if (operation != Operation::none && operation != Operation::transpose)
    return invalid(function, "an operation that is not emulated");
  return taken ? Status::success : invalid(function, "a value of another size");
}

STITCH_EXPORTED Status cublasLtMatrixLayoutCreate(Layout* layout, DataType type, std::uint64_t rows,
                                                  std::uint64_t columns, std::int64_t leading);
STITCH_EXPORTED Status cublasLtMatrixLayoutCreate(Layout* layout, DataType type, std::uint64_t rows,
                                                  std::uint64_t columns, std::int64_t leading) {
  if (layout == nullptr || rows > INT64_MAX || columns > INT64_MAX) return Status::invalid_value;
  *layout = new LayoutData{{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading, 1, 0}};
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatrixLayoutDestroy(Layout layout);
STITCH_EXPORTED Status cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatrixLayoutSetAttribute(Layout layout, LayoutAttribute attribute, const void* from,
                                                        std::size_t bytes);
STITCH_EXPORTED Status cublasLtMatrixLayoutSetAttribute(Layout layout, LayoutAttribute attribute, const void* from,
                                                        std::size_t bytes) {
  constexpr const char* function = "cublasLtMatrixLayoutSetAttribute";
  if (layout == nullptr) return Status::invalid_value;
  bool taken = false;
  switch (attribute) {
    case LayoutAttribute::batch_count: taken = take(layout->layout.batches, from, bytes); break;
    case LayoutAttribute::batch_stride: taken = take(layout->layout.batch_stride, from, bytes); break;
    default: return invalid(function, "an attribute that is not emulated");
  }
  if (!taken) return invalid(function, "a value of another size");
  return layout->layout.batches > 0 ? Status::success : invalid(function, "no batches");
}

STITCH_EXPORTED Status cublasLtMatmulPreferenceCreate(Preference* preference);
STITCH_EXPORTED Status cublasLtMatmulPreferenceCreate(Preference* preference) {
  if (preference == nullptr) return Status::invalid_value;
  *preference = new PreferenceData;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatmulPreferenceDestroy(Preference preference);
STITCH_EXPORTED Status cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute,
                                                            const void* from, std::size_t bytes);
STITCH_EXPORTED Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute,
                                                            const void* from, std::size_t bytes) {
  constexpr const char* function = "cublasLtMatmulPreferenceSetAttribute";
  if (preference == nullptr) return Status::invalid_value;
  bool taken = false;
  if (attribute == PreferenceAttribute::max_workspace_bytes) {
    taken = take(preference->workspace_bytes, from, bytes);
  } else if (attribute == PreferenceAttribute::reduction_schemes) {
    std::uint32_t mask = 0;
    taken = take(mask, from, bytes);  // nothing here is added in parts
  } else if (attribute >= PreferenceAttribute::min_alignment_a && attribute <= PreferenceAttribute::min_alignment_d) {
    const int which = static_cast<int>(attribute) - static_cast<int>(PreferenceAttribute::min_alignment_a);
    taken = take(preference->alignments[which], from, bytes);
  } else {
    return invalid(function, "an attribute that is not emulated");
  }
  return taken ? Status::success : invalid(function, "a value of another size");
}

STITCH_EXPORTED Status cublasLtMatmulAlgoGetHeuristic(Handle handle, Matmul matmul, Layout a, Layout b, Layout c,
                                                      Layout d, Preference preference, int wanted,
                                                      Suggestion* suggestions, int* found);
STITCH_EXPORTED Status cublasLtMatmulAlgoGetHeuristic(Handle handle, Matmul matmul, Layout a, Layout b, Layout c,
                                                      Layout d, Preference preference, int wanted,
                                                      Suggestion* suggestions, int* found) {
  constexpr const char* function = "cublasLtMatmulAlgoGetHeuristic";
  if (handle == nullptr) return Status::not_initialized;
  for (const void* part :
       {static_cast<const void*>(matmul), static_cast<const void*>(a), static_cast<const void*>(b),
        static_cast<const void*>(c), static_cast<const void*>(d), static_cast<const void*>(preference),
        static_cast<const void*>(suggestions), static_cast<const void*>(found)})
    if (part == nullptr) return invalid(function, "a part is missing");
  if (wanted < 1) return Status::invalid_value;
  const Product product = assembled(matmul, a, b, c, d);
  *found = 0;
  if (const stitch::Status checked = check_product(product); !checked) return refused(function, checked.error());
  Suggestion& suggestion = suggestions[0];
  suggestion = {};
  suggestion.algorithm.data[0] = fingerprint(product);
  for (int i = 0; i < 4; ++i) suggestion.algorithm.data[1 + i] = preference->alignments[i];
  suggestion.workspace_bytes = preference->workspace_bytes >= workspace_bytes ? workspace_bytes : 0;
  suggestion.algorithm.data[5] = suggestion.workspace_bytes;
  suggestion.algorithm.data[6] = alignment_of(matmul->bias);
  suggestion.state = Status::success;
  suggestion.waves = 1;
  *found = 1;
  return Status::success;
}

STITCH_EXPORTED Status cublasLtMatmul(Handle handle, Matmul matmul, const void* alpha, const void* a, Layout a_layout,
                                      const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout,
                                      void* d, Layout d_layout, const Algorithm* algorithm, void* workspace,
                                      std::size_t given_bytes, CUstream stream);
STITCH_EXPORTED Status cublasLtMatmul(Handle handle, Matmul matmul, const void* alpha, const void* a, Layout a_layout,
                                      const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout,
                                      void* d, Layout d_layout, const Algorithm* algorithm, void* workspace,
                                      std::size_t given_bytes, CUstream stream) {
  constexpr const char* function = "cublasLtMatmul";
  if (handle == nullptr) return Status::not_initialized;
  for (const void* part :
       {static_cast<const void*>(matmul), alpha, static_cast<const void*>(a_layout), static_cast<const void*>(b_layout),
        beta, static_cast<const void*>(c_layout), static_cast<const void*>(d_layout)})
    if (part == nullptr) return invalid(function, "a part is missing");
  const Product product = assembled(matmul, a_layout, b_layout, c_layout, d_layout);
  if (const stitch::Status checked = check_product(product); !checked) return refused(function, checked.error());
  const stitch::driver::ProductAddresses at = {address(a), address(b), address(c), address(d), matmul->bias};
  if (product.has_bias() && at.bias == 0) return invalid(function, "an epilogue with a bias, and no bias");
  const double by = scalar(product, beta);
  std::size_t needed = 0;
  if (algorithm != nullptr) {
    if (algorithm->data[0] != fingerprint(product)) return invalid(function, "an algorithm of another product");
    const CUdeviceptr all[] = {at.a, at.b, by != 0 ? at.c : 0, at.d};
    for (int i = 0; i < 4; ++i) {
      if (all[i] % algorithm->data[1 + i] != 0) return invalid(function, "memory that is less aligned than promised");
    }
    needed = algorithm->data[5];
    if (product.has_bias() && alignment_of(at.bias) < algorithm->data[6])
      return invalid(function, "a bias that is less aligned than the one that the algorithm was suggested for");
  }
  if (address(workspace) % 16 != 0) return invalid(function, "a workspace that is not aligned by 16 bytes");
  if (given_bytes < needed || (needed > 0 && workspace == nullptr))
    return invalid(function, "less workspace than the algorithm takes");
  stitch::driver::LibraryWork work = work_of(product, at, scalar(product, alpha), by, handle->blas);
  if (const std::string overlap = overlap_in(work, by != 0 && at.c == at.d && same_layout(product.c, product.d));
      !overlap.empty())
    return invalid(function, overlap.c_str());
  if (needed > 0) {
    work.accesses.push_back({address(workspace), needed, 0, 1, true});
    work.run = [run = std::move(work.run)](std::span<std::vector<std::byte>> memory) {
      run(memory.first(memory.size() - 1));
    };
  }
  return stitch_emulated_library_call(stream, work) == CUDA_SUCCESS ? Status::success : Status::execution_failed;
}
