#include "python/native/arrays.h"

namespace stitch::python {

namespace nb = nanobind;
using Code = nb::dlpack::dtype_code;

nb::dlpack::dtype dlpack_type(graph::DType dtype) {
  constexpr std::uint8_t e4m3fn = 10, e5m2 = 12;  // since DLPack 1.1
  const graph::DTypeInfo& info = graph::info(dtype);
  const auto bits = static_cast<std::uint8_t>(8 * info.bytes);
  if (dtype == graph::DType::f8e4m3) return {e4m3fn, bits, 1};
  if (dtype == graph::DType::f8e5m2) return {e5m2, bits, 1};
  Code code = info.kind == graph::DTypeClass::floating           ? Code::Float
              : info.kind == graph::DTypeClass::signed_integer   ? Code::Int
              : info.kind == graph::DTypeClass::unsigned_integer ? Code::UInt
                                                                 : Code::Bool;
  if (dtype == graph::DType::bf16) code = Code::Bfloat;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::optional<graph::DType> dtype_of(nb::dlpack::dtype dtype) {
  for (const graph::DTypeInfo& info : graph::dtype_table()) {
    if (dlpack_type(info.dtype) == dtype) return info.dtype;
  }
  return std::nullopt;
}

namespace {

bool holds(const nb::dlpack::dtype& found, graph::DType dtype) {
  if (found == dlpack_type(dtype)) return true;
  using enum graph::DType;
  const bool bits = dtype == bf16 || dtype == f8e4m3 || dtype == f8e5m2;
  const auto width = static_cast<std::uint8_t>(8 * graph::byte_size(dtype));
  return bits && found == nb::dlpack::dtype{static_cast<std::uint8_t>(Code::UInt), width, 1};
}

template <class One>
Status check_one(const One& array, const graph::TensorType& type, std::string_view kind, std::size_t index) {
  std::optional<std::string> wrong;
  if (array.device_type() != nb::device::cpu::value) {
    wrong = "not in the host's memory";
  } else {
    wrong = misfit(array.dtype(), {array.shape_ptr(), array.ndim()}, {array.stride_ptr(), array.ndim()}, type);
  }
  if (!wrong) return {};
  return make_error(ErrorKind::invalid_argument, "{} {}: {} is wanted, the array is {}", kind, index,
                    graph::to_string(type), *wrong);
}

}  // namespace

std::optional<std::string> misfit(nb::dlpack::dtype dtype, std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides, const graph::TensorType& type) {
  if (!holds(dtype, type.dtype)) return "of another element type";
  if (std::ssize(shape) != type.rank()) return fmt::format("of {} dimensions", shape.size());
  for (int d = type.rank(); d-- > 0;) {
    if (shape[d] != type.dims[d]) return fmt::format("{} in dimension {}", shape[d], d);
  }
  if (type.elements() == 0) return {};  // whose strides say nothing
  std::int64_t stride = 1;
  for (int d = type.rank(); d-- > 0;) {
    if (type.dims[d] > 1 && strides[d] != stride) return "not dense and row-major";
    stride *= type.dims[d];
  }
  return {};
}

Status check_array(const Array& array, const graph::TensorType& type, std::string_view kind, std::size_t index) {
  return check_one(array, type, kind, index);
}

Status check_array(const WritableArray& array, const graph::TensorType& type, std::string_view kind,
                   std::size_t index) {
  return check_one(array, type, kind, index);
}

}  // namespace stitch::python
