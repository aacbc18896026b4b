#include "python/native/arrays.h"

#include <cstdint>
#include <string>

namespace stitch::python {
namespace {

namespace nb = nanobind;
using Code = nb::dlpack::dtype_code;

/// Element types as DLPack has them.
nb::dlpack::dtype dlpack_type(graph::DType dtype) {
  const graph::DTypeInfo& info = graph::info(dtype);
  const auto bits = static_cast<std::uint8_t>(8 * info.bytes);
  Code code = info.kind == graph::DTypeClass::floating           ? Code::Float
              : info.kind == graph::DTypeClass::signed_integer   ? Code::Int
              : info.kind == graph::DTypeClass::unsigned_integer ? Code::UInt
                                                                 : Code::Bool;
  if (dtype == graph::DType::bf16) code = Code::Bfloat;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

bool holds(const nb::dlpack::dtype& found, graph::DType dtype) {
  if (found == dlpack_type(dtype)) return true;
  using enum graph::DType;
  const bool bits = dtype == bf16 || dtype == f8e4m3 || dtype == f8e5m2;
  const auto width = static_cast<std::uint8_t>(8 * graph::byte_size(dtype));
  return bits && found == nb::dlpack::dtype{static_cast<std::uint8_t>(Code::UInt), width, 1};
}

template <class One>
Status check_one(const One& array, const graph::TensorType& type, std::string_view kind, std::size_t index) {
  const auto wrong = [&](const std::string& what) {
    return make_error(ErrorKind::invalid_argument, "{} {}: {} is wanted, the array is {}", kind, index,
                      graph::to_string(type), what);
  };
  if (array.device_type() != nb::device::cpu::value) return wrong("not in the host's memory");
  if (!holds(array.dtype(), type.dtype)) return wrong("of another element type");
  if (static_cast<int>(array.ndim()) != type.rank()) return wrong(fmt::format("of {} dimensions", array.ndim()));
  for (int d = type.rank(); d-- > 0;) {
    const auto extent = static_cast<std::int64_t>(array.shape(d));
    if (extent != type.dims[d]) return wrong(fmt::format("{} in dimension {}", extent, d));
  }
  if (type.elements() == 0) return {};  // whose strides say nothing
  std::int64_t stride = 1;
  for (int d = type.rank(); d-- > 0;) {
    const std::int64_t extent = type.dims[d];
    if (extent > 1 && array.stride(d) != stride) return wrong("not dense and row-major");
    stride *= extent;
  }
  return {};
}

}  // namespace

Status check_array(const Array& array, const graph::TensorType& type, std::string_view kind, std::size_t index) {
  return check_one(array, type, kind, index);
}

Status check_array(const WritableArray& array, const graph::TensorType& type, std::string_view kind,
                   std::size_t index) {
  return check_one(array, type, kind, index);
}

}  // namespace stitch::python
