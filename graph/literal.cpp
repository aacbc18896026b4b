#include "graph/literal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace stitch::graph {
namespace {

/// A small IEEE-like format: sign, `exponent` bits, `mantissa` bits.
struct Format {
  int exponent;
  int mantissa;
  bool has_infinity;  ///< e4m3 ("fn") has none: its largest exponent holds numbers, all ones is NaN

  [[nodiscard]] int bias() const { return (1 << (exponent - 1)) - 1; }
  [[nodiscard]] unsigned exponent_mask() const { return (1U << exponent) - 1; }
  [[nodiscard]] unsigned mantissa_mask() const { return (1U << mantissa) - 1; }
};

constexpr Format f16_format{5, 10, true}, bf16_format{8, 7, true}, e4m3_format{4, 3, false}, e5m2_format{5, 2, true};

double decode(Format format, unsigned bits) {
  const unsigned mantissa = bits & format.mantissa_mask();
  const unsigned exponent = (bits >> format.mantissa) & format.exponent_mask();
  const double sign = (bits >> (format.mantissa + format.exponent)) != 0 ? -1.0 : 1.0;
  if (exponent == format.exponent_mask()) {
    if (format.has_infinity) {
      return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    }
    if (mantissa == format.mantissa_mask()) return std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias() - format.mantissa);
  return sign *
         std::ldexp(mantissa + (1U << format.mantissa), static_cast<int>(exponent) - format.bias() - format.mantissa);
}

unsigned encode(Format format, double value) {
  const unsigned sign = std::signbit(value) ? 1U << (format.mantissa + format.exponent) : 0U;
  const unsigned infinity = format.exponent_mask() << format.mantissa;
  const unsigned nan =
      format.has_infinity ? infinity | (1U << (format.mantissa - 1)) : infinity | format.mantissa_mask();
  if (std::isnan(value)) return nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | (format.has_infinity ? infinity : nan);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f × 2^exponent, f in [0.5, 1)
  const int lowest = 1 - format.bias();
  const int scale = std::max(exponent - 1, lowest) - format.mantissa;  // weight of the last mantissa bit
  const double rounded = std::nearbyint(std::ldexp(magnitude, -scale));
  // `rounded` counts units of 2^scale; a carry out of the mantissa simply moves into the exponent field.
  const unsigned units = static_cast<unsigned>(rounded);
  const unsigned field = scale == lowest - format.mantissa
                             ? units
                             : units + (static_cast<unsigned>(scale - (lowest - format.mantissa)) << format.mantissa);
  const unsigned limit = format.has_infinity ? infinity : nan;
  return sign | std::min(field, limit);
}

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void write_as(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// Truncates toward zero and saturates; NaN gives 0 (XLA's and PTX's conversion).
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  // The largest T may not be a double: compare with the power of two above it.
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (value >= above) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

}  // namespace

std::uint16_t f16_bits(double value) { return static_cast<std::uint16_t>(encode(f16_format, value)); }
std::uint16_t bf16_bits(double value) { return static_cast<std::uint16_t>(encode(bf16_format, value)); }
double f16_value(std::uint16_t bits) { return decode(f16_format, bits); }
double bf16_value(std::uint16_t bits) { return decode(bf16_format, bits); }

double load_element(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::pred: return read_as<std::uint8_t>(from) != 0 ? 1.0 : 0.0;
    case DType::s8: return read_as<std::int8_t>(from);
    case DType::u8: return read_as<std::uint8_t>(from);
    case DType::s16: return read_as<std::int16_t>(from);
    case DType::u16: return read_as<std::uint16_t>(from);
    case DType::s32: return read_as<std::int32_t>(from);
    case DType::u32: return read_as<std::uint32_t>(from);
    case DType::s64: return static_cast<double>(read_as<std::int64_t>(from));
    case DType::u64: return static_cast<double>(read_as<std::uint64_t>(from));
    case DType::f8e4m3: return decode(e4m3_format, read_as<std::uint8_t>(from));
    case DType::f8e5m2: return decode(e5m2_format, read_as<std::uint8_t>(from));
    case DType::f16: return f16_value(read_as<std::uint16_t>(from));
    case DType::bf16: return bf16_value(read_as<std::uint16_t>(from));
    case DType::f32: return static_cast<double>(read_as<float>(from));
    case DType::f64: return read_as<double>(from);
  }
  return 0;
}

