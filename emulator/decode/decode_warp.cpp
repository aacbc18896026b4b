#include "emulator/decode/decoder.h"

namespace stitch::emulator {

/// shfl.sync.mode.b32 d[|p], a, b, c, mask.
Status Decoder::shuffle() {
  if (!modifiers_.take("sync")) return unsupported("shfl without .sync");
  const std::string_view mode = modifiers_.take_any({"up", "down", "bfly", "idx"});
  modifiers_.take("b32");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(5));
  if (mode.empty()) return fail("shfl needs a mode");
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b32));
  Ref p;
  if (!operand(0).second.empty()) {
    STITCH_ASSIGN(p, named_destination(operand(0).second, Width::predicate));
  }
  STITCH_ASSIGN(const Ref a, source(operand(1), Type::b32));
  STITCH_ASSIGN(const Ref b, source(operand(2), Type::b32));
  STITCH_ASSIGN(const Ref c, source(operand(3), Type::b32));
  STITCH_ASSIGN(const Ref mask, source(operand(4), Type::b32));
  InstructionDraft& draft = emit(Opcode::shuffle, InstructionClass::shuffle);
  const ShuffleMode kind = mode == "up"     ? ShuffleMode::up
                           : mode == "down" ? ShuffleMode::down
                           : mode == "bfly" ? ShuffleMode::butterfly
                                            : ShuffleMode::index;
  draft.instruction.form = static_cast<std::uint8_t>(kind);
  draft.instruction.d_width = Width::b32;
  draft.d = d;
  draft.d2 = p;
  draft.a = a;
  draft.b = b;
  draft.c = c;
  draft.e = mask;
  return {};
}

/// vote.sync.{all, any, uni}.pred p, [!]a, mask; vote.sync.ballot.b32 d, [!]a, mask.
Status Decoder::vote() {
  if (!modifiers_.take("sync")) return unsupported("vote without .sync");
  const std::string_view mode = modifiers_.take_any({"all", "any", "uni", "ballot"});
  modifiers_.take("pred");
  modifiers_.take("b32");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(3));
  if (mode.empty()) return fail("vote needs a mode");
  const Width width = mode == "ballot" ? Width::b32 : Width::predicate;
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  STITCH_ASSIGN(const Ref a, predicate(operand(1)));
  STITCH_ASSIGN(const Ref mask, source(operand(2), Type::b32));
  InstructionDraft& draft = emit(Opcode::vote, InstructionClass::shuffle);
  const VoteMode kind = mode == "all"   ? VoteMode::all
                        : mode == "any" ? VoteMode::any
                        : mode == "uni" ? VoteMode::uniform
                                        : VoteMode::ballot;
  draft.instruction.form = static_cast<std::uint8_t>(kind);
  draft.instruction.d_width = width;
  draft.d = d;
  draft.a = a;
  draft.e = mask;
  return {};
}

/// match.any.sync.type d, a, mask; match.all.sync.type d[|p], a, mask.
Status Decoder::match() {
  const bool all = modifiers_.take("all");
  modifiers_.take("any");
  modifiers_.take("sync");
  const auto type = modifiers_.take_last_type();
  if (!type) return fail("match has no type");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(3));
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b32));
  Ref p;
  if (!operand(0).second.empty()) {
    STITCH_ASSIGN(p, named_destination(operand(0).second, Width::predicate));
  }
  STITCH_ASSIGN(const Ref a, source(operand(1), *type));
  STITCH_ASSIGN(const Ref mask, source(operand(2), Type::b32));
  InstructionDraft& draft = emit(Opcode::match, InstructionClass::shuffle);
  draft.instruction.form = all ? 1 : 0;
  draft.instruction.immediate = static_cast<std::uint64_t>(bytes(*type));
  draft.instruction.d_width = Width::b32;
  draft.d = d;
  draft.d2 = p;
  draft.a = a;
  draft.e = mask;
  return {};
}

/// redux.sync.op[.abs][.NaN].type d, a, mask.
Status Decoder::reduce_lanes() {
  modifiers_.take("sync");
  const auto type = modifiers_.take_last_type();
  const std::string_view name = modifiers_.take_any({"add", "min", "max", "and", "or", "xor"});
  const bool abs = modifiers_.take("abs");
  const bool nan = modifiers_.take("NaN");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(3));
  if (!type || name.empty()) return fail("redux needs an operation and a type");
  const bool is_float = *type == Type::f32;
  if (is_float && name != "min" && name != "max") return fail("redux of f32 has min and max only");
  if (abs || (nan && !is_float)) return unsupported("redux.abs");
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b32));
  STITCH_ASSIGN(const Ref a, source(operand(1), *type));
  STITCH_ASSIGN(const Ref mask, source(operand(2), Type::b32));
  LaneReduction reduction = LaneReduction::add;
  if (name == "min") reduction = nan ? LaneReduction::min_nan : LaneReduction::min;
  if (name == "max") reduction = nan ? LaneReduction::max_nan : LaneReduction::max;
  if (name == "and") reduction = LaneReduction::bit_and;
  if (name == "or") reduction = LaneReduction::bit_or;
  if (name == "xor") reduction = LaneReduction::bit_xor;
  InstructionDraft& draft = emit(Opcode::reduce_lanes, InstructionClass::shuffle);
  draft.instruction.form = static_cast<std::uint8_t>(reduction);
  draft.instruction.immediate = is_float ? 2 : is_signed(*type) ? 1 : 0;
  draft.instruction.d_width = Width::b32;
  draft.d = d;
  draft.a = a;
  draft.e = mask;
  return {};
}

Status Decoder::active_mask() {
  modifiers_.take("b32");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(1));
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b32));
  InstructionDraft& draft = emit(Opcode::active_mask, InstructionClass::shuffle);
  draft.instruction.d_width = Width::b32;
  draft.d = d;
  return {};
}

/// elect.sync d|p, mask.
Status Decoder::elect() {
  modifiers_.take("sync");
  STITCH_TRY(finish_modifiers());
  STITCH_TRY(expect_operands(2));
  STITCH_ASSIGN(const Ref d, named_destination(operand(0).name, Width::b32));
  STITCH_ASSIGN(const Ref p, named_destination(operand(0).second, Width::predicate));
  STITCH_ASSIGN(const Ref mask, source(operand(1), Type::b32));
  InstructionDraft& draft = emit(Opcode::elect, InstructionClass::shuffle);
  draft.instruction.d_width = Width::b32;
  draft.d = d;
  draft.d2 = p;
  draft.e = mask;
  return {};
}

}  // namespace stitch::emulator
