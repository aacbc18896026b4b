#include <algorithm>

#include "emulator/decode/decoder.h"

/// Addresses, and the modifiers of instructions that touch memory.
namespace stitch::emulator {

Result<Decoder::Address> Decoder::address(const ptx::Operand& operand, Space space) {
  if (operand.kind != ptx::Operand::Kind::address) return fail("expected an address in brackets");
  if (!operand.elements.empty()) return unsupported("a tensor address");
  Address result;
  result.space = space;
  result.offset = operand.offset;
  if (operand.name.empty()) return result;
  if (const auto found = find_register(operand.name, statement_->scope)) {
    result.base = {Ref::Kind::reg, *found};
    if (width_of(result.base) != Width::b64 && width_of(result.base) != Width::b32) {
      return fail(fmt::format("'{}' cannot hold an address", operand.name));
    }
    return result;
  }
  const VariablePlace* place = find_place(operand.name);
  if (place == nullptr) return fail(fmt::format("'{}' is not declared", operand.name));
  if (place->is_module_variable) {
    result.base = address_constant(place->variable, 0, Width::b64);
    if (space == Space::generic) result.space = place->space;
    return result;
  }
  result.offset += place->offset;
  const bool parameter = place->space == Space::parameter || place->space == Space::frame;
  if (space == Space::generic && !parameter) return fail(fmt::format("'{}' has no generic address here", operand.name));
  if (space == Space::parameter && !parameter) return fail(fmt::format("'{}' is not a parameter", operand.name));
  if (place->space == Space::frame) result.space = Space::frame;
  return result;
}

std::uint8_t Decoder::address_bytes(Ref base) const {
  if (!base.exists()) return 0;
  return width_of(base) == Width::b32 ? 4 : 8;
}

Result<Ref> Decoder::address_register(const ptx::Operand& operand, Space space) {
  STITCH_ASSIGN(const Address at, address(operand, space));
  if (!at.base.exists()) return constant(Width::b64, at.offset);
  Ref wide = at.base;
  if (width_of(wide) == Width::b32) {
    wide = temporary(Width::b64);
    STITCH_TRY(emit_resize(wide, at.base, false));
  }
  if (at.offset == 0) return wide;
  const Ref sum = temporary(Width::b64);
  STITCH_TRY(emit_lane("add.u64", sum, wide, constant(Width::b64, at.offset)));
  if (!counted_) return sum;
  // Address arithmetic of ours is no instruction of the kernel's.
  draft_.drafts.back().instruction.counted = counted_ = false;
  return sum;
}

Result<Space> Decoder::take_space(Space fallback) {
  struct Row {
    std::string_view name;
    Space space;
  };
  constexpr Row rows[] = {{"global", Space::global},      {"shared", Space::shared},
                          {"shared::cta", Space::shared}, {"shared::cluster", Space::shared_cluster},
                          {"local", Space::local},        {"const", Space::constant},
                          {"param", Space::parameter},    {"param::entry", Space::parameter},
                          {"param::func", Space::frame}};
  for (const Row& row : rows) {
    if (!modifiers_.take(row.name)) continue;
    // In a device function .param means its own arguments, which live in the thread's frame.
    if (row.space == Space::parameter && !function_->is_entry) return Space::frame;
    return row.space;
  }
  return fallback;
}

Status Decoder::take_semantics(Semantics& semantics, Scope& scope, Semantics fallback) {
  struct Row {
    std::string_view name;
    Semantics semantics;
  };
  constexpr Row rows[] = {
      {"weak", Semantics::weak},       {"relaxed", Semantics::relaxed},         {"acquire", Semantics::acquire},
      {"release", Semantics::release}, {"acq_rel", Semantics::acquire_release}, {"volatile", Semantics::relaxed},
      {"mmio", Semantics::relaxed},    {"sc", Semantics::acquire_release}};
  semantics = fallback;
  const bool is_volatile = std::ranges::find(modifiers_.rest(), "volatile") != modifiers_.rest().end();
  for (const Row& row : rows) {
    if (modifiers_.take(row.name)) {
      semantics = row.semantics;
      break;
    }
  }
  const std::string_view name = modifiers_.take_any({"cta", "cluster", "gpu", "sys"});
  scope = name == "cta"                  ? Scope::block
          : name == "cluster"            ? Scope::cluster
          : name == "gpu"                ? Scope::device
          : name == "sys" || is_volatile ? Scope::system
                                         : Scope::none;
  if (scope == Scope::none && semantics != Semantics::weak) scope = Scope::device;
  return {};
}

/// Eviction and prefetch hints change nothing that the emulator observes.
L1Use Decoder::take_cache_hints() {
  L1Use use = L1Use::allocates;
  for (const std::string_view hint : {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}) {
    if (modifiers_.take(hint) && (hint == "cg" || hint == "cv")) use = L1Use::passes;
  }
  if (modifiers_.take("L1::no_allocate")) use = L1Use::looks;
  modifiers_.drop_prefix("L1::");
  modifiers_.drop_prefix("L2::");
  return use;
}

std::uint8_t Decoder::take_elements() {
  const std::string_view vector = modifiers_.take_any({"v2", "v4", "v8"});
  return vector.empty() ? 1 : vector[1] - '0';
}

}  // namespace stitch::emulator
