#include "emulator/decode/decoder.h"
#include "emulator/decode/operation_name.h"
#include "emulator/lanes/lane_ops.h"

namespace stitch::emulator {
/// The last step of a floating-point instruction: .sat or .relu applied to `result`, into `d`.
Status Decoder::post(std::string_view operation, Type type, Ref d, Ref result) {
  return emit_lane(join({operation, to_string(type)}), d, result);
}

/// add, sub, mul, mad, fma, min, max, abs, neg, sad.
Status Decoder::arithmetic() {
  STITCH_ASSIGN(const Type type, last_type());
  if (type == Type::f32x2) return pair_arithmetic();
  if (is_floating(type)) return floating_arithmetic(type);
  const std::string_view root = modifiers_.root();
  if (root == "addc" || root == "subc" || root == "madc" || modifiers_.take("cc")) {
    return arithmetic_with_carry(root, type);
  }
  const std::string_view part = modifiers_.take_any({"lo", "hi", "wide"});
  const std::string_view variant = modifiers_.take_any({"sat", "relu"});
  const bool three = root == "mad" || root == "sad" || root == "mad24";
  const bool one = root == "abs" || root == "neg";
  const Type result = part == "wide" ? (bits(type) == 16 ? Type::b32 : Type::b64) : type;
  const Type sources[] = {type, type, result};
  STITCH_ASSIGN(const OperandRefs refs, operands(result, std::span(sources).first(one ? 1 : three ? 3 : 2)));
  return emit_lane(join({root, part, variant, integer_name(type)}), refs);
}

/// add.cc, addc, sub.cc, subc, mad.cc, madc: the carry lives in a predicate register of the function.
Status Decoder::arithmetic_with_carry(std::string_view root, Type type) {
  const bool carry_in = root.ends_with('c');
  const bool multiplies = root.starts_with("mad");
  const bool subtracts = root.starts_with("sub");
  const std::string_view part = modifiers_.take_any({"lo", "hi"});
  const bool carry_out = !carry_in || modifiers_.take("cc");
  STITCH_TRY(finish(multiplies ? 4 : 3));
  if (!carry_.exists()) carry_ = temporary(Width::predicate);
  const Width width = register_width(type);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  STITCH_ASSIGN(Ref a, source(operand(1), type));
  STITCH_ASSIGN(Ref b, source(operand(2), type));
  if (multiplies) {
    const Ref product = temporary(width);
    STITCH_TRY(emit_lane(join({"mul", part, integer_name(type)}), product, a, b));
    a = product;
    STITCH_ASSIGN(b, source(operand(3), type));
  }
  const std::string_view sum = subtracts ? "subc" : "addc";
  const Ref in = carry_in ? carry_ : constant(Width::predicate, 0);
  if (!carry_out) return emit_lane(join({sum, bit_name(type)}), d, a, b, in);
  const Ref out = temporary(Width::predicate);
  STITCH_TRY(emit_lane(join({"carry", sum, bit_name(type)}), out, a, b, in));
  STITCH_TRY(emit_lane(join({sum, bit_name(type)}), d, a, b, in));
  return emit_lane("mov.pred", carry_, out);
}

Status Decoder::floating_arithmetic(Type type) {
  std::string_view root = modifiers_.root();
  std::string_view rounding = modifiers_.take_any({"rn", "rz", "rm", "rp"});
  if (rounding == "rn") rounding = {};
  const bool ftz = modifiers_.take("ftz");
  const std::string_view post_operation = modifiers_.take("sat") ? "saturate" : modifiers_.take("relu") ? "relu" : "";
  const bool nan = modifiers_.take("NaN");
  const bool xorsign = modifiers_.take("xorsign");
  if (xorsign) modifiers_.take("abs");
  if (root == "mad") root = "fma";
  const bool one = root == "abs" || root == "neg";
  const bool extreme = root == "min" || root == "max";
  const std::size_t count = one ? 2 : root == "fma" ? 4 : 3;
  STITCH_TRY(finish(count, extreme ? 4 : count));
  // Signs of halves are bits: flushing them happens where they are used.
  const std::string_view flush = ftz ? "ftz" : "";
  const std::string name =
      join({root, rounding, flush, nan ? "NaN" : "", xorsign ? "xorsign.abs" : "", to_string(type)});
  const Width width = register_width(type);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  const Ref result = post_operation.empty() ? d : temporary(width);
  STITCH_ASSIGN(const Ref a, source(operand(1), type));
  if (one) {
    STITCH_TRY(emit_lane(name, result, a));
  } else {
    STITCH_ASSIGN(const Ref b, source(operand(2), type));
    Ref c;
    if (operand_count() == 4) {
      STITCH_ASSIGN(c, source(operand(3), type));
    }
    if (extreme && c.exists()) {
      const Ref first = temporary(width);
      STITCH_TRY(emit_lane(name, first, a, b));
      STITCH_TRY(emit_lane(name, result, first, c));
    } else {
      STITCH_TRY(emit_lane(name, result, a, b, c));
    }
  }
  return post_operation.empty() ? Status() : post(post_operation, type, d, result);
}

/// add, sub, mul, fma of f32x2: two f32 in 64 bits.
Status Decoder::pair_arithmetic() {
  const std::string_view root = modifiers_.root();
  std::string_view rounding = modifiers_.take_any({"rn", "rz", "rm", "rp"});
  if (rounding == "rn") rounding = {};
  const std::string name = join({root, rounding, modifiers_.take("ftz") ? "ftz" : "", "f32"});
  if (root != "add" && root != "sub" && root != "mul" && root != "fma") return unsupported("this instruction of f32x2");
  const std::size_t sources = root == "fma" ? 3 : 2;
  STITCH_TRY(finish(1 + sources));
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b64));
  std::array<std::array<Ref, 3>, 2> parts;
  for (std::size_t i = 0; i < sources; ++i) {
    STITCH_ASSIGN(const Ref from, source(operand(1 + i), Type::b64));
    for (std::size_t half = 0; half < 2; ++half) {
      parts[half][i] = temporary(Width::b32);
      STITCH_TRY(emit_lane(fmt::format("extract.{}.b32.b64", half), parts[half][i], from));
      // What takes the halves apart is no instruction of the kernel's.
      draft_.drafts.back().instruction.counted = counted_ = false;
    }
  }
  const std::array<Ref, 2> results = {temporary(Width::b32), temporary(Width::b32)};
  for (std::size_t half = 0; half < 2; ++half) {
    STITCH_TRY(emit_lane(name, results[half], parts[half][0], parts[half][1], parts[half][2]));
  }
  return emit_lane("pack.b64.b32", d, results[0], results[1]);
}

