#include <algorithm>
#include <array>
#include <bit>

#include "emulator/decode/decoder.h"
#include "emulator/lanes/lane_ops.h"

namespace stitch::emulator {
namespace {

struct SpecialName {
  std::string_view name;
  SpecialRegister reg;
  Width width;
};

using R = SpecialRegister;
constexpr std::array special_names = std::to_array<SpecialName>({
    {"%tid.x", R::tid_x, Width::b32},
    {"%tid.y", R::tid_y, Width::b32},
    {"%tid.z", R::tid_z, Width::b32},
    {"%ntid.x", R::ntid_x, Width::b32},
    {"%ntid.y", R::ntid_y, Width::b32},
    {"%ntid.z", R::ntid_z, Width::b32},
    {"%ctaid.x", R::ctaid_x, Width::b32},
    {"%ctaid.y", R::ctaid_y, Width::b32},
    {"%ctaid.z", R::ctaid_z, Width::b32},
    {"%nctaid.x", R::nctaid_x, Width::b32},
    {"%nctaid.y", R::nctaid_y, Width::b32},
    {"%nctaid.z", R::nctaid_z, Width::b32},
    {"%laneid", R::laneid, Width::b32},
    {"%warpid", R::warpid, Width::b32},
    {"%nwarpid", R::nwarpid, Width::b32},
    {"%smid", R::smid, Width::b32},
    {"%nsmid", R::nsmid, Width::b32},
    {"%gridid", R::gridid, Width::b64},
    {"%clusterid.x", R::clusterid_x, Width::b32},
    {"%clusterid.y", R::clusterid_y, Width::b32},
    {"%clusterid.z", R::clusterid_z, Width::b32},
    {"%nclusterid.x", R::nclusterid_x, Width::b32},
    {"%nclusterid.y", R::nclusterid_y, Width::b32},
    {"%nclusterid.z", R::nclusterid_z, Width::b32},
    {"%cluster_ctaid.x", R::cluster_ctaid_x, Width::b32},
    {"%cluster_ctaid.y", R::cluster_ctaid_y, Width::b32},
    {"%cluster_ctaid.z", R::cluster_ctaid_z, Width::b32},
    {"%cluster_nctaid.x", R::cluster_nctaid_x, Width::b32},
    {"%cluster_nctaid.y", R::cluster_nctaid_y, Width::b32},
    {"%cluster_nctaid.z", R::cluster_nctaid_z, Width::b32},
    {"%cluster_ctarank", R::cluster_ctarank, Width::b32},
    {"%cluster_nctarank", R::cluster_nctarank, Width::b32},
    {"%is_explicit_cluster", R::is_explicit_cluster, Width::predicate},
    {"%lanemask_eq", R::lanemask_eq, Width::b32},
    {"%lanemask_le", R::lanemask_le, Width::b32},
    {"%lanemask_lt", R::lanemask_lt, Width::b32},
    {"%lanemask_ge", R::lanemask_ge, Width::b32},
    {"%lanemask_gt", R::lanemask_gt, Width::b32},
    {"%clock", R::clock, Width::b32},
    {"%clock_hi", R::clock_hi, Width::b32},
    {"%clock64", R::clock64, Width::b64},
    {"%globaltimer", R::globaltimer, Width::b64},
    {"%globaltimer_lo", R::globaltimer_lo, Width::b32},
    {"%globaltimer_hi", R::globaltimer_hi, Width::b32},
    {"%dynamic_smem_size", R::dynamic_smem_size, Width::b32},
    {"%total_smem_size", R::total_smem_size, Width::b32},
    {"%aggr_smem_size", R::aggr_smem_size, Width::b32},
    {"%current_graph_exec", R::current_graph_exec, Width::b64},
});

int width_bits(Width width) {
  constexpr int table[] = {0, 1, 16, 32, 64, 128};
  return table[static_cast<int>(width)];
}

std::uint64_t low_bits(std::uint64_t value, Width width) {
  const int bits = width_bits(width);
  return bits >= 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

template <class T>
void fill_row(std::vector<std::byte>& rows, std::size_t offset, const T& value) {
  for (int lane = 0; lane < warp_lanes; ++lane) {
    std::memcpy(rows.data() + offset + lane * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

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

std::uint8_t Decoder::take_elements() {
  const std::string_view vector = modifiers_.take_any({"v2", "v4", "v8"});
  return vector.empty() ? 1 : vector[1] - '0';
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

Ref Decoder::temporary(Width width) {
  const std::uint32_t index = draft_.registers.size();
  draft_.registers.push_back({width, {}});
  return {Ref::Kind::reg, index};
}

Ref Decoder::constant(Width width, std::uint64_t low, std::uint64_t high) {
  low = low_bits(low, width);
  const auto [entry, added] =
      constants_.emplace(std::tuple(width, low, high), static_cast<std::uint32_t>(code_.constants.size()));
  const std::uint32_t offset = entry->second;
  if (added) {
    code_.constants.resize(offset + (row_bytes(width) + 63) / 64 * 64);
    switch (width) {
      case Width::none: break;
      case Width::predicate: {
        const std::uint32_t mask = (low & 1) != 0 ? 0xFFFFFFFFU : 0U;
        std::memcpy(code_.constants.data() + offset, &mask, sizeof(mask));
        break;
      }
      case Width::b16: fill_row(code_.constants, offset, static_cast<std::uint16_t>(low)); break;
      case Width::b32: fill_row(code_.constants, offset, static_cast<std::uint32_t>(low)); break;
      case Width::b64: fill_row(code_.constants, offset, low); break;
      case Width::b128: fill_row(code_.constants, offset, std::array{low, high}); break;
    }
  }
  return {Ref::Kind::constant, offset};
}

Ref Decoder::address_constant(std::uint32_t variable, std::int64_t addend, Width width) {
  for (const AddressConstant& known : code_.address_constants) {
    if (known.variable == variable && known.addend == addend) return {Ref::Kind::constant, known.offset};
  }
  const std::uint32_t offset = code_.constants.size();
  code_.constants.resize(offset + row_bytes(width));
  code_.address_constants.push_back({offset, variable, addend});
  return {Ref::Kind::constant, offset};
}

Result<Ref> Decoder::special_source(std::string_view name, Type type) {
  for (const SpecialName& special : special_names) {
    if (special.name != name) continue;
    const Ref value = temporary(special.width);
    InstructionDraft& draft = emit(Opcode::special, InstructionClass::move);
    draft.instruction.set_form(special.reg);
    draft.instruction.d_width = special.width;
    draft.d = value;
    const Width wanted = register_width(type);
    if (wanted == special.width) return value;
    const Ref resized = temporary(wanted);
    STITCH_TRY(emit_resize(resized, value, false));
    return resized;
  }
  return fail(fmt::format("'{}' is not declared", name));
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
  return constant(width, place->offset + operand.offset);
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

InstructionDraft& Decoder::emit(Opcode opcode, InstructionClass kind) {
  InstructionDraft& draft = draft_.drafts.emplace_back();
  draft.instruction.opcode = opcode;
  draft.instruction.kind = kind;
  draft.instruction.counted = false;
  draft.guard = guard_;
  if (statement_ != nullptr) {
    draft.instruction.guard_inverted = statement_->guard_inverted;
    draft.scope = statement_->scope;
    draft.origin = {statement_->line, statement_->source_file, statement_->source_line};
  } else {
    draft.origin.ptx_line = function_->line;
  }
  if (opcode != Opcode::special && !counted_) draft.instruction.counted = counted_ = true;
  return draft;
}

InstructionDraft& Decoder::emit(Opcode opcode, InstructionClass kind, const OperandRefs& refs) {
  InstructionDraft& draft = emit(opcode, kind);
  draft.instruction.d_width = width_of(refs.d);
  draft.d = refs.d;
  draft.d2 = refs.d2;
  draft.a = refs.a;
  draft.b = refs.b;
  draft.c = refs.c;
  draft.e = refs.e;
  return draft;
}

Status Decoder::emit_lane(std::string_view name, Ref d, Ref a, Ref b, Ref c, Ref e) {
  const int row = find_lane_op(name);
  if (row < 0) return unsupported(fmt::format("'{}' (operation {})", statement_->opcode, name));
  const LaneOp& op = lane_ops(HostIsa::portable)[row];
  const bool was_counted = counted_;
  InstructionDraft& draft = emit(Opcode::lane, op.kind);
  // Changing a register's width is no instruction of its own.
  if (name.starts_with("resize.") && !was_counted) draft.instruction.counted = counted_ = false;
  draft.instruction.lane_op = row;
  draft.instruction.d_width = op.d;
  draft.d = d;
  draft.a = a;
  draft.b = b;
  draft.c = c;
  draft.e = e;
  return {};
}

Status Decoder::emit_resize(Ref d, Ref a, bool sign_extend) {
  const Width to = width_of(d);
  const Width from = width_of(a);
  if (to == from) {
    const char* name = to == Width::b16 ? "mov.b16" : to == Width::b32 ? "mov.b32" : "mov.b64";
    return emit_lane(name, d, a);
  }
  if (width_bits(to) < width_bits(from)) {
    return emit_lane(fmt::format("resize.b{}.b{}", width_bits(to), width_bits(from)), d, a);
  }
  return emit_lane(fmt::format("resize.b{}.{}{}", width_bits(to), sign_extend ? 's' : 'u', width_bits(from)), d, a);
}

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

}  // namespace stitch::emulator
