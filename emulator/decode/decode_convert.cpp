#include <algorithm>

#include "emulator/decode/decoder.h"
#include "emulator/decode/operation_name.h"

namespace stitch::emulator {
namespace {

bool is_integer(Type type) { return !is_floating(type) && type != Type::pred && info(type).kind != TypeKind::bits; }

}  // namespace

/// cvt[.rounding][.ftz][.sat].to.from d, a. Registers may be wider than the types: the source is read in its low bits,
/// the result extended.
Status Decoder::convert() {
  if (modifiers_.take("pack")) return plain_lanes();
  std::string_view rounding = modifiers_.take_any({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "rs"});
  if (rounding == "rn") rounding = {};
  const bool ftz = modifiers_.take("ftz");
  const bool saturate = modifiers_.take("sat");
  const bool satfinite = modifiers_.take("satfinite");
  const bool relu = modifiers_.take("relu");
  const auto to = modifiers_.take_type();
  const auto from = modifiers_.take_type();
  if (!to || !from) return fail("cvt needs two types");
  STITCH_TRY(finish_modifiers());
  const bool packed = *to == Type::f16x2 || *to == Type::bf16x2 || *to == Type::e4m3x2 || *to == Type::e5m2x2;
  if (packed) return convert_packed(*to, *from, rounding, relu, satfinite);
  if (satfinite) return unsupported("cvt.satfinite to this type");
  STITCH_TRY(expect_operands(2));
  STITCH_ASSIGN(const Ref d, loose_destination(operand(0)));
  STITCH_ASSIGN(Ref a, loose_source(operand(1), *from));
  if (a.kind == Ref::Kind::reg && width_of(a) != register_width(*from)) {
    const Ref narrowed = temporary(register_width(*from));
    STITCH_TRY(emit_resize(narrowed, a, false));
    a = narrowed;
  }
  const bool whole = rounding.size() == 3 && rounding.ends_with('i');
  const bool from_f32 = *from == Type::f32;
  std::string name;
  if (is_integer(*to) && is_integer(*from)) {
    name = join({saturate ? "cvt.sat" : "cvt", to_string(*to), to_string(*from)});
  } else if (*to == *from && is_floating(*to) && !whole) {
    // cvt.f32.f32 moves; .ftz and .sat do the rest.
    name = ftz && *to == Type::f32 ? "cvt.ftz.f32.f32"
                                   : join({"mov", bits(*to) == 16   ? "b16"
                                                  : bits(*to) == 32 ? "b32"
                                                                    : "b64"});
  } else {
    const bool flushes =
        ftz && (from_f32 || (*to == Type::f32 && *from == Type::f64)) && register_width(*to) != Width::b16;
    name = join({"cvt", rounding, flushes ? "ftz" : "", to_string(*to), to_string(*from)});
  }
  const Width width = register_width(*to);
  const bool direct = width_of(d) == width && !(saturate && is_floating(*to)) && !relu;
  const Ref result = direct ? d : temporary(width);
  STITCH_TRY(emit_lane(name, result, a));
  if (direct) return {};
  if (relu) return post("relu", *to, d, result);
  if (saturate && is_floating(*to)) return post("saturate", *to, d, result);
  return emit_resize(d, result, is_signed(*to));
}

/// Two values into one register: the first source is the upper half.
Status Decoder::convert_packed(Type to, Type from, std::string_view rounding, bool relu, bool satfinite) {
  const std::string name =
      join({"cvt", satfinite ? "satfinite" : rounding, relu ? "relu" : "", to_string(to), to_string(from)});
  const Width width = register_width(to);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  STITCH_TRY(expect_operands(from == Type::f32 ? 3 : 2));
  STITCH_ASSIGN(const Ref a, source(operand(1), from));
  if (from != Type::f32) return emit_lane(name, d, a);
  STITCH_ASSIGN(const Ref b, source(operand(2), from));
  return emit_lane(name, d, a, b);
}

Status Decoder::move() {
  STITCH_ASSIGN(const Type type, last_type("mov"));
  STITCH_TRY(finish(2));
  if (operand(1).kind == ptx::Operand::Kind::vector) return pack(operand(1), type);
  if (operand(0).kind == ptx::Operand::Kind::vector) return unpack(operand(0), type);
  const Width width = register_width(type);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  STITCH_ASSIGN(const Ref a, type == Type::pred ? predicate(operand(1)) : source(operand(1), type));
  // A special register is read straight into the destination.
  if (!draft_.drafts.empty() && a.kind == Ref::Kind::reg && a.index + 1 == draft_.registers.size() &&
      draft_.registers[a.index].name.empty() && draft_.drafts.back().instruction.opcode == Opcode::special) {
    draft_.drafts.back().d = d;
    draft_.registers.pop_back();
    return {};
  }
  constexpr std::string_view names[] = {"", "mov.pred", "mov.b16", "mov.b32", "mov.b64", "mov.b128"};
  return emit_lane(names[static_cast<int>(width)], d, a);
}

/// mov.b64 d, {low, …, high}.
Status Decoder::pack(const ptx::Operand& from, Type type) {
  const Width width = register_width(type);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  const std::size_t n = from.elements.size();
  const int part_bits = bits(type) / static_cast<int>(std::max<std::size_t>(n, 1));
  std::vector<Ref> parts;
  for (const ptx::Operand& element : from.elements) {
    const Type part = part_bits == 8 ? Type::b8 : part_bits == 16 ? Type::b16 : part_bits == 32 ? Type::b32 : Type::b64;
    STITCH_ASSIGN(const Ref ref, source(element, part));
    parts.push_back(ref);
  }
  if (n == 2 && part_bits == 16) return emit_lane("pack.b32.b16", d, parts[0], parts[1]);
  if (n == 2 && part_bits == 32) return emit_lane("pack.b64.b32", d, parts[0], parts[1]);
  if (n == 2 && part_bits == 64) return emit_lane("pack.b128.b64", d, parts[0], parts[1]);
  if (n == 4 && part_bits == 16) {
    const Ref low = temporary(Width::b32);
    const Ref high = temporary(Width::b32);
    STITCH_TRY(emit_lane("pack.b32.b16", low, parts[0], parts[1]));
    STITCH_TRY(emit_lane("pack.b32.b16", high, parts[2], parts[3]));
    return emit_lane("pack.b64.b32", d, low, high);
  }
  if ((n == 2 || n == 4) && part_bits == 8) {
    // Bytes are joined by permutation of registers that hold one each.
    Ref pair[2];
    for (std::size_t i = 0; i < n / 2; ++i) {
      Ref wide[2];
      for (std::size_t j = 0; j < 2; ++j) {
        wide[j] = temporary(Width::b32);
        STITCH_TRY(emit_resize(wide[j], parts[2 * i + j], false));
      }
      pair[i] = temporary(Width::b32);
      STITCH_TRY(emit_lane("prmt.b32", pair[i], wide[0], wide[1], constant(Width::b32, 0x0040)));
    }
    if (n == 2) return emit_resize(d, pair[0], false);
    return emit_lane("prmt.b32", d, pair[0], pair[1], constant(Width::b32, 0x5410));
  }
  return unsupported("this vector move");
}

/// mov.b64 {low, …, high}, a.
Status Decoder::unpack(const ptx::Operand& to, Type type) {
  const std::size_t n = to.elements.size();
  const int part_bits = bits(type) / static_cast<int>(std::max<std::size_t>(n, 1));
  STITCH_ASSIGN(Ref a, source(operand(1), type));
  if (part_bits != 8 && part_bits != 16 && part_bits != 32 && part_bits != 64) return unsupported("this vector move");
  // A destination may be the source: the last part to be written would find it changed.
  const Ref copy = temporary(register_width(type));
  const bool overlaps = std::ranges::any_of(to.elements, [&](const ptx::Operand& element) {
    return a.kind == Ref::Kind::reg && find_register(element.name, statement_->scope) == a.index;
  });
  if (overlaps) {
    STITCH_TRY(emit_resize(copy, a, false));
    a = copy;
  }
  if (part_bits == 8) {
    if (type != Type::b16 && type != Type::b32) return unsupported("this vector move");
    if (bits(type) == 16) {
      // Bytes are taken out of 32 bits.
      const Ref wide = temporary(Width::b32);
      STITCH_TRY(emit_resize(wide, a, false));
      a = wide;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    STITCH_ASSIGN(const Ref d, loose_destination(to.elements[i]));
    if (!d.exists()) continue;
    if (part_bits == 8) {
      const Ref byte = temporary(Width::b32);
      STITCH_TRY(emit_lane("bfe.u32", byte, a, constant(Width::b32, 8 * i), constant(Width::b32, 8)));
      STITCH_TRY(emit_resize(d, byte, false));
      continue;
    }
    if (width_of(d) != (part_bits == 16 ? Width::b16 : part_bits == 32 ? Width::b32 : Width::b64)) {
      return fail(fmt::format("'{}' has the wrong width for a {}-bit part", to.elements[i].name, part_bits));
    }
    STITCH_TRY(emit_lane(fmt::format("extract.{}.b{}.b{}", i, part_bits, bits(type)), d, a));
  }
  return {};
}

}  // namespace stitch::emulator