void store_element(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::pred: write_as<std::uint8_t>(to, value != 0); break;
    case DType::s8: write_as(to, saturate<std::int8_t>(value)); break;
    case DType::u8: write_as(to, saturate<std::uint8_t>(value)); break;
    case DType::s16: write_as(to, saturate<std::int16_t>(value)); break;
    case DType::u16: write_as(to, saturate<std::uint16_t>(value)); break;
    case DType::s32: write_as(to, saturate<std::int32_t>(value)); break;
    case DType::u32: write_as(to, saturate<std::uint32_t>(value)); break;
    case DType::s64: write_as(to, saturate<std::int64_t>(value)); break;
    case DType::u64: write_as(to, saturate<std::uint64_t>(value)); break;
    case DType::f8e4m3: write_as(to, static_cast<std::uint8_t>(encode(e4m3_format, value))); break;
    case DType::f8e5m2: write_as(to, static_cast<std::uint8_t>(encode(e5m2_format, value))); break;
    case DType::f16: write_as(to, f16_bits(value)); break;
    case DType::bf16: write_as(to, bf16_bits(value)); break;
    case DType::f32: write_as(to, static_cast<float>(value)); break;
    case DType::f64: write_as(to, value); break;
  }
}

double round_to(DType dtype, double value) {
  std::byte buffer[8];
  store_element(dtype, value, buffer);
  return load_element(dtype, buffer);
}

std::int64_t load_integer(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::s64:
    case DType::u64: return read_as<std::int64_t>(from);
    default: return load_element(dtype, from);
  }
}

void store_integer(DType dtype, std::int64_t value, std::byte* to) {
  if (dtype == DType::pred) value = value != 0;
  std::memcpy(to, &value, byte_size(dtype));  // little-endian hosts only; see docs/ir.md
}

ConstantAttributes splat(TensorType type, double value) {
  ConstantAttributes constant{std::move(type), {}};
  if (constant.type.elements() == 0) return constant;
  constant.data.resize(byte_size(constant.type.dtype));
  store_element(constant.type.dtype, value, constant.data.data());
  return constant;
}

ConstantAttributes dense(TensorType type, std::span<const double> values) {
  const std::size_t size = byte_size(type.dtype);
  ConstantAttributes constant{std::move(type), std::vector<std::byte>(values.size() * size)};
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(constant.type.dtype, values[i], &constant.data[i * size]);
  return constant;
}

ConstantAttributes dense_integers(TensorType type, std::span<const std::int64_t> values) {
  const std::size_t size = byte_size(type.dtype);
  ConstantAttributes constant{std::move(type), std::vector<std::byte>(values.size() * size)};
  for (std::size_t i = 0; i < values.size(); ++i)
    store_integer(constant.type.dtype, values[i], &constant.data[i * size]);
  return constant;
}

const std::byte* element_at(const ConstantAttributes& constant, std::int64_t index) {
  const std::size_t size = byte_size(constant.type.dtype);
  return &constant.data[constant.data.size() == size ? 0 : index * size];
}

std::uint64_t element_bits(const ConstantAttributes& constant, std::int64_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element_at(constant, index), byte_size(constant.type.dtype));
  return bits;
}

ConstantAttributes scalar_of(DType dtype, std::uint64_t bits) {
  ConstantAttributes one{{dtype, {}}, std::vector<std::byte>(byte_size(dtype))};
  std::memcpy(one.data.data(), &bits, one.data.size());
  return one;
}

std::vector<std::byte> expanded(const ConstantAttributes& constant) {
  const std::int64_t size = byte_size(constant.type.dtype), bytes = constant.type.bytes();
  if (std::ssize(constant.data) == bytes) return constant.data;
  std::vector<std::byte> all(bytes);
  for (std::int64_t at = 0; at < bytes; at += size) std::memcpy(&all[at], constant.data.data(), size);
  return all;
}

double element(const ConstantAttributes& constant, std::int64_t index) {
  return load_element(constant.type.dtype, element_at(constant, index));
}

bool is_splat(const ConstantAttributes& constant) {
  const std::size_t size = byte_size(constant.type.dtype);
  if (constant.data.empty()) return false;
  for (std::size_t at = size; at < constant.data.size(); at += size) {
    if (std::memcmp(&constant.data[0], &constant.data[at], size) != 0) return false;
  }
  return true;
}

}  // namespace stitch::graph
