#include "emulator/decode/decoder.h"

namespace stitch::emulator {
namespace {

InstructionClass load_class(Space space) {
  switch (space) {
    case Space::shared:
    case Space::shared_cluster: return InstructionClass::shared_load;
    case Space::local: return InstructionClass::local_load;
    case Space::constant:
    case Space::parameter:
    case Space::frame: return InstructionClass::move;
    default: return InstructionClass::global_load;
  }
}

InstructionClass store_class(Space space) {
  switch (space) {
    case Space::shared:
    case Space::shared_cluster: return InstructionClass::shared_store;
    case Space::local: return InstructionClass::local_store;
    case Space::frame: return InstructionClass::move;
    default: return InstructionClass::global_store;
  }
}

std::optional<AtomicType> atomic_type(Type type) {
  switch (type) {
    case Type::u32: return AtomicType::u32;
    case Type::s32: return AtomicType::s32;
    case Type::u64: return AtomicType::u64;
    case Type::s64: return AtomicType::s64;
    case Type::f32: return AtomicType::f32;
    case Type::f64: return AtomicType::f64;
    case Type::f16: return AtomicType::f16;
    case Type::bf16: return AtomicType::bf16;
    case Type::f16x2: return AtomicType::f16x2;
    case Type::bf16x2: return AtomicType::bf16x2;
    case Type::b16: return AtomicType::b16;
    case Type::b32: return AtomicType::b32;
    case Type::b64: return AtomicType::b64;
    case Type::b128: return AtomicType::b128;
    default: return std::nullopt;
  }
}

std::optional<AtomicOperation> take_operation(Modifiers& modifiers) {
  struct Row {
    std::string_view name;
    AtomicOperation operation;
  };
  constexpr Row rows[] = {{"add", AtomicOperation::add},       {"min", AtomicOperation::min},
                          {"max", AtomicOperation::max},       {"and", AtomicOperation::bit_and},
                          {"or", AtomicOperation::bit_or},     {"xor", AtomicOperation::bit_xor},
                          {"exch", AtomicOperation::exchange}, {"cas", AtomicOperation::compare_swap},
                          {"inc", AtomicOperation::increment}, {"dec", AtomicOperation::decrement}};
  for (const Row& row : rows) {
    if (modifiers.take(row.name)) return row.operation;
  }
  return std::nullopt;
}

}  // namespace

/// What one lane may move at once: no predicates, and as much as the interpreter sets aside.
Status Decoder::check_moved(Type type, int elements) const {
  constexpr int most_bytes = 32;
  if (type == Type::pred) return fail("predicates have no place in memory");
  if (bytes(type) * elements <= most_bytes) return {};
  return fail(fmt::format("an access of {} bytes, at most {} are possible", bytes(type) * elements, most_bytes));
}

/// The registers of a (vector) access; all have one width.
Result<Ref> Decoder::vector_list(InstructionDraft& draft, const ptx::Operand& operand, const MemoryAccess& access,
                                 Type type, bool defines) {
  const std::span<const ptx::Operand> elements =
      operand.kind == ptx::Operand::Kind::vector ? std::span(operand.elements) : std::span(&operand, 1);
  if (elements.size() != access.elements) {
    return fail(fmt::format("expected {} registers, not {}", access.elements, elements.size()));
  }
  Width width = Width::none;
  for (const ptx::Operand& element : elements) {
    STITCH_ASSIGN(Ref ref, defines ? loose_destination(element) : loose_source(element, type));
    if (ref.kind == Ref::Kind::reg) {
      if (width_of(ref) == Width::predicate || (width != Width::none && width_of(ref) != width)) {
        return fail(fmt::format("'{}' does not fit the access", element.name));
      }
      width = width_of(ref);
    }
    draft.list.push_back(ref);
  }
  if (width == Width::none) width = register_width(type);
  if (static_cast<int>(row_bytes(width)) < bits(type) / 8 * warp_lanes)
    return fail("a register is narrower than the access");
  for (Ref& ref : draft.list) {
    if (!ref.exists()) ref = temporary(width);
  }
  if (defines) draft.list_defines = draft.list.size();
  return Ref{Ref::Kind::none, static_cast<std::uint32_t>(width)};
}

Status Decoder::load() {
  MemoryAccess access;
  access.read_only = modifiers_.root() == "ldu" || modifiers_.take("nc");
  STITCH_ASSIGN(access.space, take_space(Space::generic));
  STITCH_TRY(take_semantics(access.semantics, access.scope, Semantics::weak));
  access.l1 = take_cache_hints();
  modifiers_.take("unified");
  access.elements = take_elements();
  STITCH_ASSIGN(const Type type, last_type("ld"));
  STITCH_TRY(check_moved(type, access.elements));
  STITCH_TRY(finish(2, 3));
  access.element_bytes = bytes(type);
  access.sign_extend = is_signed(type);
  STITCH_ASSIGN(const Address from, address(operand(1), access.space));
  access.space = from.space;
  InstructionDraft draft;
  STITCH_ASSIGN(const Ref width, vector_list(draft, operand(0), access, type, true));
  access.register_width = static_cast<Width>(width.index);
  InstructionDraft& emitted = emit(Opcode::load, load_class(access.space));
  emitted.list = std::move(draft.list);
  emitted.list_defines = draft.list_defines;
  emitted.a = from.base;
  emitted.instruction.form = address_bytes(from.base);
  emitted.instruction.immediate = from.offset;
  emitted.instruction.detail = append(code_.accesses, access);
  return {};
}

Status Decoder::store() {
  if (modifiers_.take("async")) return store_async();
  MemoryAccess access;
  STITCH_ASSIGN(access.space, take_space(Space::generic));
  STITCH_TRY(take_semantics(access.semantics, access.scope, Semantics::weak));
  take_cache_hints();
  access.elements = take_elements();
  STITCH_ASSIGN(const Type type, last_type("st"));
  STITCH_TRY(check_moved(type, access.elements));
  STITCH_TRY(finish(2, 3));
  access.element_bytes = bytes(type);
  STITCH_ASSIGN(const Address to, address(operand(0), access.space));
  access.space = to.space;
  if (access.space == Space::parameter || access.space == Space::constant) return fail("this space is read-only");
  InstructionDraft draft;
  STITCH_ASSIGN(const Ref width, vector_list(draft, operand(1), access, type, false));
  access.register_width = static_cast<Width>(width.index);
  InstructionDraft& emitted = emit(Opcode::store, store_class(access.space));
  emitted.list = std::move(draft.list);
  emitted.a = to.base;
  emitted.instruction.form = address_bytes(to.base);
  emitted.instruction.immediate = to.offset;
  emitted.instruction.detail = append(code_.accesses, access);
  return {};
}

/// atom[.sem][.scope][.space].op[.noftz][.vector].type d, [a], b[, c]; red has no d.
Status Decoder::atomic() {
  AtomicAccess access;
  access.returns = modifiers_.root() == "atom";
  if (modifiers_.take("async")) return unsupported("red.async");
  STITCH_ASSIGN(access.space, take_space(Space::generic));
  STITCH_TRY(take_semantics(access.semantics, access.scope, Semantics::relaxed));
  modifiers_.take("noftz");
  take_cache_hints();
  access.elements = take_elements();
  const auto type = modifiers_.take_last_type();
  const auto operation = take_operation(modifiers_);
  if (!type || !operation) return fail("the atomic needs an operation and a type");
  STITCH_TRY(check_moved(*type, access.elements));
  STITCH_TRY(finish_modifiers());
  const auto element = atomic_type(*type);
  if (!element) return unsupported(fmt::format("an atomic of type {}", to_string(*type)));
  access.operation = *operation;
  access.type = *element;
  access.element_bytes = bytes(*type);
  const std::size_t first = access.returns ? 1 : 0;
  const bool swaps = *operation == AtomicOperation::compare_swap;
  STITCH_TRY(expect_operands(first + (swaps ? 3 : 2), first + (swaps ? 4 : 3)));
  STITCH_ASSIGN(const Address at, address(operand(first), access.space));
  access.space = at.space;
  MemoryAccess shape;
  shape.elements = access.elements;
  InstructionDraft results;
  if (access.returns) STITCH_TRY(vector_list(results, operand(0), shape, *type, true));
  InstructionDraft values;
  STITCH_TRY(vector_list(values, operand(first + 1), shape, *type, false));
  Ref replacement;
  if (swaps) {
    STITCH_ASSIGN(replacement, source(operand(first + 2), *type));
  }
  InstructionDraft& emitted = emit(Opcode::atomic, InstructionClass::atomic);
  emitted.a = at.base;
  emitted.instruction.form = address_bytes(at.base);
  emitted.b = replacement;
  emitted.instruction.immediate = at.offset;
  emitted.list = std::move(results.list);
  emitted.list_defines = emitted.list.size();
  emitted.list.insert(emitted.list.end(), values.list.begin(), values.list.end());
  emitted.instruction.detail = append(code_.atomics, access);
  return {};
}

/// cvta[.to].space.size d, a.
Status Decoder::convert_address() {
  const bool to_space = modifiers_.take("to");
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  const auto type = modifiers_.take_last_type();
  if (!type || space == Space::generic) return fail("cvta needs a space and a size");
  STITCH_ASSIGN(const OperandRefs refs, operands(*type, {*type}));
  const Width width = register_width(*type);
  // Global and constant addresses are generic ones.
  if (space == Space::global || space == Space::constant)
    return emit_lane(width == Width::b64 ? "mov.b64" : "mov.b32", refs);
  if (width != Width::b64) return unsupported("cvta of 32-bit addresses");
  const Opcode opcode = to_space ? Opcode::from_generic : Opcode::to_generic;
  emit(opcode, InstructionClass::move, refs).instruction.set_form(space);
  return {};
}

Status Decoder::is_space() {
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  STITCH_ASSIGN(const OperandRefs refs, operands(Type::pred, {Type::u64}));
  emit(Opcode::is_space, InstructionClass::integer, refs).instruction.set_form(space);
  return {};
}

/// mapa[.shared::cluster].type d, a, rank; getctarank[.shared::cluster].type d, a.
Status Decoder::map_shared() {
  const bool rank = modifiers_.root() == "getctarank";
  const bool shared = modifiers_.take("shared::cluster");
  STITCH_ASSIGN(const Type type, last_type());
  const Type sources[] = {type, Type::u32};
  STITCH_ASSIGN(const OperandRefs refs, operands(rank ? Type::b32 : type, std::span(sources).first(rank ? 1 : 2)));
  InstructionDraft& draft = emit(rank ? Opcode::block_rank : Opcode::map_shared, InstructionClass::integer, refs);
  draft.instruction.form = shared ? 1 : 0;
  draft.instruction.immediate = register_width(type) == Width::b64 ? 8 : 4;
  return {};
}

/// griddepcontrol.wait orders accesses; .launch_dependents only lets others begin.
Status Decoder::grid_dependency() {
  const bool waits = modifiers_.take("wait");
  if (!waits && !modifiers_.take("launch_dependents")) return fail("griddepcontrol needs wait or launch_dependents");
  STITCH_TRY(finish_modifiers());
  emit(waits ? Opcode::grid_wait : Opcode::nothing, InstructionClass::control);
  return {};
}

/// Instructions that only advise: they execute as nothing. createpolicy leaves a defined value in its register.
Status Decoder::hint() {
  if (modifiers_.root() == "createpolicy") {
    STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b64));
    return emit_lane("mov.b64", d, constant(Width::b64, 0));
  }
  emit(Opcode::nothing, InstructionClass::control);
  return {};
}

}  // namespace stitch::emulator
