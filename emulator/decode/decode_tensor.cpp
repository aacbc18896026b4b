#include <algorithm>

#include "emulator/decode/decoder.h"

/// Copies of tiles by tensor maps, and instructions that make such maps.
namespace stitch::emulator {

/// [map, {coordinates}] into `draft.b` and the list from 1 on.
Status Decoder::tensor_address(const ptx::Operand& operand, std::uint8_t rank, InstructionDraft& draft) {
  if (operand.kind != ptx::Operand::Kind::address || operand.elements.size() != 1) {
    return fail("expected a tensor map and coordinates in brackets");
  }
  ptx::Operand map = operand;
  map.elements.clear();
  STITCH_ASSIGN(draft.b, address_register(map, Space::generic));
  const ptx::Operand& list = operand.elements[0];
  const std::span<const ptx::Operand> coordinates =
      list.kind == ptx::Operand::Kind::vector ? std::span(list.elements) : std::span(&list, 1);
  if (coordinates.size() != rank) {
    return fail(fmt::format("{} coordinates of a tensor of {} dimensions", coordinates.size(), rank));
  }
  for (const ptx::Operand& coordinate : coordinates) {
    STITCH_ASSIGN(const Ref ref, source(coordinate, Type::s32));
    draft.list.push_back(ref);
  }
  return {};
}

/// cp[.reduce].async.bulk.tensor.dim.dst.src[.tile]…: to shared memory [to], [map, {…}], [mbarrier][, mask]; to global
/// memory [map, {…}], [from].
Status Decoder::tensor_copy(bool reduces) {
  BulkAccess access;
  access.reduces = reduces;
  const std::string_view dimensions = modifiers_.take_any({"1d", "2d", "3d", "4d", "5d"});
  if (dimensions.empty()) return fail("cp.async.bulk.tensor needs its number of dimensions");
  access.tensor_rank = dimensions[0] - '0';
  const std::string_view to = modifiers_.take_front();
  const std::string_view from = modifiers_.take_front();
  modifiers_.take("tile");
  const bool by_mbarrier = modifiers_.take("mbarrier::complete_tx::bytes");
  const bool by_group = modifiers_.take("bulk_group");
  const std::string_view group = modifiers_.take_any({"cta_group::1", "cta_group::2"});
  access.paired = group == "cta_group::2";
  access.multicast = modifiers_.take("multicast::cluster");
  take_cache_hints();
  const bool loads = from == "global" && to.starts_with("shared::");
  if (!loads && !(from == "shared::cta" && to == "global")) {
    return unsupported(fmt::format("a tensor copy from {} to {}", from, to));
  }
  if (!group.empty() && !loads) return fail("copies from shared memory have no .cta_group");
  access.kind = loads ? BulkKind::global_to_shared : BulkKind::shared_to_global;
  if (by_group == loads || by_mbarrier == by_group) {
    return fail("tensor copies to global memory complete by bulk_group, to shared memory by an mbarrier");
  }
  if (reduces) STITCH_TRY(reduction_operation(access));
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(loads ? expect_operands(3, 5) : expect_operands(2, 3));
  InstructionDraft parts;
  Ref mask = constant(Width::b16, 0);
  if (access.multicast) {
    if (operand_count() < 4) return fail("a multicast needs a block mask");
    STITCH_ASSIGN(mask, source(operand(3), Type::u16));
  }
  parts.list = {mask};
  STITCH_TRY(tensor_address(operand(loads ? 1 : 0), access.tensor_rank, parts));
  STITCH_ASSIGN(const Ref shared,
                address_register(operand(loads ? 0 : 1), loads ? Space::shared_cluster : Space::shared));
  Ref barrier;
  if (loads) {
    STITCH_ASSIGN(barrier, address_register(operand(2), Space::shared_cluster));
  }
  InstructionDraft& draft = emit(Opcode::tensor_copy, InstructionClass::async_copy);
  draft.a = shared;
  draft.b = parts.b;
  draft.e = barrier;
  draft.list = std::move(parts.list);
  draft.instruction.detail = append(code_.bulks, access);
  return {};
}

/// tensormap.replace.tile.field[.space].b1024.type [map][, ordinal], value; tensormap.cp_fenceproxy… [to], [from], 128.
Status Decoder::tensor_map() {
  if (modifiers_.take("cp_fenceproxy")) {
    for (const std::string_view part : {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"}) {
      modifiers_.take(part);
    }
    modifiers_.take_any({"cta", "cluster", "gpu", "sys"});
    STITCH_TRY(finish(3));
    STITCH_ASSIGN(const std::uint64_t size, immediate(operand(2)));
    if (size != 128) return fail("tensormap.cp_fenceproxy copies 128 bytes");
    STITCH_ASSIGN(const Ref to, address_register(operand(0), Space::global));
    STITCH_ASSIGN(const Ref from, address_register(operand(1), Space::shared));
    InstructionDraft& draft = emit(Opcode::tensor_map_copy, InstructionClass::async_copy);
    draft.a = to;
    draft.b = from;
    return {};
  }
  if (!modifiers_.take("replace") || !modifiers_.take("tile")) {
    return unsupported(fmt::format("instruction '{}'", statement_->opcode));
  }
  struct Row {
    std::string_view name;
    TensorMapField field;
    bool has_ordinal;
  };
  constexpr Row rows[] = {{"global_address", TensorMapField::global_address, false},
                          {"rank", TensorMapField::rank, false},
                          {"box_dim", TensorMapField::box, true},
                          {"global_dim", TensorMapField::size, true},
                          {"global_stride", TensorMapField::stride, true},
                          {"element_stride", TensorMapField::element_stride, true},
                          {"elemtype", TensorMapField::type, false},
                          {"interleave_layout", TensorMapField::interleave, false},
                          {"swizzle_mode", TensorMapField::swizzle, false},
                          {"swizzle_atomicity", TensorMapField::atomicity, false},
                          {"fill_mode", TensorMapField::fill, false}};
  const auto row = std::ranges::find_if(rows, [this](const Row& candidate) { return modifiers_.take(candidate.name); });
  if (row == std::end(rows)) return unsupported("this field of a tensor map");
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  modifiers_.take("b1024");
  STITCH_ASSIGN(const Type type, last_type("tensormap.replace"));
  STITCH_TRY(finish(row->has_ordinal ? 3 : 2));
  STITCH_ASSIGN(const Ref at, address_register(operand(0), space));
  std::uint64_t ordinal = 0;
  if (row->has_ordinal) {
    STITCH_ASSIGN(ordinal, immediate(operand(1)));
    if (ordinal > 4) return fail("a tensor map has dimensions 0 to 4");
  }
  STITCH_ASSIGN(const Ref value, source(statement_->operands.back(), bits(type) == 64 ? Type::b64 : Type::b32));
  InstructionDraft& draft = emit(Opcode::tensor_map_replace, InstructionClass::integer);
  draft.a = at;
  draft.b = value;
  draft.instruction.immediate = ordinal;
  draft.instruction.set_form(row->field);
  draft.instruction.uniform = bits(type) == 64;
  draft.instruction.set_detail(space);
  return {};
}

}  // namespace stitch::emulator
