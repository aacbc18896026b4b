#include "driver/library/product.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/library/element.h"

namespace stitch::driver {
namespace {

using cuda::lt::ComputeType;
using cuda::lt::DataType;
using cuda::lt::Epilogue;

ElementFormat format_of(DataType type) {
  switch (type) {
    case DataType::r_64f: return ElementFormat::f64;
    case DataType::r_32f: return ElementFormat::f32;
    case DataType::r_16f: return ElementFormat::f16;
    default: return ElementFormat::bf16;
  }
}
std::size_t bytes_of(DataType type) { return bytes_of(format_of(type)); }
const char* name_of(DataType type) { return name_of(format_of(type)); }

/// One of a batch, whose columns (of memory) are its lines.
LibraryAccess access_of(const ProductLayout& layout, CUdeviceptr address, std::int32_t index, bool writes) {
  const std::size_t size = bytes_of(layout.type);
  return {address + index * layout.batch_stride * size, layout.rows * size, layout.leading * size,
          static_cast<std::size_t>(layout.columns), writes};
}

/// op(M), dense and row-major, of the bytes that an access spans.
template <class T>
std::vector<T> dense(const ProductLayout& layout, bool transposed, const std::vector<std::byte>& bytes) {
  const std::size_t size = bytes_of(layout.type);
  std::vector<T> out(layout.rows * layout.columns);
  for (std::int64_t column = 0; column < layout.columns; ++column) {
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      const std::int64_t to = transposed ? column * layout.rows + row : row * layout.columns + column;
      out[to] = load_element<T>(format_of(layout.type), bytes.data() + (column * layout.leading + row) * size);
    }
  }
  return out;
}

/// One product of a batch; `memory`: of A, B, D, then C and the bias where there are any.
template <class T>
void multiply(const Product& product, T alpha, T beta, const Blas& blas, std::span<std::vector<std::byte>> memory) {
  const std::int64_t m = product.d.rows, n = product.d.columns;
  const std::int64_t k = product.transpose_a ? product.a.rows : product.a.columns;
  const std::vector<T> a = dense<T>(product.a, product.transpose_a, memory[0]);
  const std::vector<T> b = dense<T>(product.b, product.transpose_b, memory[1]);
  std::vector<T> sums(m * n, 0);
  if (m > 0 && n > 0 && k > 0) blas.multiply(m, n, k, a.data(), b.data(), sums.data());
  const std::vector<T> c = beta != 0 ? dense<T>(product.c, false, memory[3]) : std::vector<T>();
  const std::size_t size = bytes_of(product.d.type);
  const DataType bias_type = product.has_bias_type ? product.bias_type : product.d.type;
  for (std::int64_t row = 0; row < m; ++row) {
    const T bias = product.has_bias()
                       ? load_element<T>(format_of(bias_type), memory.back().data() + row * bytes_of(bias_type))
                       : T{0};
    for (std::int64_t column = 0; column < n; ++column) {
      T value = alpha * sums[row * n + column];
      if (beta != 0) value += beta * c[row * n + column];
      if (product.has_bias()) value += bias;
      if (product.has_relu() && !(value > 0)) value = value != value ? value : T{0};
      store_element(format_of(product.d.type), value, memory[2].data() + (column * product.d.leading + row) * size);
    }
  }
}

bool is_known(DataType type) {
  return type == DataType::r_32f || type == DataType::r_64f || type == DataType::r_16f || type == DataType::r_16bf;
}

Status check_layout(const ProductLayout& layout, const char* name, std::int32_t batches) {
  if (!is_known(layout.type)) return make_error(ErrorKind::unsupported, "{} has another type", name);
  if (layout.leading < layout.rows)
    return make_error(ErrorKind::invalid_argument, "columns of {} overlap: {} rows, a leading dimension of {}", name,
                      layout.rows, layout.leading);
  if (layout.batches != batches)
    return make_error(ErrorKind::invalid_argument, "{} has {} batches, D has {}", name, layout.batches, batches);
  return {};
}

}  // namespace

bool Product::has_bias() const { return epilogue == Epilogue::bias || epilogue == Epilogue::relu_bias; }
bool Product::has_relu() const { return epilogue == Epilogue::relu || epilogue == Epilogue::relu_bias; }

