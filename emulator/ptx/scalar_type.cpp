#include "emulator/ptx/scalar_type.h"

#include <array>
#include <cstddef>

namespace stitch::emulator {
namespace {

constexpr std::array<TypeInfo, 31> types{{
    {"pred", 1, TypeKind::predicate},
    {"b8", 8, TypeKind::bits},
    {"b16", 16, TypeKind::bits},
    {"b32", 32, TypeKind::bits},
    {"b64", 64, TypeKind::bits},
    {"b128", 128, TypeKind::bits},
    {"u8", 8, TypeKind::unsigned_integer},
    {"u16", 16, TypeKind::unsigned_integer},
    {"u32", 32, TypeKind::unsigned_integer},
    {"u64", 64, TypeKind::unsigned_integer},
    {"s8", 8, TypeKind::signed_integer},
    {"s16", 16, TypeKind::signed_integer},
    {"s32", 32, TypeKind::signed_integer},
    {"s64", 64, TypeKind::signed_integer},
    {"f16", 16, TypeKind::floating},
    {"f16x2", 32, TypeKind::floating},
    {"bf16", 16, TypeKind::floating},
    {"bf16x2", 32, TypeKind::floating},
    {"tf32", 32, TypeKind::floating},
    {"f32", 32, TypeKind::floating},
    {"f64", 64, TypeKind::floating},
    {"u16x2", 32, TypeKind::unsigned_integer},
    {"s16x2", 32, TypeKind::signed_integer},
    {"e4m3x2", 16, TypeKind::floating},
    {"e5m2x2", 16, TypeKind::floating},
    {"e4m3", 8, TypeKind::floating},
    {"e5m2", 8, TypeKind::floating},
    {"s4", 4, TypeKind::signed_integer},
    {"u4", 4, TypeKind::unsigned_integer},
    {"b1", 1, TypeKind::bits},
    {"f32x2", 64, TypeKind::floating},
}};
static_assert(types.size() == static_cast<std::size_t>(Type::f32x2) + 1);

}  // namespace

const TypeInfo& info(Type type) { return types[static_cast<std::size_t>(type)]; }

std::optional<Type> type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

}  // namespace stitch::emulator
