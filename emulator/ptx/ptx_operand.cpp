#include "emulator/ptx/ptx_operand.h"

#include <utility>

namespace stitch::emulator::ptx {
namespace {

/// `depth` counts the brackets that an operand stands in, itself included.
Result<Operand> operand(Cursor& in, int depth);

Status elements(Cursor& in, Operand& list, char close, int depth) {
  in.take();
  while (!in.accept(close)) {
    STITCH_ASSIGN(Operand element, operand(in, depth + 1));
    list.elements.push_back(std::move(element));
    if (!in.accept(',') && !in.peek().is(close)) return in.fail(fmt::format("expected ',' or '{}'", close));
  }
  return {};
}

Result<Operand> address(Cursor& in, int depth) {
  Operand result;
  result.kind = Operand::Kind::address;
  in.take();
  if (in.peek().kind == TokenKind::word) {
    result.name = in.take().text;
  } else {
    STITCH_ASSIGN(const std::uint64_t base, in.integer());
    result.offset = base;
  }
  while (in.peek().is('+') || in.peek().is('-')) {
    const bool negative = in.take().is('-');
    STITCH_ASSIGN(const std::uint64_t amount, in.integer());
    result.offset += negative ? 0 - amount : amount;
  }
  // Tensor coordinates: kept, so that the decoder can say what it does not support.
  while (in.accept(',')) {
    STITCH_ASSIGN(Operand element, operand(in, depth + 1));
    result.elements.push_back(std::move(element));
  }
  STITCH_TRY(in.expect(']'));
  return result;
}

void set_number(Operand& operand, const Number& number, bool negative) {
  switch (number.kind) {
    case Number::Kind::integer:
      operand.kind = Operand::Kind::integer;
      operand.bits = negative ? 0 - number.bits : number.bits;
      break;
    case Number::Kind::real32:
      operand.kind = Operand::Kind::real32;
      operand.bits = negative ? number.bits ^ 0x80000000U : number.bits;
      break;
    case Number::Kind::real64:
      operand.kind = Operand::Kind::real64;
      operand.bits = negative ? number.bits ^ (std::uint64_t{1} << 63) : number.bits;
      break;
  }
}

Result<Operand> operand(Cursor& in, int depth) {
  // PTX has vectors in lists at the deepest; text that only opens brackets must not use the stack up.
  constexpr int deepest = 8;
  if (depth > deepest) return in.fail("operands are nested too deeply");
  Operand result;
  result.inverted = in.accept('!');
  const Token token = in.peek();
  if (token.is('[')) return address(in, depth);
  if (token.is('{') || token.is('(')) {
    result.kind = token.is('{') ? Operand::Kind::vector : Operand::Kind::list;
    STITCH_TRY(elements(in, result, token.is('{') ? '}' : ')', depth));
    return result;
  }
  if (token.kind == TokenKind::word) {
    result.name = in.take().text;
    if (in.accept('|')) {
      STITCH_ASSIGN(result.second, in.word("second destination"));
    } else if (in.accept('+')) {
      STITCH_ASSIGN(const std::uint64_t amount, in.integer());
      result.offset = amount;
    }
    return result;
  }
  const bool negative = in.accept('-');
  Number number;
  if (!in.number(number)) return in.fail(fmt::format("expected an operand before '{}'", in.peek().text));
  set_number(result, number, negative);
  return result;
}

}  // namespace

Result<Operand> read_operand(Cursor& in) { return operand(in, 1); }

}  // namespace stitch::emulator::ptx
