#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stitch::emulator {

/// PTX's fundamental types, with the packed and alternate floating formats.
enum class Type : std::uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  u16x2,
  s16x2,
  e4m3x2,
  e5m2x2,
  e4m3,
  e5m2,
  s4,
  u4,
  b1,
  f32x2,
};

enum class TypeKind : std::uint8_t { predicate, bits, unsigned_integer, signed_integer, floating };

struct TypeInfo {
  std::string_view name;  ///< without the dot
  int bits;
  TypeKind kind;
};

const TypeInfo& info(Type type);
inline int bits(Type type) { return info(type).bits; }
inline int bytes(Type type) { return info(type).bits / 8; }
inline bool is_signed(Type type) { return info(type).kind == TypeKind::signed_integer; }
inline bool is_floating(Type type) { return info(type).kind == TypeKind::floating; }
inline std::string_view to_string(Type type) { return info(type).name; }

std::optional<Type> type_from_name(std::string_view name);

}  // namespace stitch::emulator
