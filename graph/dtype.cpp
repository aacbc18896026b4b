#include "graph/dtype.h"

#include <array>

namespace stitch::graph {
namespace {

using enum DType;
using enum DTypeClass;

constexpr std::array<DTypeInfo, 15> table = {{
    {pred, "pred", 1, boolean, 0, pred},
    {s8, "s8", 1, signed_integer, 0, s32},
    {u8, "u8", 1, unsigned_integer, 0, u32},
    {s16, "s16", 2, signed_integer, 0, s32},
    {u16, "u16", 2, unsigned_integer, 0, u32},
    {s32, "s32", 4, signed_integer, 0, s32},
    {u32, "u32", 4, unsigned_integer, 0, u32},
    {s64, "s64", 8, signed_integer, 0, s64},
    {u64, "u64", 8, unsigned_integer, 0, u64},
    {f8e4m3, "f8e4m3", 1, floating, 3, f32},
    {f8e5m2, "f8e5m2", 1, floating, 2, f32},
    {f16, "f16", 2, floating, 10, f32},
    {bf16, "bf16", 2, floating, 7, f32},
    {f32, "f32", 4, floating, 23, f32},
    {f64, "f64", 8, floating, 52, f64},
}};

}  // namespace

std::span<const DTypeInfo> dtype_table() { return table; }

const DTypeInfo& info(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : table) {
    if (row.name == name) return row.dtype;
  }
  if (name == "f8e4m3fn") return f8e4m3;
  return std::nullopt;
}

}  // namespace stitch::graph
