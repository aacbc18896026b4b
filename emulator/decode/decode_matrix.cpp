#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <span>

#include "emulator/decode/decoder.h"

namespace stitch::emulator {
namespace {

/// "m16n8k16" → 16, 8, 16.
bool parse_shape(std::string_view text, MatrixForm& form) {
  const char* end = text.data() + text.size();
  const auto read = [&](char letter, const char* from, std::uint16_t& value) -> const char* {
    if (from == nullptr || from == end || *from != letter) return nullptr;
    const auto [stop, error] = std::from_chars(from + 1, end, value);
    return error == std::errc() ? stop : nullptr;
  };
  return read('k', read('n', read('m', text.data(), form.m), form.n), form.k) == end;
}

/// Whether operands of these types have a product, and it may be accumulated so.
bool types_multiply(const MatrixForm& form) {
  const auto both = [&form](std::initializer_list<MatrixType> types) {
    return std::ranges::find(types, form.a) != types.end() && std::ranges::find(types, form.b) != types.end();
  };
  const bool to_f16 = form.accumulator == MatrixType::f16;
  const bool to_f32 = form.accumulator == MatrixType::f32;
  if (both({MatrixType::f16}) || both({MatrixType::e4m3, MatrixType::e5m2})) return to_f16 || to_f32;
  if (both({MatrixType::bf16}) || both({MatrixType::tf32})) return to_f32;
  if (both({MatrixType::f64})) return form.accumulator == MatrixType::f64;
  return (both({MatrixType::s8, MatrixType::u8}) || both({MatrixType::s4, MatrixType::u4}) || both({MatrixType::b1})) &&
         form.accumulator == MatrixType::s32;
}

/// The forms of mma (PTX ISA, "Matrix Fragments for mma"): types that multiply, and the k that their shape may have.
/// All have one layout but m8n8k4 of f16, which sm_70 had.
bool is_product(const MatrixForm& form) {
  struct Row {
    MatrixType type;
    std::uint16_t m;
    std::initializer_list<std::uint16_t> k;
  };
  static const Row rows[] = {
      {MatrixType::f16, 16, {8, 16}},   {MatrixType::bf16, 16, {8, 16}},   {MatrixType::tf32, 16, {4, 8}},
      {MatrixType::f64, 8, {4}},        {MatrixType::f64, 16, {4, 8, 16}}, {MatrixType::s8, 8, {16}},
      {MatrixType::s8, 16, {16, 32}},   {MatrixType::u8, 8, {16}},         {MatrixType::u8, 16, {16, 32}},
      {MatrixType::s4, 8, {32}},        {MatrixType::s4, 16, {32, 64}},    {MatrixType::u4, 8, {32}},
      {MatrixType::u4, 16, {32, 64}},   {MatrixType::b1, 8, {128}},        {MatrixType::b1, 16, {128, 256}},
      {MatrixType::e4m3, 16, {16, 32}}, {MatrixType::e5m2, 16, {16, 32}}};
  static const Row sparse_rows[] = {
      {MatrixType::f16, 16, {16, 32}}, {MatrixType::bf16, 16, {16, 32}}, {MatrixType::tf32, 16, {8, 16}},
      {MatrixType::s8, 16, {32, 64}},  {MatrixType::u8, 16, {32, 64}},   {MatrixType::s4, 16, {64, 128}},
      {MatrixType::u4, 16, {64, 128}}, {MatrixType::e4m3, 16, {64}},     {MatrixType::e5m2, 16, {64}}};
  const std::span<const Row> forms = form.sparse ? std::span<const Row>(sparse_rows) : std::span<const Row>(rows);
  const bool integers = form.accumulator == MatrixType::s32 && form.a != MatrixType::b1;
  const bool to_f16 = form.accumulator == MatrixType::f16 && form.a != MatrixType::f16;
  return form.n == 8 && types_multiply(form) && !(form.sparse && to_f16) && (!form.saturate || integers) &&
         std::ranges::any_of(forms, [&form](const Row& row) {
           return row.type == form.a && row.m == form.m && std::ranges::find(row.k, form.k) != row.k.end();
         });
}

/// The sparsity selectors that a form of `chunks` chunks a row has: which lane of four, which pair, or all of them.
constexpr std::uint32_t selectors(std::uint32_t chunks) { return 16 / chunks; }

}  // namespace

Result<MatrixType> Decoder::matrix_type(Type type) const {
  switch (type) {
    case Type::f16: return MatrixType::f16;
    case Type::bf16: return MatrixType::bf16;
    case Type::tf32: return MatrixType::tf32;
    case Type::f32: return MatrixType::f32;
    case Type::s8: return MatrixType::s8;
    case Type::u8: return MatrixType::u8;
    case Type::s32: return MatrixType::s32;
    case Type::f64: return MatrixType::f64;
    case Type::s4: return MatrixType::s4;
    case Type::u4: return MatrixType::u4;
    case Type::b1: return MatrixType::b1;
    case Type::e4m3: return MatrixType::e4m3;
    case Type::e5m2: return MatrixType::e5m2;
    default: return unsupported(fmt::format("a matrix of {}", to_string(type)));
  }
}

/// ldmatrix / stmatrix.sync.aligned.m8n8.xN[.trans].shared.b16.
Status Decoder::matrix_move() {
  const bool loads = modifiers_.root() == "ldmatrix";
  modifiers_.take("sync");
  modifiers_.take("aligned");
  if (!modifiers_.take("m8n8")) return unsupported("this matrix shape");
  const std::string_view count = modifiers_.take_any({"x1", "x2", "x4"});
  const bool transposed = modifiers_.take("trans");
  STITCH_ASSIGN(const Space space, take_space(Space::generic));
  if (!modifiers_.take("b16") || count.empty()) return unsupported("this matrix element type");
  STITCH_TRY(finish(2));
  const ptx::Operand& registers = operand(loads ? 0 : 1);
  STITCH_ASSIGN(const Ref at, address_register(operand(loads ? 1 : 0), space));
  InstructionDraft list;
  MemoryAccess shape;
  shape.elements = count[1] - '0';
  STITCH_TRY(vector_list(list, registers, shape, Type::b32, loads));
  InstructionDraft& draft = emit(loads ? Opcode::load_matrix : Opcode::store_matrix,
                                 loads ? InstructionClass::shared_load : InstructionClass::shared_store);
  draft.a = at;
  draft.list = std::move(list.list);
  draft.list_defines = list.list_defines;
  draft.instruction.form = transposed ? 1 : 0;
  draft.instruction.set_detail(space);
  return {};
}

/// Metadata and selector of a sparse product: operands `first` and the one behind it.
Status Decoder::sparsity(std::size_t first, MatrixForm& form, std::vector<Ref>& list) {
  STITCH_ASSIGN(const Ref metadata, source(operand(first), Type::b32));
  STITCH_ASSIGN(const std::uint64_t selector, immediate(operand(first + 1)));
  const std::uint32_t count = selectors(form.k / sparse_chunk(form.a));
  if (selector >= count) return fail(fmt::format("sparsity selector {}, below {} for this shape", selector, count));
  form.selector = static_cast<std::uint8_t>(selector);
  list.push_back(metadata);
  return {};
}

/// mma[.sp[::ordered_metadata]].sync.aligned.shape.row.col[.satfinite].d.a.b.c[.xor.popc, .and.popc]; a sparse one's
/// operands are d, a, b, c, metadata, selector.
Status Decoder::mma() {
  MatrixForm form;
  form.ordered = modifiers_.take("sp::ordered_metadata");
  form.sparse = form.ordered || modifiers_.take("sp");
  modifiers_.take("sync");
  modifiers_.take("aligned");
  if (!parse_shape(modifiers_.take_front(), form)) return fail("mma needs a shape");
  const bool row_column = modifiers_.take("row") && modifiers_.take("col");
  form.saturate = modifiers_.take("satfinite");
  const auto d_type = modifiers_.take_type();
  const auto a_type = modifiers_.take_type();
  const auto b_type = modifiers_.take_type();
  const auto c_type = modifiers_.take_type();
  if (!d_type || !a_type || !b_type || !c_type) return fail("mma needs four types");
  // f64 rounds to the nearest even; CUTLASS says so.
  if (*d_type == Type::f64) modifiers_.take("rn");
  form.differs = modifiers_.take("xor");
  const bool bitwise = form.differs || modifiers_.take("and");
  if (bitwise) modifiers_.take("popc");
  if (!row_column || !modifiers_.rest().empty() || *d_type != *c_type) return unsupported("this form of mma");
  STITCH_ASSIGN(form.accumulator, matrix_type(*d_type));
  STITCH_ASSIGN(form.a, matrix_type(*a_type));
  STITCH_ASSIGN(form.b, matrix_type(*b_type));
  if (!is_product(form) || bitwise != (form.a == MatrixType::b1)) return unsupported("this form of mma");
  STITCH_TRY(expect_operands(form.sparse ? 6 : 4));
  const std::size_t per_register = std::max(32 / bits(*a_type), 1);
  const std::size_t rows = form.m / 8;
  const std::size_t steps = form.k / (4 * per_register);
  const std::size_t a_steps = form.stored_k() / (4 * per_register);
  const std::size_t d_count = form.accumulator == MatrixType::f16 ? rows : 2 * rows;
  const std::size_t counts[] = {d_count, rows * a_steps, steps, d_count};
  const bool wide = form.a == MatrixType::f64;
  InstructionDraft lists;
  for (std::size_t i = 0; i < 4; ++i) {
    MemoryAccess shape;
    shape.elements = counts[i];
    STITCH_TRY(vector_list(lists, operand(i), shape, wide ? Type::b64 : Type::b32, i == 0));
  }
  if (form.sparse) STITCH_TRY(sparsity(4, form, lists.list));
  InstructionDraft& draft = emit(Opcode::mma, InstructionClass::tensor);
  draft.list = std::move(lists.list);
  draft.list_defines = d_count;
  draft.instruction.detail = append(code_.matrices, form);
  return {};
}

/// wgmma.{fence, commit_group, wait_group, mma_async}.sync.aligned.
Status Decoder::wgmma() {
  modifiers_.take("sync");
  modifiers_.take("aligned");
  if (modifiers_.take("mma_async")) return wgmma_product();
  if (modifiers_.take("fence")) {
    emit(Opcode::wgmma_fence, InstructionClass::barrier);
    return finish_modifiers();
  }
  if (modifiers_.take("commit_group")) {
    emit(Opcode::wgmma_commit, InstructionClass::barrier);
    return finish_modifiers();
  }
  if (!modifiers_.take("wait_group")) return unsupported(fmt::format("instruction '{}'", statement_->opcode));
  STITCH_TRY(finish(1));
  STITCH_ASSIGN(const std::uint64_t pending, immediate(operand(0)));
  emit(Opcode::wgmma_wait, InstructionClass::barrier).instruction.immediate = pending;
  return {};
}

/// d, a (descriptor or registers), b (descriptor)[, metadata, selector], scale-d, scale-a, scale-b[, transpose-a]
/// [, transpose-b].
Status Decoder::wgmma_product() {
  MatrixForm form;
  form.sparse = modifiers_.take("sp");
  if (!parse_shape(modifiers_.take_front(), form)) return fail("wgmma needs a shape");
  const auto d_type = modifiers_.take_type();
  const auto a_type = modifiers_.take_type();
  const auto b_type = modifiers_.take_type();
  if (!d_type || !a_type || !b_type) return fail("wgmma needs three types");
  form.saturate = modifiers_.take("satfinite");
  const bool counts_both = modifiers_.take("and") && modifiers_.take("popc");
  STITCH_TRY(finish_modifiers());
  STITCH_ASSIGN(form.accumulator, matrix_type(*d_type));
  STITCH_ASSIGN(form.a, matrix_type(*a_type));
  STITCH_ASSIGN(form.b, matrix_type(*b_type));
  const bool integers = form.accumulator == MatrixType::s32;
  // Every row of an operand is 32 bytes; of B 64 where half of A is not stored.
  const bool fits = form.stored_k() * bits(*a_type) == 256 && bits(*a_type) >= (form.sparse ? 8 : 1) &&
                    bits(*a_type) != 4 && bits(*a_type) != 64;
  if (form.m != 64 || form.n % 8 != 0 || form.n > 256 || !fits || !types_multiply(form) ||
      (form.saturate && (!integers || counts_both)) || counts_both != (form.a == MatrixType::b1)) {
    return unsupported("this form of wgmma");
  }
  const std::size_t more = form.sparse ? 2 : 0;
  STITCH_TRY(expect_operands(4 + more, 8 + more));
  form.a_in_registers = operand(1).kind == ptx::Operand::Kind::vector;
  InstructionDraft lists;
  MemoryAccess shape;
  shape.elements = form.accumulator == MatrixType::f16 ? form.n / 4 : form.n / 2;
  STITCH_TRY(vector_list(lists, operand(0), shape, Type::b32, true));
  Ref a;
  if (form.a_in_registers) {
    MemoryAccess a_shape;
    a_shape.elements = 4;
    STITCH_TRY(vector_list(lists, operand(1), a_shape, Type::b32, false));
  } else {
    STITCH_ASSIGN(a, source(operand(1), Type::b64));
  }
  STITCH_ASSIGN(const Ref b, source(operand(2), Type::b64));
  if (form.sparse) STITCH_TRY(sparsity(3, form, lists.list));
  const ptx::Operand& adds = operand(3 + more);
  STITCH_ASSIGN(const Ref scale, adds.kind == ptx::Operand::Kind::integer
                                     ? Result<Ref>(constant(Width::predicate, adds.bits != 0 ? 1 : 0))
                                     : predicate(adds));
  const auto flag = [this, more](std::size_t i) { return i + more < operand_count() ? operand(i + more).bits : 0; };
  form.negate_a = flag(4) == ~std::uint64_t{0};
  form.negate_b = flag(5) == ~std::uint64_t{0};
  form.transpose_a = !form.a_in_registers && flag(6) != 0;
  form.transpose_b = flag(form.a_in_registers ? 6 : 7) != 0;
  InstructionDraft& draft = emit(Opcode::wgmma, InstructionClass::tensor);
  draft.list_defines = shape.elements;
  draft.list = std::move(lists.list);
  draft.list_reads_definitions = true;
  draft.a = a;
  draft.b = b;
  draft.c = scale;
  draft.instruction.detail = append(code_.matrices, form);
  return {};
}

}  // namespace stitch::emulator
