#include <bit>

#include "emulator/decode/decoder.h"
#include "emulator/decode/special_register.h"

namespace stitch::emulator {
Width Decoder::register_width(Type type) {
  if (type == Type::pred) return Width::predicate;
  const int size = bits(type);
  return size <= 16 ? Width::b16 : size == 32 ? Width::b32 : size == 64 ? Width::b64 : Width::b128;
}

Width Decoder::width_of(Ref ref) const {
  return ref.kind == Ref::Kind::reg ? draft_.registers[ref.index].width : Width::none;
}

Status Decoder::expect_operands(std::size_t least, std::size_t most) const {
  const std::size_t n = operand_count();
  if (n >= least && n <= most) return {};
  return fail(least == most ? fmt::format("expected {} operands, not {}", least, n)
                            : fmt::format("expected {} to {} operands, not {}", least, most, n));
}

Status Decoder::finish_modifiers() const {
  if (modifiers_.rest().empty()) return {};
  return unsupported(fmt::format("modifier '.{}'", modifiers_.rest().front()));
}

Status Decoder::finish(std::size_t least, std::size_t most) const {
  STITCH_TRY(finish_modifiers());
  return expect_operands(least, most);
}

Result<Type> Decoder::last_type(std::string_view who) {
  if (const auto type = modifiers_.take_last_type()) return *type;
  return fail(fmt::format("{} has no type", who));
}

Result<OperandRefs> Decoder::operands(Type d, std::span<const Type> sources) {
  STITCH_TRY(finish(1 + sources.size()));
  OperandRefs refs;
  STITCH_ASSIGN(refs.d, destination(operand(0), register_width(d)));
  STITCH_TRY(read_sources(1, sources, refs));
  return refs;
}

Result<OperandRefs> Decoder::operands_with_predicate(Type d, std::initializer_list<Type> sources) {
  STITCH_TRY(finish(1 + sources.size()));
  OperandRefs refs;
  STITCH_ASSIGN(refs.d, destination(operand(0), register_width(d)));
  STITCH_ASSIGN(refs.d2, second_destination());
  STITCH_TRY(read_sources(1, std::span(sources.begin(), sources.size()), refs));
  return refs;
}

Status Decoder::read_sources(std::size_t first, std::span<const Type> types, OperandRefs& refs) {
  Ref* const into[] = {&refs.a, &refs.b, &refs.c, &refs.e};
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ptx::Operand& from = operand(first + i);
    STITCH_ASSIGN(*into[i], types[i] == Type::pred ? predicate(from) : source(from, types[i]));
  }
  return {};
}

Result<Ref> Decoder::second_destination() {
  if (operand(0).second.empty()) return Ref{};
  return named_destination(operand(0).second, Width::predicate);
}

Result<Ref> Decoder::special_source(std::string_view name, Type type) {
  const SpecialName* special = find_special_register(name);
  if (special == nullptr) return fail(fmt::format("'{}' is not declared", name));
  const Ref value = temporary(special->width);
  InstructionDraft& draft = emit(Opcode::special, InstructionClass::move);
  draft.instruction.set_form(special->reg);
  draft.instruction.d_width = special->width;
  draft.d = value;
  const Width wanted = register_width(type);
  if (wanted == special->width) return value;
  const Ref resized = temporary(wanted);
  STITCH_TRY(emit_resize(resized, value, false));
  return resized;
}

Result<Ref> Decoder::symbol_source(const ptx::Operand& operand, Type type) {
  const Width width = register_width(type);
  if (operand.name == "WARP_SZ") return constant(width, 32);
  const VariablePlace* place = find_place(operand.name);
  if (place == nullptr) return special_source(operand.name, type);
  if (place->is_module_variable) {
    if (width != Width::b64) return fail("the address of a global variable is 64 bits wide");
    return address_constant(place->variable, operand.offset, width);
  }
  const std::uint64_t address = place->offset + operand.offset;
  const bool shared = place->space == Space::shared && (width == Width::b32 || width == Width::b64);
  return shared ? shared_constant(address, width) : constant(width, address);
}

Result<Ref> Decoder::loose_source(const ptx::Operand& operand, Type type) {
  using Kind = ptx::Operand::Kind;
  const Width width = register_width(type);
  switch (operand.kind) {
    case Kind::name: {
      if (const auto found = find_register(operand.name, statement_->scope)) return Ref{Ref::Kind::reg, *found};
      return symbol_source(operand, type);
    }
    case Kind::integer:
      if (width == Width::b128) return constant(width, operand.bits, (operand.bits >> 63) != 0 ? ~std::uint64_t{0} : 0);
      if (type == Type::f32 || type == Type::f64) {
        const double value = static_cast<std::int64_t>(operand.bits);
        return type == Type::f64 ? constant(width, std::bit_cast<std::uint64_t>(value))
                                 : constant(width, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
      }
      return constant(width, operand.bits);
    case Kind::real32:
      if (type == Type::f64) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits));
        return constant(width, std::bit_cast<std::uint64_t>(double{value}));
      }
      return constant(width, operand.bits);
    case Kind::real64:
      if (type == Type::f32 || type == Type::b32) {
        const double value = std::bit_cast<double>(operand.bits);
        return constant(width, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
      }
      return constant(width, operand.bits);
    default: return fail("expected a register or a constant");
  }
}

Result<Ref> Decoder::source(const ptx::Operand& operand, Type type) {
  STITCH_ASSIGN(const Ref ref, loose_source(operand, type));
  if (ref.kind == Ref::Kind::reg && width_of(ref) != register_width(type)) {
    return fail(fmt::format("'{}' is {} bits wide, the instruction takes {}", operand.name, width_bits(width_of(ref)),
                            width_bits(register_width(type))));
  }
  return ref;
}

Result<Ref> Decoder::predicate(const ptx::Operand& operand) {
  STITCH_ASSIGN(const Ref ref, source(operand, Type::pred));
  if (!operand.inverted) return ref;
  const Ref inverse = temporary(Width::predicate);
  STITCH_TRY(emit_lane("not.pred", inverse, ref));
  return inverse;
}

Result<Ref> Decoder::loose_destination(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::name) return fail("expected a destination register");
  if (operand.name == "_") return Ref{};
  const auto found = find_register(operand.name, statement_->scope);
  if (!found) return fail(fmt::format("'{}' is not a declared register", operand.name));
  return Ref{Ref::Kind::reg, *found};
}

Result<Ref> Decoder::named_destination(std::string_view name, Width width) {
  if (name == "_") return temporary(width);
  const auto found = find_register(name, statement_->scope);
  if (!found) return fail(fmt::format("'{}' is not a declared register", name));
  if (draft_.registers[*found].width != width) {
    return fail(fmt::format("'{}' is {} bits wide, the instruction gives {}", name,
                            width_bits(draft_.registers[*found].width), width_bits(width)));
  }
  return Ref{Ref::Kind::reg, *found};
}

Result<Ref> Decoder::destination(const ptx::Operand& operand, Width width) {
  if (operand.kind != ptx::Operand::Kind::name) return fail("expected a destination register");
  return named_destination(operand.name, width);
}

Result<std::uint64_t> Decoder::immediate(const ptx::Operand& operand) const {
  if (operand.kind != ptx::Operand::Kind::integer) return fail("expected an integer constant");
  return operand.bits;
}

}  // namespace stitch::emulator
