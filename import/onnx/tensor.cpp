#include "import/onnx/tensor.h"

#include <onnx/onnx_pb.h>

#include <array>
#include <charconv>
#include <cstring>

#include "graph/literal.h"

namespace stitch::import::onnx {
namespace {

using graph::ConstantAttributes;
using graph::DType;

struct TypeRow {
  std::string_view name;
  std::optional<DType> dtype;
};

// Indexed by TensorProto.DataType. The library stops at BFLOAT16; newer files do not.
constexpr std::array<TypeRow, 24> types = {{
    {"UNDEFINED", {}},
    {"FLOAT", DType::f32},
    {"UINT8", DType::u8},
    {"INT8", DType::s8},
    {"UINT16", DType::u16},
    {"INT16", DType::s16},
    {"INT32", DType::s32},
    {"INT64", DType::s64},
    {"STRING", {}},
    {"BOOL", DType::pred},
    {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},
    {"UINT32", DType::u32},
    {"UINT64", DType::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", DType::bf16},
    {"FLOAT8E4M3FN", DType::f8e4m3},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", DType::f8e5m2},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
}};

Result<graph::Dims> read_dims(const pb::TensorProto& tensor) {
  graph::Dims dims(tensor.dims().begin(), tensor.dims().end());
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) {
    if (extent < 0 || extent > graph::most_elements) {
      return make_error(ErrorKind::parse, "extent {} in {}", extent, graph::to_string(dims));
    }
    if (!graph::multiply_extent(count, extent))
      return make_error(ErrorKind::parse, "{} is too large", graph::to_string(dims));
  }
  return dims;
}

template <class Element, class Field>
void append_as(const Field& field, std::vector<std::byte>& data) {
  for (const auto stored : field) {
    const auto element = static_cast<Element>(stored);
    const auto* bytes = reinterpret_cast<const std::byte*>(&element);
    data.insert(data.end(), bytes, bytes + sizeof(Element));
  }
}

/// The typed fields of TensorProto: which one holds which element type, and in which width (onnx.proto).
void append_typed(const pb::TensorProto& tensor, DType dtype, std::vector<std::byte>& data) {
  switch (dtype) {
    case DType::f32: return append_as<float>(tensor.float_data(), data);
    case DType::f64: return append_as<double>(tensor.double_data(), data);
    case DType::s64: return append_as<std::int64_t>(tensor.int64_data(), data);
    case DType::u64: return append_as<std::uint64_t>(tensor.uint64_data(), data);
    case DType::u32: return append_as<std::uint32_t>(tensor.uint64_data(), data);
    case DType::s32: return append_as<std::int32_t>(tensor.int32_data(), data);
    case DType::pred: return append_as<std::uint8_t>(tensor.int32_data(), data);
    default:
      if (graph::byte_size(dtype) == 2) return append_as<std::uint16_t>(tensor.int32_data(), data);
      return append_as<std::uint8_t>(tensor.int32_data(), data);
  }
}

Status read_location(const pb::TensorProto& tensor, TensorData& data) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") data.location = entry.value();
    if (entry.key() != "offset") continue;
    const std::string& text = entry.value();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), data.offset);
    if (failed != std::errc() || end != text.data() + text.size() || data.offset < 0)
      return make_error(ErrorKind::parse, "tensor '{}': offset '{}' into external data", tensor.name(), text);
  }
  return {};
}

}  // namespace

std::optional<DType> dtype_of(std::int64_t code) {
  if (code < 0 || code >= std::ssize(types)) return std::nullopt;
  return types[code].dtype;
}

std::string type_name(std::int64_t code) {
  if (code < 0 || code >= std::ssize(types)) return fmt::format("type {}", code);
  return std::string(types[code].name);
}

Result<TensorData> read_tensor(const pb::TensorProto& tensor) {
  const std::string place = fmt::format("tensor '{}'", tensor.name());
  const std::optional<DType> dtype = dtype_of(tensor.data_type());
  if (!dtype) {
    return make_error(ErrorKind::unsupported, "{}: element type {}", place, type_name(tensor.data_type()));
  }
  Result<graph::Dims> dims = read_dims(tensor);
  if (!dims) return dims.error().within(place);
  TensorData result{{*dtype, std::move(*dims)}, std::nullopt, {}, 0};
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
    STITCH_TRY(read_location(tensor, result));
    return result;
  }
  if (tensor.has_segment()) return make_error(ErrorKind::unsupported, "{}: stored in segments", place);

  ConstantAttributes constant{result.type, {}};
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    constant.data.resize(raw.size());
    if (!raw.empty()) std::memcpy(constant.data.data(), raw.data(), raw.size());
  } else {
    append_typed(tensor, *dtype, constant.data);
  }
  if (std::ssize(constant.data) != result.type.bytes()) {
    return make_error(ErrorKind::parse, "{}: {} bytes of data for {}, which needs {}", place, constant.data.size(),
                      graph::to_string(result.type), result.type.bytes());
  }
  if (*dtype == DType::pred) {
    for (std::byte& element : constant.data) element = std::byte{element != std::byte{0}};
  }
  result.constant = std::move(constant);
  return result;
}

}  // namespace stitch::import::onnx
