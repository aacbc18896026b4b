#include "emulator/decode/decoder.h"

#include <algorithm>

namespace stitch::emulator {

Status Decoder::branch() {
  if (modifiers_.root() == "brx") return branch_indexed();
  const bool uniform = modifiers_.take("uni");
  STITCH_TRY(finish(1));
  InstructionDraft& draft = emit(Opcode::branch, InstructionClass::control);
  draft.label = operand(0).name;
  draft.instruction.uniform = uniform;
  return {};
}

Status Decoder::branch_indexed() {
  modifiers_.take("idx");
  modifiers_.take("uni");
  STITCH_TRY(finish(2));
  STITCH_ASSIGN(const Ref index, source(operand(0), Type::u32));
  const auto& labels = function_->labels;
  const auto table = std::ranges::find_if(
      labels, [&](const ptx::Label& label) { return label.name == operand(1).name && !label.targets.empty(); });
  if (table == labels.end()) return fail(fmt::format("'{}' is not a list of branch targets", operand(1).name));
  InstructionDraft& draft = emit(Opcode::branch_indexed, InstructionClass::control);
  draft.a = index;
  draft.table = table->targets;
  return {};
}

Status Decoder::call() {
  modifiers_.take("uni");
  STITCH_TRY(finish_modifiers());
  const auto name = std::ranges::find(statement_->operands, ptx::Operand::Kind::name, &ptx::Operand::kind);
  const ptx::Function* callee = find_function(name->name);
  if (!callee->has_body) return device_call(callee->name);
  InstructionDraft& draft = emit(Opcode::call, InstructionClass::control);
  draft.callee = callee->name;
  return {};
}

/// Functions that the CUDA runtime provides: printing is dropped, a failed assertion traps.
Status Decoder::device_call(std::string_view name) {
  enum : std::uint8_t { print = 0, assertion = 1 };
  if (name != "vprintf" && name != "__assertfail") return unsupported(fmt::format("the device function '{}'", name));
  InstructionDraft& draft = emit(Opcode::device_call, InstructionClass::control);
  draft.instruction.form = name == "vprintf" ? print : assertion;
  // vprintf's result must read as initialised.
  for (const ptx::Operand& list : statement_->operands) {
    if (list.kind != ptx::Operand::Kind::list || name != "vprintf" || list.elements.size() != 1) continue;
    draft.instruction.immediate = find_place(list.elements[0].name)->offset;
    draft.instruction.list_count = 4;
  }
  return {};
}

/// ret, exit, trap, brkpt, nanosleep.
Status Decoder::simple() {
  const std::string_view root = modifiers_.root();
  modifiers_.take("uni");
  modifiers_.take("u32");
  STITCH_TRY(finish(root == "nanosleep" ? 1 : 0));
  if (root == "ret" && !draft_.is_entry) {
    emit(Opcode::function_return, InstructionClass::control).a = draft_.return_address;
    return {};
  }
  emit(root == "trap" || root == "brkpt" ? Opcode::trap
       : root == "nanosleep"             ? Opcode::pause
                                         : Opcode::exit,
       InstructionClass::control);
  return {};
}

/// bar[.cta].{sync, arrive, red}, barrier[.cta].…, bar.warp.sync, barrier.cluster.{arrive, wait}.
Status Decoder::barrier() {
  const bool is_bar = modifiers_.root() == "bar";
  if (modifiers_.take("cluster")) {
    Semantics semantics{};
    Scope scope{};
    const bool arrive = modifiers_.take("arrive");
    if (!arrive && !modifiers_.take("wait")) return fail("barrier.cluster needs arrive or wait");
    STITCH_TRY(take_semantics(semantics, scope, arrive ? Semantics::release : Semantics::acquire));
    const bool aligned = modifiers_.take("aligned");
    STITCH_TRY(finish_modifiers());
    InstructionDraft& draft = emit(arrive ? Opcode::cluster_arrive : Opcode::cluster_wait, InstructionClass::barrier);
    draft.instruction.form = semantics == Semantics::relaxed ? 0 : 1;
    draft.instruction.uniform = aligned;
    return {};
  }
  if (modifiers_.take("warp")) {
    modifiers_.take("sync");
    STITCH_TRY(finish(1));
    STITCH_ASSIGN(const Ref mask, source(operand(0), Type::b32));
    emit(Opcode::warp_barrier, InstructionClass::barrier).a = mask;
    return {};
  }
  modifiers_.take("cta");
  const bool aligned = modifiers_.take("aligned") || is_bar;
  const std::string_view action = modifiers_.take_any({"sync", "arrive", "red"});
  const std::string_view reduction = modifiers_.take_any({"and", "or", "popc"});
  modifiers_.take("pred");
  modifiers_.take("u32");
  STITCH_TRY(finish_modifiers());
  const bool reduces = action == "red";
  if (action.empty() || reduces == reduction.empty())
    return fail("the barrier needs sync, arrive, or red with an operation");
  const std::size_t first = reduces ? 1 : 0;
  STITCH_TRY(expect_operands(first + (reduces ? 2 : 1), first + (reduces ? 3 : 2)));
  BarrierMode mode = action == "sync" ? BarrierMode::sync : BarrierMode::arrive;
  OperandRefs refs;
  if (reduces) {
    mode = reduction == "and"  ? BarrierMode::reduce_and
           : reduction == "or" ? BarrierMode::reduce_or
                               : BarrierMode::reduce_popc;
    STITCH_ASSIGN(refs.d, destination(operand(0), reduction == "popc" ? Width::b32 : Width::predicate));
    STITCH_ASSIGN(refs.c, predicate(statement_->operands.back()));
  }
  STITCH_ASSIGN(refs.a, source(operand(first), Type::u32));
  if (operand_count() - first - (reduces ? 1 : 0) == 2) {
    STITCH_ASSIGN(refs.b, source(operand(first + 1), Type::u32));
  }
  InstructionDraft& draft = emit(Opcode::barrier, InstructionClass::barrier, refs);
  draft.instruction.set_form(mode);
  draft.instruction.uniform = aligned;
  return {};
}

/// fence.{sc, acq_rel}.scope, fence.proxy.…, fence.mbarrier_init.…, membar.{cta, gl, sys}, membar.proxy.
Status Decoder::fence() {
  enum : std::uint8_t { memory = 0, proxy = 1, mbarrier_init = 2 };
  if (modifiers_.take("proxy")) {
    emit(Opcode::fence, InstructionClass::barrier).instruction.form = proxy;
    return {};
  }
  if (modifiers_.take("mbarrier_init")) {
    emit(Opcode::fence, InstructionClass::barrier).instruction.form = mbarrier_init;
    return {};
  }
  Scope scope = modifiers_.take("gl") ? Scope::device : Scope::none;
  Semantics semantics{};
  Scope named{};
  STITCH_TRY(take_semantics(semantics, named, Semantics::acquire_release));
  if (scope == Scope::none) scope = named;
  STITCH_TRY(finish_modifiers());
  InstructionDraft& draft = emit(Opcode::fence, InstructionClass::barrier);
  draft.instruction.form = memory;
  draft.instruction.set_detail(scope);
  draft.instruction.immediate = static_cast<std::uint64_t>(semantics);
  return {};
}

}  // namespace stitch::emulator