Status check_product(const Product& product) {
  const ProductLayout &a = product.a, &b = product.b, &c = product.c, &d = product.d;
  STITCH_TRY(check_layout(a, "A", d.batches));
  STITCH_TRY(check_layout(b, "B", d.batches));
  STITCH_TRY(check_layout(c, "C", d.batches));
  STITCH_TRY(check_layout(d, "D", d.batches));
  const std::int64_t m = product.transpose_a ? a.columns : a.rows, k = product.transpose_a ? a.rows : a.columns;
  const std::int64_t depth = product.transpose_b ? b.columns : b.rows, n = product.transpose_b ? b.rows : b.columns;
  if (k != depth || m != d.rows || n != d.columns || c.rows != d.rows || c.columns != d.columns) {
    return make_error(ErrorKind::invalid_argument, "[{},{}]·[{},{}] into [{},{}] with [{},{}] added", m, k, depth, n,
                      d.rows, d.columns, c.rows, c.columns);
  }
  const bool doubles = product.compute == ComputeType::f64;
  const auto is = [&](DataType inputs, DataType outputs) {
    return a.type == inputs && b.type == inputs && c.type == outputs && d.type == outputs;
  };
  const bool known = doubles ? product.scale == DataType::r_64f && is(DataType::r_64f, DataType::r_64f)
                             : (product.compute == ComputeType::f32 || product.compute == ComputeType::f32_fast_tf32) &&
                                   product.scale == DataType::r_32f &&
                                   (is(DataType::r_32f, DataType::r_32f) || is(DataType::r_16f, DataType::r_16f) ||
                                    is(DataType::r_16f, DataType::r_32f) || is(DataType::r_16bf, DataType::r_16bf) ||
                                    is(DataType::r_16bf, DataType::r_32f));
  if (!known) {
    return make_error(ErrorKind::unsupported, "no product of {} and {} into {} with {} added", name_of(a.type),
                      name_of(b.type), name_of(d.type), name_of(c.type));
  }
  if (product.has_bias() && product.has_bias_type && product.bias_type != d.type)
    return make_error(ErrorKind::unsupported, "a bias of {} for {}", name_of(product.bias_type), name_of(d.type));
  return {};
}

std::string describe(const Product& product) {
  const ProductLayout &a = product.a, &b = product.b;
  std::string text = fmt::format("product {} [{},{}]{}·[{},{}]{}", name_of(a.type), a.rows, a.columns,
                                 product.transpose_a ? "ᵀ" : "", b.rows, b.columns, product.transpose_b ? "ᵀ" : "");
  if (product.d.batches > 1) text += fmt::format(" × {}", product.d.batches);
  return text;
}

LibraryWork work_of(const Product& product, const ProductAddresses& at, double alpha, double beta, Blas blas) {
  LibraryWork work;
  work.name = describe(product);
  const DataType bias_type = product.has_bias_type ? product.bias_type : product.d.type;
  for (std::int32_t i = 0; i < product.d.batches; ++i) {
    work.accesses.push_back(access_of(product.a, at.a, i, false));
    work.accesses.push_back(access_of(product.b, at.b, i, false));
    work.accesses.push_back(access_of(product.d, at.d, i, true));
    if (beta != 0) work.accesses.push_back(access_of(product.c, at.c, i, false));
    if (product.has_bias()) {
      const std::size_t size = bytes_of(bias_type);
      work.accesses.push_back({at.bias + i * product.bias_stride * size, product.d.rows * size, 0, 1, false});
    }
  }
  const std::size_t each = work.accesses.size() / product.d.batches;
  work.run = [=, blas = std::move(blas)](std::span<std::vector<std::byte>> memory) {
    for (std::size_t from = 0; from < memory.size(); from += each) {
      if (product.compute == ComputeType::f64) {
        multiply<double>(product, alpha, beta, blas, memory.subspan(from, each));
      } else {
        multiply<float>(product, static_cast<float>(alpha), static_cast<float>(beta), blas, memory.subspan(from, each));
      }
    }
  };
  return work;
}

}  // namespace stitch::driver
