#include <charconv>

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

/// mma.sync.aligned.shape.row.col[.satfinite].d.a.b.c.
Status Decoder::mma() {
  MatrixForm form;
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
  if (!row_column || !modifiers_.rest().empty() || *d_type != *c_type) return unsupported("this form of mma");
  STITCH_ASSIGN(form.accumulator, matrix_type(*d_type));
  STITCH_ASSIGN(form.a, matrix_type(*a_type));
  STITCH_ASSIGN(form.b, matrix_type(*b_type));
  const int element_bits = bits(*a_type) == 8 ? 8 : *a_type == Type::tf32 ? 32 : 16;
  const int per_register = 32 / element_bits;
  const bool k_fits = form.k == 8 * per_register || form.k == 4 * per_register;
  const bool accumulates =
      form.a == MatrixType::s8 || form.a == MatrixType::u8
          ? form.accumulator == MatrixType::s32
          : form.accumulator == MatrixType::f32 || (form.accumulator == MatrixType::f16 && form.a == MatrixType::f16);
  if (form.m != 16 || form.n != 8 || !k_fits || !accumulates || form.saturate) return unsupported("this form of mma");
  STITCH_TRY(expect_operands(4));
  const std::size_t k_steps = form.k / (4 * per_register);
  const std::size_t d_count = form.accumulator == MatrixType::f16 ? 2 : 4;
  const std::size_t counts[] = {d_count, 2 * k_steps, k_steps, d_count};
  InstructionDraft lists;
  for (std::size_t i = 0; i < 4; ++i) {
    MemoryAccess shape;
    shape.elements = counts[i];
    STITCH_TRY(vector_list(lists, operand(i), shape, Type::b32, i == 0));
  }
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

/// d, a (descriptor or registers), b (descriptor), scale-d, scale-a, scale-b[, transpose-a][, transpose-b].
Status Decoder::wgmma_product() {
  MatrixForm form;
  if (!parse_shape(modifiers_.take_front(), form)) return fail("wgmma needs a shape");
  const auto d_type = modifiers_.take_type();
  const auto a_type = modifiers_.take_type();
  const auto b_type = modifiers_.take_type();
  if (!d_type || !a_type || !b_type) return fail("wgmma needs three types");
  STITCH_TRY(finish_modifiers());
  STITCH_ASSIGN(form.accumulator, matrix_type(*d_type));
  STITCH_ASSIGN(form.a, matrix_type(*a_type));
  STITCH_ASSIGN(form.b, matrix_type(*b_type));
  const bool halves = form.a == form.b && (form.a == MatrixType::f16 || form.a == MatrixType::bf16) && form.k == 16;
  const bool accumulates =
      form.accumulator == MatrixType::f32 || (form.accumulator == MatrixType::f16 && form.a == MatrixType::f16);
  if (form.m != 64 || form.n % 8 != 0 || form.n > 256 || !halves || !accumulates)
    return unsupported("this form of wgmma");
  STITCH_TRY(expect_operands(4, 8));
  form.a_in_registers = operand(1).kind == ptx::Operand::Kind::vector;
  InstructionDraft lists;
  MemoryAccess shape;
  shape.elements = form.accumulator == MatrixType::f32 ? form.n / 2 : form.n / 4;
  STITCH_TRY(vector_list(lists, operand(0), shape, Type::b32, true));
  Ref a;
  if (form.a_in_registers) {
    shape.elements = 4;
    STITCH_TRY(vector_list(lists, operand(1), shape, Type::b32, false));
  } else {
    STITCH_ASSIGN(a, source(operand(1), Type::b64));
  }
  STITCH_ASSIGN(const Ref b, source(operand(2), Type::b64));
  STITCH_ASSIGN(const Ref scale, operand(3).kind == ptx::Operand::Kind::integer
                                     ? Result<Ref>(constant(Width::predicate, operand(3).bits != 0 ? 1 : 0))
                                     : predicate(operand(3)));
  const auto flag = [this](std::size_t i) { return i < operand_count() ? operand(i).bits : 0; };
  form.negate_a = flag(4) == ~std::uint64_t{0};
  form.negate_b = flag(5) == ~std::uint64_t{0};
  form.transpose_a = !form.a_in_registers && flag(6) != 0;
  form.transpose_b = flag(form.a_in_registers ? 6 : 7) != 0;
  InstructionDraft& draft = emit(Opcode::wgmma, InstructionClass::tensor);
  draft.list_defines = form.accumulator == MatrixType::f32 ? form.n / 2U : form.n / 4U;
  draft.list = std::move(lists.list);
  draft.list_reads_definitions = true;
  draft.a = a;
  draft.b = b;
  draft.c = scale;
  draft.instruction.detail = append(code_.matrices, form);
  return {};
}

}  // namespace stitch::emulator
