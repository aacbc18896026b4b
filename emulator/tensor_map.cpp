#include "emulator/tensor_map.h"

#include <cstring>

namespace stitch::emulator {
namespace {

// The layout of tensor_map.h.
constexpr std::size_t strides_at = 8, sizes_at = 40, box_at = 60, element_strides_at = 65, rank_at = 70, type_at = 71,
                      interleave_at = 72, swizzle_at = 73, fill_at = 74;

template <class T>
T read_at(std::span<const std::byte, TensorMap::bytes> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <class T>
void write_at(std::span<std::byte, TensorMap::bytes> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

Status check_dimension(const TensorMap& map, std::uint32_t d) {
  if (map.sizes[d] == 0 || map.sizes[d] > std::uint64_t{1} << 32) {
    return make_error(ErrorKind::invalid_argument, "size {} of dimension {} is not in 1 … 2^32", map.sizes[d], d);
  }
  if (map.box[d] == 0 || map.box[d] > 256) {
    return make_error(ErrorKind::invalid_argument, "box size {} of dimension {} is not in 1 … 256", map.box[d], d);
  }
  if (map.element_strides[d] == 0 || map.element_strides[d] > 8) {
    return make_error(ErrorKind::invalid_argument, "element stride {} of dimension {} is not in 1 … 8",
                      map.element_strides[d], d);
  }
  if (d != 0 && (map.strides[d] % 16 != 0 || map.strides[d] >= std::uint64_t{1} << 40)) {
    return make_error(ErrorKind::invalid_argument, "stride {} of dimension {} is no multiple of 16 bytes below 2^40",
                      map.strides[d], d);
  }
  return {};
}

}  // namespace

std::uint32_t element_bytes(TensorMapType type) {
  switch (type) {
    case TensorMapType::u8: return 1;
    case TensorMapType::u16:
    case TensorMapType::f16:
    case TensorMapType::bf16: return 2;
    case TensorMapType::u32:
    case TensorMapType::s32:
    case TensorMapType::f32:
    case TensorMapType::f32_ftz:
    case TensorMapType::tf32:
    case TensorMapType::tf32_ftz: return 4;
    case TensorMapType::u64:
    case TensorMapType::s64:
    case TensorMapType::f64: return 8;
  }
  return 0;
}

std::uint64_t TensorMap::box_bytes() const {
  std::uint64_t product = element_bytes(type);
  for (std::uint32_t d = 0; d < rank; ++d) product *= moved(d);
  return product;
}

Status check(const TensorMap& map) {
  const std::uint32_t size = element_bytes(map.type);
  if (size == 0) return make_error(ErrorKind::invalid_argument, "element type {} is none", static_cast<int>(map.type));
  if (map.rank < 1 || map.rank > TensorMap::most_dimensions) {
    return make_error(ErrorKind::invalid_argument, "{} dimensions, a tensor map has 1 to 5", map.rank);
  }
  if (map.interleave != 0) return make_error(ErrorKind::unsupported, "an interleaved tensor map");
  if (map.swizzle > TensorMapSwizzle::bytes_128) {
    return make_error(ErrorKind::unsupported, "swizzle mode {} of a tensor map", static_cast<int>(map.swizzle));
  }
  if (map.address % 16 != 0) {
    return make_error(ErrorKind::invalid_argument, "the tensor's address 0x{:x} is no multiple of 16", map.address);
  }
  for (std::uint32_t d = 0; d < map.rank; ++d) STITCH_TRY(check_dimension(map, d));
  const std::uint32_t row = map.moved(0) * size;
  if (row % 16 != 0) {
    return make_error(ErrorKind::invalid_argument, "a box row of {} bytes is no multiple of 16", row);
  }
  if (map.swizzle != TensorMapSwizzle::none && row > 16U << static_cast<int>(map.swizzle)) {
    return make_error(ErrorKind::invalid_argument, "a box row of {} bytes is wider than its swizzle of {}", row,
                      16U << static_cast<int>(map.swizzle));
  }
  return {};
}

TensorMap decode_tensor_map(std::span<const std::byte, TensorMap::bytes> bytes) {
  TensorMap map;
  map.address = read_at<std::uint64_t>(bytes, 0);
  map.type = static_cast<TensorMapType>(read_at<std::uint8_t>(bytes, type_at));
  map.rank = read_at<std::uint8_t>(bytes, rank_at) + 1U;
  map.strides[0] = element_bytes(map.type);
  for (std::uint32_t d = 0; d < TensorMap::most_dimensions; ++d) {
    if (d != 0) map.strides[d] = read_at<std::uint64_t>(bytes, strides_at + 8 * (d - 1));
    map.sizes[d] = std::uint64_t{read_at<std::uint32_t>(bytes, sizes_at + 4 * d)} + 1;
    map.box[d] = read_at<std::uint8_t>(bytes, box_at + d) + 1U;
    map.element_strides[d] = read_at<std::uint8_t>(bytes, element_strides_at + d) + 1U;
  }
  map.interleave = read_at<std::uint8_t>(bytes, interleave_at);
  map.swizzle = static_cast<TensorMapSwizzle>(read_at<std::uint8_t>(bytes, swizzle_at));
  map.fills_nan = read_at<std::uint8_t>(bytes, fill_at) != 0;
  return map;
}

void encode_tensor_map(const TensorMap& map, std::span<std::byte, TensorMap::bytes> bytes) {
  std::memset(bytes.data(), 0, bytes.size());
  write_at(bytes, 0, map.address);
  write_at(bytes, type_at, static_cast<std::uint8_t>(map.type));
  write_at(bytes, rank_at, static_cast<std::uint8_t>(map.rank - 1));
  for (std::uint32_t d = 0; d < TensorMap::most_dimensions; ++d) {
    if (d != 0) write_at(bytes, strides_at + 8 * (d - 1), map.strides[d]);
    write_at(bytes, sizes_at + 4 * d, static_cast<std::uint32_t>(map.sizes[d] - 1));
    write_at(bytes, box_at + d, static_cast<std::uint8_t>(map.box[d] - 1));
    write_at(bytes, element_strides_at + d, static_cast<std::uint8_t>(map.element_strides[d] - 1));
  }
  write_at(bytes, interleave_at, static_cast<std::uint8_t>(map.interleave));
  write_at(bytes, swizzle_at, static_cast<std::uint8_t>(map.swizzle));
  write_at(bytes, fill_at, static_cast<std::uint8_t>(map.fills_nan ? 1 : 0));
}

}  // namespace stitch::emulator