/// div, rem, rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh.
Status Decoder::division() {
  const std::string_view root = modifiers_.root();
  STITCH_ASSIGN(const Type type, last_type());
  std::string_view rounding = modifiers_.take_any({"rn", "rz", "rm", "rp"});
  if (rounding == "rn") rounding = {};
  const bool approximate = modifiers_.take("approx");
  modifiers_.take("full");
  const bool ftz = modifiers_.take("ftz");
  // Where the correctly rounded result is within the approximation's bound, it is the result.
  const bool own_row = root != "sqrt" && (root != "rcp" || type == Type::f64) && root != "rem";
  const bool two = root == "div" || root == "rem";
  const Type sources[] = {type, type};
  STITCH_ASSIGN(const OperandRefs refs, operands(type, std::span(sources).first(two ? 2 : 1)));
  return emit_lane(join({root, rounding, approximate && own_row ? "approx" : "", ftz ? "ftz" : "", to_string(type)}),
                   refs);
}

/// Instructions whose row has the opcode as it stands: shf, bfe, popc, dp4a, …; the row says how wide operands are.
Status Decoder::plain_lanes() {
  std::string_view name = statement_->opcode;
  const int row = find_lane_op(name);
  if (row < 0) return unsupported(fmt::format("instruction '{}'", name));
  const LaneOp& op = lane_ops(HostIsa::portable)[row];
  const Width widths[] = {op.a, op.b, op.c, op.e};
  std::size_t sources = 0;
  while (sources < 4 && widths[sources] != Width::none) ++sources;
  STITCH_TRY(expect_operands(sources + 1));
  STITCH_ASSIGN(const Ref d, destination(operand(0), op.d));
  Ref refs[4];
  for (std::size_t i = 0; i < sources; ++i) {
    const Type type = widths[i] == Width::b16   ? Type::b16
                      : widths[i] == Width::b32 ? Type::b32
                      : widths[i] == Width::b64 ? Type::b64
                                                : Type::pred;
    STITCH_ASSIGN(refs[i], source(operand(i + 1), type));
  }
  return emit_lane(name, d, refs[0], refs[1], refs[2], refs[3]);
}

