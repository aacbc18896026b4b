#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/dtype.h"

namespace stitch::graph {

/// Rounds to the nearest value of `dtype` (ties to even; floats overflow to infinity, f8e4m3 to NaN; integers truncate
/// and saturate, NaN gives 0; pred is value ≠ 0), and returns it as a double. 64-bit integers beyond 2^53 lose bits
/// here; use the integer functions for them.
double round_to(DType dtype, double value);

/// One element from memory, as a double.
double load_element(DType dtype, const std::byte* from);
/// One element into memory, rounded as round_to does.
void store_element(DType dtype, double value, std::byte* to);

/// One element of an integer or pred type, exactly; u64 as its two's complement bits.
std::int64_t load_integer(DType dtype, const std::byte* from);
/// Keeps the low bits, as a conversion between integers does.
void store_integer(DType dtype, std::int64_t value, std::byte* to);

/// A constant with every element equal to `value`; it holds one of them.
ConstantAttributes splat(TensorType type, double value);
/// A constant from element values in row-major order.
ConstantAttributes dense(TensorType type, std::span<const double> values);
ConstantAttributes dense_integers(TensorType type, std::span<const std::int64_t> values);

/// The bytes of element i of a constant.
const std::byte* element_at(const ConstantAttributes& constant, std::int64_t index);
/// The bytes of all elements, as a buffer holds them.
std::vector<std::byte> expanded(const ConstantAttributes& constant);
/// The bits of element i of a constant, in the low bytes.
std::uint64_t element_bits(const ConstantAttributes& constant, std::int64_t index);
/// A constant of one element, given by its bits.
ConstantAttributes scalar_of(DType dtype, std::uint64_t bits);
/// Element i of a constant.
double element(const ConstantAttributes& constant, std::int64_t index);
/// The value if all elements are the same bits (an empty constant has none).
bool is_splat(const ConstantAttributes& constant);

/// Bits of the nearest f16 / bf16 / f8 value.
std::uint16_t f16_bits(double value);
std::uint16_t bf16_bits(double value);
double f16_value(std::uint16_t bits);
double bf16_value(std::uint16_t bits);

}  // namespace stitch::graph
