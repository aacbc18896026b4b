#include <algorithm>
#include <charconv>

#include "emulator/decode/decoder.h"

/// tcgen05: tensor memory, and the products that are formed there.
namespace stitch::emulator {
namespace {

/// Registers of a thread for .x1 of a shape.
std::uint32_t least_registers(TmemShape shape) {
  return shape == TmemShape::lanes16x128b ? 2 : shape == TmemShape::lanes16x256b ? 4 : 1;
}

struct KindRow {
  std::string_view name;
  ProductKind kind;
};
constexpr KindRow kinds[] = {{"kind::f16", ProductKind::f16},           {"kind::tf32", ProductKind::tf32},
                             {"kind::f8f6f4", ProductKind::f8f6f4},     {"kind::i8", ProductKind::i8},
                             {"kind::mxf8f6f4", ProductKind::mxf8f6f4}, {"kind::mxf4", ProductKind::mxf4},
                             {"kind::mxf4nvf4", ProductKind::mxf4nvf4}};

}  // namespace

/// tcgen05.{alloc, dealloc, relinquish_alloc_permit, ld, st, wait, fence, cp, shift, commit, mma}.
Status Decoder::tensor_core() {
  const std::string_view action = modifiers_.take_front();
  if (action == "alloc") return tmem_allocation(TmemAllocation::allocate);
  if (action == "dealloc") return tmem_allocation(TmemAllocation::free);
  if (action == "relinquish_alloc_permit") return tmem_allocation(TmemAllocation::relinquish);
  if (action == "ld" || action == "st") return tmem_move(action == "ld");
  if (action == "commit") return tmem_commit();
  if (action == "cp") return tmem_copy();
  if (action == "mma") return tmem_product();
  const bool waits = action == "wait::ld" || action == "wait::st";
  if (waits || action == "fence::before_thread_sync" || action == "fence::after_thread_sync") {
    modifiers_.take("sync");
    modifiers_.take("aligned");
    STITCH_TRY(finish(0));
    InstructionDraft& draft = emit(waits ? Opcode::tmem_wait : Opcode::tmem_fence, InstructionClass::barrier);
    draft.instruction.form = action.ends_with("st") || action == "fence::after_thread_sync" ? 1 : 0;
    append(code_.tensor_cores, TensorCoreForm{});
    return {};
  }
  if (action != "shift") return unsupported(fmt::format("instruction '{}'", statement_->opcode));
  STITCH_ASSIGN(const TensorCoreForm form, take_blocks());
  if (!modifiers_.take("down")) return fail("tcgen05.shift shifts down");
  STITCH_TRY(finish(1));
  STITCH_ASSIGN(const Ref at, address_register(operand(0), Space::generic));
  InstructionDraft& draft = emit(Opcode::tmem_shift, InstructionClass::tensor);
  draft.a = at;
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

/// .cta_group, which all instructions of a kernel agree on.
Result<TensorCoreForm> Decoder::take_blocks() {
  TensorCoreForm form;
  const std::string_view group = modifiers_.take_any({"cta_group::1", "cta_group::2"});
  if (group.empty()) return fail("tcgen05 needs its .cta_group");
  form.blocks = group == "cta_group::2" ? 2 : 1;
  if (tensor_blocks_ == 0) tensor_blocks_ = form.blocks;
  if (tensor_blocks_ != form.blocks) {
    return fail(fmt::format("tcgen05 with .{} after one with .cta_group::{}", group, tensor_blocks_));
  }
  return form;
}

/// alloc.cta_group.sync.aligned[.shared::cta].b32 [shared], columns; dealloc.cta_group.sync.aligned.b32 at, columns;
/// relinquish_alloc_permit.cta_group.sync.aligned.
Status Decoder::tmem_allocation(TmemAllocation action) {
  STITCH_ASSIGN(const TensorCoreForm form, take_blocks());
  modifiers_.take("sync");
  modifiers_.take("aligned");
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  modifiers_.take("b32");
  const bool releases = action == TmemAllocation::relinquish;
  STITCH_TRY(finish(releases ? 0 : 2));
  Ref at;
  Ref columns;
  if (action == TmemAllocation::allocate) {
    STITCH_ASSIGN(at, address_register(operand(0), space));
  } else if (!releases) {
    STITCH_ASSIGN(at, source(operand(0), Type::b32));
  }
  if (!releases) {
    STITCH_ASSIGN(columns, source(operand(1), Type::u32));
  }
  InstructionDraft& draft = emit(Opcode::tmem_allocation, InstructionClass::tensor);
  draft.a = at;
  draft.b = columns;
  draft.instruction.set_form(action);
  draft.instruction.immediate = static_cast<std::uint64_t>(space);
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

/// ld.sync.aligned.shape.num[.pack::16b].b32 registers, [at][, half split]; st[.unpack::16b] [at][, half split],
/// registers.
Status Decoder::tmem_move(bool loads) {
  struct Row {
    std::string_view name;
    TmemShape shape;
  };
  constexpr Row rows[] = {{"32x32b", TmemShape::lanes32x32b},
                          {"16x64b", TmemShape::lanes16x64b},
                          {"16x128b", TmemShape::lanes16x128b},
                          {"16x256b", TmemShape::lanes16x256b},
                          {"16x32bx2", TmemShape::lanes16x32bx2}};
  modifiers_.take("sync");
  modifiers_.take("aligned");
  const auto row = std::ranges::find_if(rows, [this](const Row& candidate) { return modifiers_.take(candidate.name); });
  const std::string_view repeats = modifiers_.take_any({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  if (row == std::end(rows) || repeats.empty()) return unsupported("this shape of tcgen05.ld and .st");
  TensorCoreForm form;
  form.shape = row->shape;
  std::uint32_t times = 0;
  std::from_chars(repeats.data() + 1, repeats.data() + repeats.size(), times);
  const std::uint32_t registers = times * least_registers(form.shape);
  if (registers > 128)
    return fail(fmt::format("tcgen05.{}.{} moves at most 128 registers", loads ? "ld" : "st", row->name));
  form.registers = registers;
  form.packs = modifiers_.take(loads ? "pack::16b" : "unpack::16b");
  modifiers_.take("b32");
  const bool split = form.shape == TmemShape::lanes16x32bx2;
  STITCH_TRY(finish(split ? 3 : 2));
  const std::size_t address_at = loads ? 1 : 0;
  if (split) {
    STITCH_ASSIGN(const std::uint64_t distance, immediate(operand(address_at + 1)));
    form.half_split = static_cast<std::uint32_t>(distance);
  }
  STITCH_ASSIGN(const Ref at, address_register(operand(address_at), Space::generic));
  InstructionDraft list;
  MemoryAccess shape;
  shape.elements = registers;
  STITCH_TRY(vector_list(list, operand(loads ? 0 : operand_count() - 1), shape, Type::b32, loads));
  InstructionDraft& draft = emit(loads ? Opcode::tmem_load : Opcode::tmem_store, InstructionClass::tensor);
  draft.a = at;
  draft.list = std::move(list.list);
  draft.list_defines = list.list_defines;
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

/// commit.cta_group.mbarrier::arrive::one[.shared::cluster][.multicast::cluster].b64 [mbarrier][, block mask].
Status Decoder::tmem_commit() {
  STITCH_ASSIGN(TensorCoreForm form, take_blocks());
  if (!modifiers_.take("mbarrier::arrive::one")) return fail("tcgen05.commit completes by .mbarrier::arrive::one");
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  form.multicast = modifiers_.take("multicast::cluster");
  modifiers_.take("b64");
  STITCH_TRY(finish(form.multicast ? 2 : 1));
  STITCH_ASSIGN(const Ref at, address_register(operand(0), space));
  Ref mask;
  if (form.multicast) {
    STITCH_ASSIGN(mask, source(operand(1), Type::u16));
  }
  InstructionDraft& draft = emit(Opcode::tmem_commit, InstructionClass::barrier);
  draft.a = at;
  draft.b = mask;
  draft.instruction.set_form(space);
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

/// cp.cta_group.shape[.multicast][.b8x16.source] [at], descriptor.
Status Decoder::tmem_copy() {
  struct Row {
    std::string_view name;
    std::uint16_t rows;
    std::uint16_t bits;
  };
  constexpr Row rows[] = {
      {"128x256b", 128, 256}, {"4x256b", 4, 256}, {"128x128b", 128, 128}, {"64x128b", 64, 128}, {"32x128b", 32, 128}};
  STITCH_ASSIGN(TensorCoreForm form, take_blocks());
  const auto row = std::ranges::find_if(rows, [this](const Row& candidate) { return modifiers_.take(candidate.name); });
  if (row == std::end(rows)) return unsupported("this shape of tcgen05.cp");
  form.rows = row->rows;
  form.row_bits = row->bits;
  if (modifiers_.take("warpx2::02_13")) form.broadcast = TmemBroadcast::pairs_02_13;
  if (modifiers_.take("warpx2::01_23")) form.broadcast = TmemBroadcast::pairs_01_23;
  if (modifiers_.take("warpx4")) form.broadcast = TmemBroadcast::all;
  const bool pairs = form.broadcast == TmemBroadcast::pairs_02_13 || form.broadcast == TmemBroadcast::pairs_01_23;
  if (pairs != (form.rows == 64) || (form.broadcast == TmemBroadcast::all) != (form.rows == 32)) {
    return fail("tcgen05.cp writes 64 rows by .warpx2, 32 rows by .warpx4, and others without");
  }
  if (modifiers_.take("b8x16")) {
    if (modifiers_.take("b6x16_p32")) form.widening = TmemWidening::from_6_bits;
    if (modifiers_.take("b4x16_p64")) form.widening = TmemWidening::from_4_bits;
    if (form.widening == TmemWidening::none) return fail("tcgen05.cp to .b8x16 needs .b6x16_p32 or .b4x16_p64");
    return unsupported("tcgen05.cp that widens elements (where they lie in their byte is said in a figure only)");
  }
  STITCH_TRY(finish(2));
  STITCH_ASSIGN(const Ref at, address_register(operand(0), Space::generic));
  STITCH_ASSIGN(const Ref from, source(operand(1), Type::b64));
  InstructionDraft& draft = emit(Opcode::tmem_copy, InstructionClass::tensor);
  draft.a = at;
  draft.b = from;
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

Status Decoder::product_modifiers(TensorCoreForm& form) {
  form.weight_stationary = modifiers_.take("ws");
  form.sparse = modifiers_.take("sp");
  const auto row =
      std::ranges::find_if(kinds, [this](const KindRow& candidate) { return modifiers_.take(candidate.name); });
  if (row == std::end(kinds)) return fail("tcgen05.mma needs its .kind");
  form.kind = row->kind;
  // Permission to keep an operand in a buffer changes nothing that can be seen.
  modifiers_.drop_prefix("collector::");
  if (modifiers_.take("ashift")) return unsupported("tcgen05.mma.ashift");
  if (modifiers_.take("block_scale") != scales_blocks(form.kind)) {
    return fail("tcgen05.mma has .block_scale for .kind::mxf8f6f4, mxf4 and mxf4nvf4, and for no other");
  }
  if (!scales_blocks(form.kind)) return finish_modifiers();
  const bool eight = form.kind == ProductKind::mxf8f6f4;
  form.scales = eight ? 1 : 2;
  if (modifiers_.take("scale_vec::1X")) form.scales = 1;
  if (modifiers_.take("scale_vec::2X")) form.scales = 2;
  if (modifiers_.take("scale_vec::4X") || modifiers_.take("block16")) form.scales = 4;
  modifiers_.take("block32");
  const bool fits =
      eight ? form.scales == 1 : form.scales == 2 || (form.scales == 4 && form.kind == ProductKind::mxf4nvf4);
  if (!fits) return fail("this .kind of tcgen05.mma has no such scale vectors");
  if (form.weight_stationary) return fail("tcgen05.mma.ws scales no blocks");
  return finish_modifiers();
}

/// mma[.ws][.sp].cta_group.kind… [d], a, b, [metadata,] idesc, [{disabled lanes},] enable-input-d[, scale-input-d]
/// or, block-scaled, [d], a, b, [metadata,] idesc, [scale-A], [scale-B], enable-input-d; .ws has the descriptor of a
/// mask of zero columns last. a: a descriptor or [tensor memory].
Status Decoder::tmem_product() {
  STITCH_ASSIGN(TensorCoreForm form, take_blocks());
  STITCH_TRY(product_modifiers(form));
  STITCH_TRY(expect_operands(5, 9));
  form.a_in_tmem = operand(1).kind == ptx::Operand::Kind::address;
  STITCH_ASSIGN(const Ref d, address_register(operand(0), Space::generic));
  Ref a;
  if (form.a_in_tmem) {
    STITCH_ASSIGN(a, address_register(operand(1), Space::generic));
  } else {
    STITCH_ASSIGN(a, source(operand(1), Type::b64));
  }
  STITCH_ASSIGN(const Ref b, source(operand(2), Type::b64));
  std::size_t next = 3;
  std::vector<Ref> list;
  Ref metadata;
  if (form.sparse) {
    STITCH_ASSIGN(metadata, address_register(operand(next++), Space::generic));
  }
  STITCH_ASSIGN(const Ref shape, source(operand(next++), Type::b32));
  list.push_back(shape);
  if (form.sparse) list.push_back(metadata);
  if (scales_blocks(form.kind)) {
    for (int i = 0; i < 2 && next < operand_count(); ++i) {
      STITCH_ASSIGN(const Ref scale, address_register(operand(next++), Space::generic));
      list.push_back(scale);
    }
  } else if (next < operand_count() && operand(next).kind == ptx::Operand::Kind::vector) {
    const ptx::Operand& lanes = operand(next++);
    if (lanes.elements.size() != 4U * form.blocks) {
      return fail(fmt::format("disable-output-lane has {} registers for this .cta_group", 4 * form.blocks));
    }
    for (const ptx::Operand& word : lanes.elements) {
      STITCH_ASSIGN(const Ref ref, source(word, Type::b32));
      list.push_back(ref);
    }
    form.disable_words = static_cast<std::uint8_t>(lanes.elements.size());
  }
  if (next >= operand_count()) return fail("tcgen05.mma needs enable-input-d");
  const ptx::Operand& adds = operand(next++);
  STITCH_ASSIGN(const Ref enable, adds.kind == ptx::Operand::Kind::integer
                                      ? Result<Ref>(constant(Width::predicate, adds.bits != 0 ? 1 : 0))
                                      : predicate(adds));
  std::uint64_t scale = 0;
  if (next < operand_count() && form.weight_stationary) {
    return unsupported("tcgen05.mma.ws with a mask of zero columns (its layout is not published)");
  }
  if (next < operand_count()) {
    STITCH_ASSIGN(scale, immediate(operand(next++)));
    if (scale > 15 || (form.kind != ProductKind::f16 && form.kind != ProductKind::tf32)) {
      return fail("scale-input-d is 0 to 15, of .kind::f16 and .kind::tf32");
    }
  }
  STITCH_TRY(expect_operands(next));
  InstructionDraft& draft = emit(Opcode::tmem_product, InstructionClass::tensor);
  draft.a = a;
  draft.b = b;
  draft.c = enable;
  draft.e = d;
  draft.list = std::move(list);
  draft.instruction.immediate = scale;
  draft.instruction.detail = append(code_.tensor_cores, form);
  return {};
}

}  // namespace stitch::emulator