/// and, or, xor, not, cnot, shl, shr.
Status Decoder::logic() {
  const std::string_view root = modifiers_.root();
  STITCH_ASSIGN(const Type type, last_type());
  const bool one = root == "not" || root == "cnot";
  const bool shift = root == "shl" || root == "shr";
  const std::string_view type_name = type == Type::pred ? "pred" : root == "shr" ? integer_name(type) : bit_name(type);
  const Type sources[] = {type, shift && type != Type::pred ? Type::u32 : type};
  STITCH_ASSIGN(const OperandRefs refs, operands(type, std::span(sources).first(one ? 1 : 2)));
  return emit_lane(one && type == Type::pred ? "not.pred" : join({root, type_name}), refs);
}

/// A temporary predicate with the outcome of `a relation b`.
Result<Ref> Decoder::compare(std::string_view relation, bool ftz, Type type, const ptx::Operand& a,
                             const ptx::Operand& b) {
  constexpr std::pair<std::string_view, std::string_view> unsigned_names[] = {
      {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  for (const auto& [name, same] : unsigned_names) {
    if (relation == name) relation = same;
  }
  STITCH_ASSIGN(const Ref left, source(a, type));
  STITCH_ASSIGN(const Ref right, source(b, type));
  const Ref outcome = temporary(Width::predicate);
  const std::string_view type_name = is_floating(type) ? to_string(type) : integer_name(type);
  STITCH_TRY(emit_lane(join({"setp", relation, ftz ? "ftz" : "", type_name}), outcome, left, right));
  return outcome;
}

/// Temporary predicates with the outcomes of operands 1 and 2, halves packed in 32 bits: low half, high half.
Result<Decoder::HalfOutcomes> Decoder::compare_halves(std::string_view relation, bool ftz, Type type) {
  STITCH_ASSIGN(const Ref a, source(operand(1), type));
  STITCH_ASSIGN(const Ref b, source(operand(2), type));
  HalfOutcomes outcomes;
  for (int half = 0; half < 2; ++half) {
    const Ref x = temporary(Width::b16);
    const Ref y = temporary(Width::b16);
    outcomes[half] = temporary(Width::predicate);
    const std::string extract = fmt::format("extract.{}.b16.b32", half);
    STITCH_TRY(emit_lane(extract, x, a));
    STITCH_TRY(emit_lane(extract, y, b));
    const std::string_view half_type = type == Type::f16x2 ? "f16" : "bf16";
    STITCH_TRY(emit_lane(join({"setp", relation, ftz ? "ftz" : "", half_type}), outcomes[half], x, y));
  }
  return outcomes;
}

/// setp.Relation[.Bool][.ftz].type p[|q], a, b[, c]: p = (a R b) Bool c, q = !(a R b) Bool c. For packed halves p and
/// q belong to the two halves instead.
Status Decoder::set_predicate() {
  const std::string_view relation = modifiers_.take_front();
  const std::string_view combine = modifiers_.take_any({"and", "or", "xor"});
  const bool ftz = modifiers_.take("ftz");
  STITCH_ASSIGN(const Type type, last_type());
  STITCH_TRY(finish(combine.empty() ? 3 : 4));
  STITCH_ASSIGN(const Ref p, destination(operand(0), Width::predicate));
  STITCH_ASSIGN(const Ref q, second_destination());
  Ref first;
  Ref second;
  if (type == Type::f16x2 || type == Type::bf16x2) {
    if (!q.exists()) return fail("packed halves need two destination predicates");
    STITCH_ASSIGN(const HalfOutcomes outcomes, compare_halves(relation, ftz, type));
    first = outcomes[0];
    second = outcomes[1];
  } else {
    STITCH_ASSIGN(first, compare(relation, ftz, type, operand(1), operand(2)));
    if (q.exists()) {
      second = temporary(Width::predicate);
      STITCH_TRY(emit_lane("not.pred", second, first));
    }
  }
  const std::string combined = combine.empty() ? "mov.pred" : join({combine, "pred"});
  Ref c;
  if (!combine.empty()) {
    STITCH_ASSIGN(c, predicate(operand(3)));
  } else if (!q.exists()) {
    // The common form compares straight into its destination.
    draft_.drafts.back().d = p;
    draft_.registers.pop_back();
    return {};
  }
  // p may be c: its old value is needed for q.
  const Ref p_new = q.exists() ? temporary(Width::predicate) : p;
  STITCH_TRY(emit_lane(combined, p_new, first, c));
  if (!q.exists()) return {};
  STITCH_TRY(emit_lane(combined, q, second, c));
  return emit_lane("mov.pred", p, p_new);
}

/// set.Relation[.Bool][.ftz].dtype.stype d, a, b[, c]: all ones or 1.0 where it holds.
Status Decoder::set_value() {
  const std::string_view relation = modifiers_.take_front();
  const std::string_view combine = modifiers_.take_any({"and", "or", "xor"});
  const bool ftz = modifiers_.take("ftz");
  const auto to = modifiers_.take_type();
  const auto from = modifiers_.take_type();
  if (!to || !from) return fail("the instruction needs two types");
  STITCH_TRY(finish(combine.empty() ? 3 : 4));
  const Width width = register_width(*to);
  STITCH_ASSIGN(const Ref d, destination(operand(0), width));
  if (*from == Type::f16x2 || *from == Type::bf16x2) {
    if (!combine.empty()) return unsupported("set on packed halves with a predicate");
    return set_halves(relation, ftz, *to, *from, d);
  }
  STITCH_ASSIGN(Ref outcome, compare(relation, ftz, *from, operand(1), operand(2)));
  if (!combine.empty()) {
    STITCH_ASSIGN(const Ref c, predicate(operand(3)));
    const Ref combined = temporary(Width::predicate);
    STITCH_TRY(emit_lane(join({combine, "pred"}), combined, outcome, c));
    outcome = combined;
  }
  const std::uint64_t one = *to == Type::f32    ? 0x3F800000U
                            : *to == Type::f16  ? 0x3C00U
                            : *to == Type::bf16 ? 0x3F80U
                                                : ~0ULL;
  return emit_lane(join({"selp", bit_name(*to)}), d, constant(width, one), constant(width, 0), outcome);
}

/// set on packed halves: both halves of d hold 1.0 or 0, or of an integer type all ones or 0.
Status Decoder::set_halves(std::string_view relation, bool ftz, Type to, Type from, Ref d) {
  STITCH_ASSIGN(const HalfOutcomes outcomes, compare_halves(relation, ftz, from));
  const std::uint64_t one = to == Type::f16x2 ? 0x3C00U : to == Type::bf16x2 ? 0x3F80U : 0xFFFFU;
  Ref values[2];
  for (int half = 0; half < 2; ++half) {
    values[half] = temporary(Width::b16);
    STITCH_TRY(emit_lane("selp.b16", values[half], constant(Width::b16, one), constant(Width::b16, 0), outcomes[half]));
  }
  return emit_lane("pack.b32.b16", d, values[0], values[1]);
}

Status Decoder::select() {
  STITCH_ASSIGN(const Type type, last_type());
  STITCH_ASSIGN(const OperandRefs refs, operands(type, {type, type, Type::pred}));
  return emit_lane(join({"selp", bit_name(type)}), refs);
}

Status Decoder::select_by_sign() {
  const bool ftz = modifiers_.take("ftz");
  const auto type = modifiers_.take_type();
  const auto condition = modifiers_.take_type();
  if (!type || !condition) return fail("the instruction needs two types");
  STITCH_ASSIGN(const OperandRefs refs, operands(*type, {*type, *type, *condition}));
  return emit_lane(join({"slct", ftz ? "ftz" : "", bit_name(*type), to_string(*condition)}), refs);
}

/// lop3.b32 d, a, b, c, table; lop3.Bool.b32 d|p, a, b, c, table, q: p = (d != 0) Bool q.
Status Decoder::lop3() {
  const std::string_view combine = modifiers_.take_any({"and", "or"});
  modifiers_.take("b32");
  STITCH_TRY(finish(combine.empty() ? 5 : 6));
  STITCH_ASSIGN(const Ref d, destination(operand(0), Width::b32));
  STITCH_ASSIGN(const Ref a, source(operand(1), Type::b32));
  STITCH_ASSIGN(const Ref b, source(operand(2), Type::b32));
  STITCH_ASSIGN(const Ref c, source(operand(3), Type::b32));
  STITCH_ASSIGN(const std::uint64_t table, immediate(operand(4)));
  if (table > 255) return fail("the table of lop3 has 8 bits");
  STITCH_TRY(emit_lane("lop3.b32", d, a, b, c));
  draft_.drafts.back().instruction.immediate = table;
  if (combine.empty()) return {};
  STITCH_ASSIGN(const Ref p, named_destination(operand(0).second, Width::predicate));
  STITCH_ASSIGN(const Ref q, predicate(operand(5)));
  const Ref nonzero = temporary(Width::predicate);
  STITCH_TRY(emit_lane("setp.ne.u32", nonzero, d, constant(Width::b32, 0)));
  return emit_lane(join({combine, "pred"}), p, nonzero, q);
}

}  // namespace stitch::emulator
