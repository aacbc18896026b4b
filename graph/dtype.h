#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stitch::graph {

/// Element types. The order is part of no format; formats use the names of the table below.
enum class DType : std::uint8_t {
  pred,
  s8,
  u8,
  s16,
  u16,
  s32,
  u32,
  s64,
  u64,
  f8e4m3,
  f8e5m2,
  f16,
  bf16,
  f32,
  f64,
};

enum class DTypeClass : std::uint8_t { boolean, signed_integer, unsigned_integer, floating };

/// One row of the dtype table.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as in HLO text: "bf16"
  int bytes;              ///< of one element in memory; pred is a byte holding 0 or 1
  DTypeClass kind;
  int mantissa_bits;  ///< explicit mantissa bits of a floating type, else 0
  DType accumulator;  ///< what sums and products of this type are accumulated in
};

std::span<const DTypeInfo> dtype_table();
const DTypeInfo& info(DType dtype);

inline std::string_view to_string(DType dtype) { return info(dtype).name; }
inline int byte_size(DType dtype) { return info(dtype).bytes; }
inline bool is_floating(DType dtype) { return info(dtype).kind == DTypeClass::floating; }
inline bool is_signed_integer(DType dtype) { return info(dtype).kind == DTypeClass::signed_integer; }
inline bool is_unsigned_integer(DType dtype) { return info(dtype).kind == DTypeClass::unsigned_integer; }
inline bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }

std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace stitch::graph
