#include <algorithm>

#include "emulator/decode/decoder.h"

namespace stitch::emulator {

/// cp.async and what follows it: commit_group, wait_group, wait_all, mbarrier.arrive, bulk; cp.reduce.async.bulk.
Status Decoder::copy_async() {
  const bool reduces = modifiers_.take("reduce");
  if (!modifiers_.take("async")) return unsupported(fmt::format("instruction '{}'", statement_->opcode));
  if (modifiers_.take("bulk")) return bulk_copy(reduces);
  if (modifiers_.take("commit_group")) {
    STITCH_TRY(finish_modifiers());
    emit(Opcode::copy_async_commit, InstructionClass::async_copy);
    return {};
  }
  const bool all = modifiers_.take("wait_all");
  if (all || modifiers_.take("wait_group")) {
    STITCH_TRY(finish(all ? 0 : 1));
    std::uint64_t pending = 0;
    if (!all) {
      STITCH_ASSIGN(pending, immediate(operand(0)));
    }
    InstructionDraft& draft = emit(Opcode::copy_async_wait, InstructionClass::async_copy);
    draft.instruction.immediate = pending;
    draft.instruction.form = all ? 1 : 0;
    return {};
  }
  if (modifiers_.take("mbarrier")) {
    modifiers_.take("arrive");
    const bool no_increment = modifiers_.take("noinc");
    STITCH_ASSIGN(const Space space, take_space(Space::generic));
    modifiers_.take("b64");
    STITCH_TRY(finish(1));
    STITCH_ASSIGN(const Ref at, address_register(operand(0), space));
    InstructionDraft& draft = emit(Opcode::copy_async_arrive, InstructionClass::async_copy);
    draft.a = at;
    draft.instruction.form = no_increment ? 1 : 0;
    draft.instruction.set_detail(space);
    return {};
  }
  const L1Use l1 = take_cache_hints();
  modifiers_.take("shared");
  modifiers_.take("shared::cta");
  modifiers_.take("global");
  STITCH_TRY(finish(3, 5));
  STITCH_ASSIGN(const Ref to, address_register(operand(0), Space::shared));
  STITCH_ASSIGN(const Ref from, address_register(operand(1), Space::global));
  STITCH_ASSIGN(const std::uint64_t size, immediate(operand(2)));
  if (size != 4 && size != 8 && size != 16) return fail("cp.async copies 4, 8 or 16 bytes");
  // A fourth operand is the number of source bytes (the rest becomes zero), a predicate that ignores the source, or a
  // cache policy in a 64-bit register.
  Ref source_bytes;
  Ref ignore;
  for (std::size_t i = 3; i < operand_count(); ++i) {
    STITCH_ASSIGN(const Ref extra, loose_source(operand(i), Type::u32));
    const Width width = width_of(extra);
    if (width == Width::predicate) {
      STITCH_ASSIGN(ignore, predicate(operand(i)));
    } else if (width != Width::b64) {
      source_bytes = extra;
    }
  }
  InstructionDraft& draft = emit(Opcode::copy_async, InstructionClass::async_copy);
  draft.a = to;
  draft.b = from;
  draft.c = source_bytes;
  draft.e = ignore;
  draft.instruction.immediate = size;
  draft.instruction.set_detail(l1);
  return {};
}

/// .op of cp.reduce.async.bulk.
Status Decoder::reduction_operation(BulkAccess& access) {
  struct Row {
    std::string_view name;
    AtomicOperation operation;
  };
  constexpr Row rows[] = {{"add", AtomicOperation::add},       {"min", AtomicOperation::min},
                          {"max", AtomicOperation::max},       {"inc", AtomicOperation::increment},
                          {"dec", AtomicOperation::decrement}, {"and", AtomicOperation::bit_and},
                          {"or", AtomicOperation::bit_or},     {"xor", AtomicOperation::bit_xor}};
  const auto row = std::ranges::find_if(rows, [this](const Row& candidate) { return modifiers_.take(candidate.name); });
  if (row == std::end(rows)) return fail("the reduction needs an operation");
  access.operation = row->operation;
  return {};
}

/// .op.type of cp.reduce.async.bulk.
Status Decoder::bulk_reduction(BulkAccess& access) {
  modifiers_.take("noftz");
  const auto type = modifiers_.take_last_type();
  if (!type) return fail("the reduction needs an operation and a type");
  STITCH_TRY(reduction_operation(access));
  switch (*type) {
    case Type::u32: access.type = AtomicType::u32; break;
    case Type::s32: access.type = AtomicType::s32; break;
    case Type::u64: access.type = AtomicType::u64; break;
    case Type::s64: access.type = AtomicType::s64; break;
    case Type::b32: access.type = AtomicType::b32; break;
    case Type::b64: access.type = AtomicType::b64; break;
    case Type::f16: access.type = AtomicType::f16; break;
    case Type::bf16: access.type = AtomicType::bf16; break;
    case Type::f32: access.type = AtomicType::f32; break;
    case Type::f64: access.type = AtomicType::f64; break;
    default: return unsupported(fmt::format("a bulk reduction of {}", to_string(*type)));
  }
  return {};
}

/// cp.async.bulk.dst.src, cp.reduce.async.bulk.dst.src.op.type, and their commit_group and wait_group.
Status Decoder::bulk_copy(bool reduces) {
  if (modifiers_.take("prefetch")) return hint();
  if (modifiers_.take("tensor")) return tensor_copy(reduces);
  if (modifiers_.take("commit_group")) {
    emit(Opcode::bulk_commit, InstructionClass::async_copy);
    return finish_modifiers();
  }
  if (modifiers_.take("wait_group")) {
    const bool reads_only = modifiers_.take("read");
    STITCH_TRY(finish(1));
    STITCH_ASSIGN(const std::uint64_t pending, immediate(operand(0)));
    InstructionDraft& draft = emit(Opcode::bulk_wait, InstructionClass::async_copy);
    draft.instruction.immediate = pending;
    draft.instruction.form = reads_only ? 1 : 0;
    return {};
  }
  BulkAccess access;
  access.reduces = reduces;
  const std::string_view to = modifiers_.take_front();
  const std::string_view from = modifiers_.take_front();
  const bool by_mbarrier = modifiers_.take("mbarrier::complete_tx::bytes");
  const bool by_group = modifiers_.take("bulk_group");
  access.multicast = modifiers_.take("multicast::cluster");
  take_cache_hints();
  if (from == "global" && to.starts_with("shared::")) {
    access.kind = BulkKind::global_to_shared;
  } else if (from == "shared::cta" && to == "global") {
    access.kind = BulkKind::shared_to_global;
  } else if (from == "shared::cta" && to == "shared::cluster") {
    access.kind = BulkKind::shared_to_shared;
  } else {
    return unsupported(fmt::format("a bulk copy from {} to {}", from, to));
  }
  if (by_group != (access.kind == BulkKind::shared_to_global) || by_mbarrier == by_group) {
    return fail("copies to global memory complete by bulk_group, copies to shared memory by an mbarrier");
  }
  if (reduces) STITCH_TRY(bulk_reduction(access));
  STITCH_TRY(finish_modifiers());
  const bool to_global = access.kind == BulkKind::shared_to_global;
  STITCH_TRY(expect_operands(to_global ? 3 : 4, to_global ? 4 : 6));
  const Space target_space = to_global ? Space::global : Space::shared_cluster;
  STITCH_ASSIGN(const Ref target, address_register(operand(0), target_space));
  STITCH_ASSIGN(const Ref origin, address_register(operand(1), to_global          ? Space::shared
                                                               : from == "global" ? Space::global
                                                                                  : Space::shared));
  STITCH_ASSIGN(const Ref size, source(operand(2), Type::u32));
  Ref barrier_address;
  Ref mask;
  if (!to_global) {
    STITCH_ASSIGN(barrier_address, address_register(operand(3), Space::shared_cluster));
    if (access.multicast) {
      if (operand_count() < 5) return fail("a multicast needs a block mask");
      STITCH_ASSIGN(mask, source(operand(4), Type::u16));
    }
  }
  InstructionDraft& draft = emit(Opcode::bulk_copy, InstructionClass::async_copy);
  draft.a = target;
  draft.b = origin;
  draft.c = size;
  draft.e = barrier_address;
  draft.list = {mask.exists() ? mask : constant(Width::b16, 0)};
  draft.instruction.detail = append(code_.bulks, access);
  return {};
}

/// mbarrier.{init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait, try_wait, pending_count}.
Status Decoder::mbarrier() {
  const std::string_view action = modifiers_.take_front();
  MbarrierAccess access;
  const bool expects = modifiers_.take("expect_tx");
  access.no_complete = modifiers_.take("noComplete");
  access.parity = modifiers_.take("parity");
  const bool waits = action == "test_wait" || action == "try_wait";
  const bool relaxed_only = action == "expect_tx" || action == "complete_tx";
  STITCH_TRY(take_semantics(access.semantics, access.scope,
                            waits          ? Semantics::acquire
                            : relaxed_only ? Semantics::relaxed
                                           : Semantics::release));
  STITCH_ASSIGN(access.space, take_space(Space::generic));
  modifiers_.take("b64");
  STITCH_TRY(finish_modifiers());
  if (action == "pending_count") {
    STITCH_ASSIGN(const OperandRefs refs, operands(Type::b32, {Type::b64}));
    emit(Opcode::mbarrier_count, InstructionClass::barrier, refs);
    return {};
  }
  Opcode opcode = Opcode::mbarrier_arrive;
  Ref d;
  std::size_t at = 0;
  if (action == "init") {
    opcode = Opcode::mbarrier_init;
  } else if (action == "inval") {
    opcode = Opcode::mbarrier_invalidate;
  } else if (waits) {
    opcode = Opcode::mbarrier_test;
    STITCH_TRY(expect_operands(3, 4));
    STITCH_ASSIGN(d, destination(operand(0), Width::predicate));
    at = 1;
  } else if (action == "arrive" || action == "arrive_drop") {
    access.action = action == "arrive_drop" ? MbarrierAction::arrive_drop
                    : expects               ? MbarrierAction::arrive_expect
                                            : MbarrierAction::arrive;
    if (expects && action == "arrive_drop") return unsupported("mbarrier.arrive_drop.expect_tx");
    if (operand_count() > 0 && operand(0).kind == ptx::Operand::Kind::name) {
      STITCH_ASSIGN(d, destination(operand(0), Width::b64));
      at = 1;
    }
  } else if (action == "expect_tx") {
    access.action = MbarrierAction::expect;
  } else if (action == "complete_tx") {
    access.action = MbarrierAction::complete;
  } else {
    return unsupported(fmt::format("mbarrier.{}", action));
  }
  STITCH_TRY(expect_operands(at + 1, at + 3));
  STITCH_ASSIGN(const Ref address_value, address_register(operand(at), access.space));
  Ref value;
  if (operand_count() > at + 1) {
    const bool state = waits && !access.parity;
    STITCH_ASSIGN(value, source(operand(at + 1), state ? Type::b64 : Type::u32));
  }
  InstructionDraft& draft = emit(opcode, InstructionClass::barrier);
  draft.d = d;
  draft.instruction.d_width = width_of(d);
  draft.a = address_value;
  draft.b = value;
  draft.instruction.detail = append(code_.mbarriers, access);
  return {};
}

/// st.async[.weak][.shared::cluster].mbarrier::complete_tx::bytes[.vector].type [a], value, [mbarrier].
Status Decoder::store_async() {
  modifiers_.take("weak");
  modifiers_.take("shared::cluster");
  if (!modifiers_.take("mbarrier::complete_tx::bytes")) return unsupported("this form of st.async");
  MemoryAccess access;
  access.space = Space::shared_cluster;
  const std::string_view vector = modifiers_.take_any({"v2", "v4"});
  access.elements = vector.empty() ? 1 : vector[1] - '0';
  STITCH_ASSIGN(const Type type, last_type("st.async"));
  STITCH_TRY(check_moved(type, access.elements));
  STITCH_TRY(finish(3));
  access.element_bytes = bytes(type);
  STITCH_ASSIGN(const Ref to, address_register(operand(0), Space::shared_cluster));
  STITCH_ASSIGN(const Ref barrier_address, address_register(operand(2), Space::shared_cluster));
  InstructionDraft values;
  STITCH_ASSIGN(const Ref width, vector_list(values, operand(1), access, type, false));
  access.register_width = static_cast<Width>(width.index);
  InstructionDraft& draft = emit(Opcode::store_async, InstructionClass::async_copy);
  draft.a = to;
  draft.e = barrier_address;
  draft.list = std::move(values.list);
  draft.instruction.detail = append(code_.accesses, access);
  return {};
}

}  // namespace stitch::emulator
