#include "library/matmul_library.h"

#include <algorithm>
#include <numeric>

#include "library/call_memory.h"

namespace stitch::library {
namespace {

namespace lt = cuda::lt;
using graph::DType;
using graph::StridedMatmul;

constexpr int the_result = -1, nobody = -2;

Result<lt::DataType> data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return lt::DataType::r_64f;
    case DType::f32: return lt::DataType::r_32f;
    case DType::f16: return lt::DataType::r_16f;
    case DType::bf16: return lt::DataType::r_16bf;
    default: return make_error(ErrorKind::unsupported, "matrices of {}", to_string(dtype));
  }
}

}  // namespace

/// An operand, as a column-major matrix or the transpose of one.
struct MatmulLibrary::Matrix {
  int parameter = nobody;
  DType dtype = DType::f32;
  bool transposed = false;  ///< what follows is of the memory, before it is
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int64_t offset = 0;                 ///< elements
  std::vector<std::int64_t> loop_strides;  ///< likewise
  std::int64_t batch_stride = 0;           ///< likewise

  static Matrix of(const StridedMatmul::Matrix& from, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                   std::int64_t column_stride) {
    Matrix matrix{from.parameter, from.dtype, false, rows, columns, 0, from.offset, from.loop_strides, 0};
    const bool by_columns = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
    matrix.leading = columns == 1 ? rows : column_stride;
    if (by_columns) return matrix;
    matrix.transposed = true;
    std::swap(matrix.rows, matrix.columns);
    matrix.leading = rows == 1 ? columns : row_stride;
    return matrix;
  }

  /// A power of two that divides every address that the operand has, bytes.
  [[nodiscard]] std::uint32_t alignment() const {
    const std::int64_t size = byte_size(dtype);
    std::int64_t shared = std::gcd<std::int64_t>(operand_alignment, offset * size);
    for (const std::int64_t stride : loop_strides) shared = std::gcd(shared, stride * size);
    return static_cast<std::uint32_t>(shared);
  }
};

MatmulLibrary::MatmulLibrary(std::shared_ptr<const lt::Api> api) : api_(std::move(api)) {}

MatmulLibrary::~MatmulLibrary() {
  products_.clear();
  if (handle_ != nullptr) api_->destroy(handle_);
}

Result<std::unique_ptr<MatmulLibrary>> MatmulLibrary::open(const std::vector<std::string>& libraries) {
  STITCH_ASSIGN(auto api, lt::Api::load(libraries));
  std::unique_ptr<MatmulLibrary> opened(new MatmulLibrary(std::move(api)));
  STITCH_TRY(opened->api_->check(opened->api_->create(&opened->handle_), "cublasLtCreate"));
  return opened;
}

