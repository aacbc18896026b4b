#include <utility>

#include "emulator/decode/decoder.h"

namespace stitch::emulator {
namespace {

/// The lane mask, the last of an instruction's sources, is `e` of the draft.
OperandRefs mask_last(OperandRefs refs) {
  refs.e = std::exchange(refs.b, {});
  return refs;
}

}  // namespace

/// shfl.sync.mode.b32 d[|p], a, b, c, mask.
Status Decoder::shuffle() {
  if (!modifiers_.take("sync")) return unsupported("shfl without .sync");
  const std::string_view mode = modifiers_.take_any({"up", "down", "bfly", "idx"});
  modifiers_.take("b32");
  STITCH_TRY(finish(5));
  if (mode.empty()) return fail("shfl needs a mode");
  STITCH_ASSIGN(const OperandRefs refs,
                operands_with_predicate(Type::b32, {Type::b32, Type::b32, Type::b32, Type::b32}));
  emit(Opcode::shuffle, InstructionClass::shuffle, refs)
      .instruction.set_form(mode == "up"     ? ShuffleMode::up
                            : mode == "down" ? ShuffleMode::down
                            : mode == "bfly" ? ShuffleMode::butterfly
                                             : ShuffleMode::index);
  return {};
}

/// vote.sync.{all, any, uni}.pred p, [!]a, mask; vote.sync.ballot.b32 d, [!]a, mask.
Status Decoder::vote() {
  if (!modifiers_.take("sync")) return unsupported("vote without .sync");
  const std::string_view mode = modifiers_.take_any({"all", "any", "uni", "ballot"});
  modifiers_.take("pred");
  modifiers_.take("b32");
  STITCH_TRY(finish(3));
  if (mode.empty()) return fail("vote needs a mode");
  STITCH_ASSIGN(const OperandRefs refs, operands(mode == "ballot" ? Type::b32 : Type::pred, {Type::pred, Type::b32}));
  emit(Opcode::vote, InstructionClass::shuffle, mask_last(refs))
      .instruction.set_form(mode == "all"   ? VoteMode::all
                            : mode == "any" ? VoteMode::any
                            : mode == "uni" ? VoteMode::uniform
                                            : VoteMode::ballot);
  return {};
}

/// match.any.sync.type d, a, mask; match.all.sync.type d[|p], a, mask.
Status Decoder::match() {
  const bool all = modifiers_.take("all");
  modifiers_.take("any");
  modifiers_.take("sync");
  STITCH_ASSIGN(const Type type, last_type("match"));
  STITCH_ASSIGN(const OperandRefs refs, operands_with_predicate(Type::b32, {type, Type::b32}));
  InstructionDraft& draft = emit(Opcode::match, InstructionClass::shuffle, mask_last(refs));
  draft.instruction.form = all ? 1 : 0;
  draft.instruction.immediate = bytes(type);
  return {};
}

/// redux.sync.op[.abs][.NaN].type d, a, mask.
Status Decoder::reduce_lanes() {
  modifiers_.take("sync");
  const auto type = modifiers_.take_last_type();
  const std::string_view name = modifiers_.take_any({"add", "min", "max", "and", "or", "xor"});
  const bool abs = modifiers_.take("abs");
  const bool nan = modifiers_.take("NaN");
  STITCH_TRY(finish(3));
  if (!type || name.empty()) return fail("redux needs an operation and a type");
  const bool is_float = *type == Type::f32;
  if (is_float && name != "min" && name != "max") return fail("redux of f32 has min and max only");
  if (abs || (nan && !is_float)) return unsupported("redux.abs");
  STITCH_ASSIGN(const OperandRefs refs, operands(Type::b32, {*type, Type::b32}));
  LaneReduction reduction = LaneReduction::add;
  if (name == "min") reduction = nan ? LaneReduction::min_nan : LaneReduction::min;
  if (name == "max") reduction = nan ? LaneReduction::max_nan : LaneReduction::max;
  if (name == "and") reduction = LaneReduction::bit_and;
  if (name == "or") reduction = LaneReduction::bit_or;
  if (name == "xor") reduction = LaneReduction::bit_xor;
  InstructionDraft& draft = emit(Opcode::reduce_lanes, InstructionClass::shuffle, mask_last(refs));
  draft.instruction.set_form(reduction);
  draft.instruction.immediate = is_float ? 2 : is_signed(*type) ? 1 : 0;
  return {};
}

Status Decoder::active_mask() {
  modifiers_.take("b32");
  STITCH_ASSIGN(const OperandRefs refs, operands(Type::b32, {}));
  emit(Opcode::active_mask, InstructionClass::shuffle, refs);
  return {};
}

/// elect.sync d|p, mask.
Status Decoder::elect() {
  modifiers_.take("sync");
  STITCH_TRY(finish(2));
  OperandRefs refs;
  STITCH_ASSIGN(refs.d, named_destination(operand(0).name, Width::b32));
  STITCH_ASSIGN(refs.d2, named_destination(operand(0).second, Width::predicate));
  STITCH_ASSIGN(refs.e, source(operand(1), Type::b32));
  emit(Opcode::elect, InstructionClass::shuffle, refs);
  return {};
}

}  // namespace stitch::emulator