std::string MatmulLibrary::name() const {
  const std::size_t version = api_->version();
  // 120800 of CUDA 12.8's, 130400 of 13.4's (cublasLt.h).
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::int64_t MatmulLibrary::calls(int product) const { return std::ssize(products_[product].offsets); }

Result<MatmulLibrary::Held<lt::Layout>> MatmulLibrary::layout_of(const Matrix& matrix, std::int64_t batches) const {
  STITCH_ASSIGN(const lt::DataType type, data_type(matrix.dtype));
  lt::Layout made = nullptr;
  STITCH_TRY(api_->check(api_->layout_create(&made, type, matrix.rows, matrix.columns, matrix.leading),
                         "cublasLtMatrixLayoutCreate"));
  Held<lt::Layout> layout(made, api_->layout_destroy);
  if (batches > 1) {
    const auto count = static_cast<std::int32_t>(batches);
    constexpr const char* call = "cublasLtMatrixLayoutSetAttribute";
    STITCH_TRY(api_->check(api_->layout_set(made, lt::LayoutAttribute::batch_count, &count, sizeof(count)), call));
    STITCH_TRY(api_->check(
        api_->layout_set(made, lt::LayoutAttribute::batch_stride, &matrix.batch_stride, sizeof(matrix.batch_stride)),
        call));
  }
  return layout;
}

Status MatmulLibrary::describe(Product& product, const std::array<Matrix, 5>& matrices, std::int64_t batches,
                               const graph::StridedMatmul& matmul) const {
  lt::Matmul made = nullptr;
  const auto singles = matmul.tf32 ? lt::ComputeType::f32_fast_tf32 : lt::ComputeType::f32;
  const auto compute = product.doubles ? lt::ComputeType::f64 : singles;
  const auto scale = product.doubles ? lt::DataType::r_64f : lt::DataType::r_32f;
  STITCH_TRY(api_->check(api_->matmul_create(&made, compute, scale), "cublasLtMatmulDescCreate"));
  product.matmul = Held<lt::Matmul>(made, api_->matmul_destroy);
  const auto set = [&](lt::MatmulAttribute attribute, const auto& value) {
    return api_->check(api_->matmul_set(made, attribute, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  };
  const auto operation = [&](Operand of) {
    return matrices[of].transposed ? lt::Operation::transpose : lt::Operation::none;
  };
  STITCH_TRY(set(lt::MatmulAttribute::transpose_a, operation(a)));
  STITCH_TRY(set(lt::MatmulAttribute::transpose_b, operation(b)));
  const bool biased = matrices[bias].parameter != nobody;
  lt::Epilogue epilogue = matmul.relu ? lt::Epilogue::relu : lt::Epilogue::none;
  if (biased) epilogue = matmul.relu ? lt::Epilogue::relu_bias : lt::Epilogue::bias;
  STITCH_TRY(set(lt::MatmulAttribute::epilogue, epilogue));
  if (biased) {
    STITCH_ASSIGN(const lt::DataType type, data_type(matrices[bias].dtype));
    STITCH_TRY(set(lt::MatmulAttribute::bias_type, static_cast<std::int32_t>(type)));
    if (batches > 1) STITCH_TRY(set(lt::MatmulAttribute::bias_batch_stride, matrices[bias].batch_stride));
    // Where it lies is not known yet; suggestions depend on how it is aligned.
    STITCH_TRY(set(lt::MatmulAttribute::bias_pointer, std::uint64_t{matrices[bias].alignment()}));
  }
  for (const Operand of : {a, b, c, d}) {
    STITCH_ASSIGN(auto layout, layout_of(matrices[of], batches));
    product.layouts.push_back(std::move(layout));
  }
  return {};
}

Status MatmulLibrary::choose_algorithm(Product& product, const std::array<Matrix, 5>& matrices) const {
  lt::Preference made = nullptr;
  STITCH_TRY(api_->check(api_->preference_create(&made), "cublasLtMatmulPreferenceCreate"));
  const Held<lt::Preference> preference(made, api_->preference_destroy);
  const auto set = [&](lt::PreferenceAttribute attribute, const auto& value) {
    return api_->check(api_->preference_set(made, attribute, &value, sizeof(value)),
                       "cublasLtMatmulPreferenceSetAttribute");
  };
  STITCH_TRY(set(lt::PreferenceAttribute::max_workspace_bytes, std::uint64_t{most_library_workspace_bytes}));
  // Parts of a sum that several blocks make are added in the type that products are summed in, not in the result's.
  STITCH_TRY(set(lt::PreferenceAttribute::reduction_schemes, lt::reduction_in_compute_type));
  STITCH_TRY(set(lt::PreferenceAttribute::min_alignment_a, matrices[a].alignment()));
  STITCH_TRY(set(lt::PreferenceAttribute::min_alignment_b, matrices[b].alignment()));
  STITCH_TRY(set(lt::PreferenceAttribute::min_alignment_c, matrices[c].alignment()));
  STITCH_TRY(set(lt::PreferenceAttribute::min_alignment_d, matrices[d].alignment()));
  lt::Suggestion suggestion{};
  int found = 0;
  const auto& layouts = product.layouts;
  STITCH_TRY(api_->check(api_->suggest(handle_, product.matmul.get(), layouts[a].get(), layouts[b].get(),
                                       layouts[c].get(), layouts[d].get(), made, 1, &suggestion, &found),
                         "cublasLtMatmulAlgoGetHeuristic"));
  if (found < 1 || suggestion.state != lt::Status::success)
    return make_error(ErrorKind::unsupported, "cuBLASLt has no algorithm for it");
  product.algorithm = suggestion.algorithm;
  product.workspace_bytes = suggestion.workspace_bytes;
  return {};
}

Result<int> MatmulLibrary::prepare(const StridedMatmul& matmul) {
  Product product;
  if (!matmul.is_empty()) STITCH_TRY(make_ready(product, matmul));
  workspace_bytes_ = std::max<std::int64_t>(workspace_bytes_, product.workspace_bytes);
  products_.push_back(std::move(product));
  return static_cast<int>(products_.size()) - 1;
}

Status MatmulLibrary::make_ready(Product& product, const StridedMatmul& matmul) const {
  const std::int64_t m = matmul.rows, n = matmul.columns, k = matmul.depth;
  const StridedMatmul::Matrix& out = matmul.result;
  const StridedMatmul::Matrix& added = matmul.addend ? *matmul.addend : out;
  // A result by rows is the transpose of one by columns: Dᵀ = Bᵀ·Aᵀ, whose rows are what a bias is added along.
  const bool by_rows = (out.column_stride == 1 || n == 1) && (added.column_stride == 1 || n == 1);
  const auto straight = [](const StridedMatmul::Matrix& from, std::int64_t rows, std::int64_t columns) {
    return Matrix::of(from, rows, columns, from.row_stride, from.column_stride);
  };
  const auto turned = [](const StridedMatmul::Matrix& from, std::int64_t rows, std::int64_t columns) {
    return Matrix::of(from, columns, rows, from.column_stride, from.row_stride);
  };
  std::array<Matrix, 5> matrices;
  matrices[a] = by_rows ? turned(matmul.right, k, n) : straight(matmul.left, m, k);
  matrices[b] = by_rows ? turned(matmul.left, m, k) : straight(matmul.right, k, n);
  matrices[c] = by_rows ? turned(added, m, n) : straight(added, m, n);
  matrices[d] = by_rows ? turned(out, m, n) : straight(out, m, n);
  if (matmul.bias)
    matrices[bias] = {matmul.bias->parameter, matmul.bias->dtype,        false, n, 1, n,
                      matmul.bias->offset,    matmul.bias->loop_strides, 0};

  // The longest loop is a batch, the others are calls.
  const std::size_t batch =
      std::ranges::max_element(matmul.loops) - matmul.loops.begin();  // their number, where there are none
  const std::int64_t batches = matmul.loops.empty() ? 1 : matmul.loops[batch];
  for (std::int64_t call = 0; call < matmul.calls(); ++call) {
    std::array<std::int64_t, 5> offset{};
    for (const Operand of : {a, b, c, d, bias}) {
      Matrix& matrix = matrices[of];
      if (matrix.parameter == nobody) continue;
      std::int64_t elements = matrix.offset, left = call;
      for (std::size_t l = matmul.loops.size(); l-- > 0;) {
        if (l == batch) continue;
        elements += left % matmul.loops[l] * matrix.loop_strides[l];
        left /= matmul.loops[l];
      }
      offset[of] = elements * byte_size(matrix.dtype);
      if (!matmul.loops.empty()) matrix.batch_stride = matrix.loop_strides[batch];
    }
    product.offsets.push_back(offset);
  }
  for (const Operand of : {a, b, c, d, bias}) product.parameters[of] = matrices[of].parameter;
  product.doubles = matmul.accumulation == DType::f64;
  product.alpha = matmul.scale;
  product.beta = matmul.addend ? 1 : 0;
  product.single_alpha = static_cast<float>(product.alpha);
  product.single_beta = static_cast<float>(product.beta);
  STITCH_TRY(describe(product, matrices, batches, matmul));
  return choose_algorithm(product, matrices);
}

Status MatmulLibrary::launch(int product, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                             std::uint64_t workspace, CUstream stream) {
  const Product& made = products_[product];
  const void* const alpha = made.doubles ? static_cast<const void*>(&made.alpha) : &made.single_alpha;
  const void* const beta = made.doubles ? static_cast<const void*>(&made.beta) : &made.single_beta;
  for (const auto& offsets : made.offsets) {
    const auto at = [&](Operand of) {
      const int parameter = made.parameters[of];
      return (parameter == the_result ? result : parameters[parameter]) + offsets[of];
    };
    const auto pointer = [&](Operand of) { return reinterpret_cast<void*>(at(of)); };
    if (made.parameters[bias] != nobody) {
      const std::uint64_t address = at(bias);
      STITCH_TRY(
          api_->check(api_->matmul_set(made.matmul.get(), lt::MatmulAttribute::bias_pointer, &address, sizeof(address)),
                      "cublasLtMatmulDescSetAttribute"));
    }
    const auto& layouts = made.layouts;
    STITCH_TRY(
        api_->check(api_->multiply(handle_, made.matmul.get(), alpha, pointer(a), layouts[a].get(), pointer(b),
                                   layouts[b].get(), beta, pointer(c), layouts[c].get(), pointer(d), layouts[d].get(),
                                   &made.algorithm, reinterpret_cast<void*>(workspace), made.workspace_bytes, stream),
                    "cublasLtMatmul"));
  }
  return {};
}

}  // namespace stitch::library
