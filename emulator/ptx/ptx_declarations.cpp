#include "emulator/ptx/ptx_declarations.h"

#include <algorithm>
#include <bit>

namespace stitch::emulator::ptx {
namespace {

Status initial_element(Cursor& in, Variable& variable, std::uint64_t& at) {
  const std::size_t width = bytes(variable.type);
  std::uint64_t value = 0;
  if (in.peek().kind == TokenKind::word) {
    std::string_view symbol = in.take().text;
    if (symbol == "generic") {
      STITCH_TRY(in.expect('('));
      STITCH_ASSIGN(symbol, in.word("symbol"));
      STITCH_TRY(in.expect(')'));
    }
    std::int64_t addend = 0;
    if (in.accept('+')) {
      STITCH_ASSIGN(const std::uint64_t amount, in.integer());
      addend = amount;
    }
    if (width != 8) return in.fail("an address needs a 64-bit element");
    variable.relocations.push_back({at, symbol, addend});
  } else {
    const bool negative = in.accept('-');
    Number number;
    if (!in.number(number)) return in.fail(fmt::format("expected an initial value before '{}'", in.peek().text));
    value = negative ? 0 - number.bits : number.bits;
    if (number.kind == Number::Kind::real64 && variable.type == Type::f32) {
      value = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(number.bits)));
    }
  }
  variable.initial.resize(at + width);
  for (std::size_t i = 0; i < width; ++i) variable.initial[at + i] = value >> (8 * i);
  at += width;
  return {};
}

Status initialiser(Cursor& in, Variable& variable) {
  std::uint64_t at = 0;
  if (!in.accept('{')) return initial_element(in, variable, at);
  for (int depth = 1; depth > 0;) {
    if (in.accept('{')) {
      ++depth;
    } else if (in.accept('}')) {
      --depth;
      in.accept(',');
    } else {
      STITCH_TRY(initial_element(in, variable, at));
      if (!in.accept(',') && !in.peek().is('}')) return in.fail("expected ',' or '}' in an initialiser");
    }
  }
  return {};
}

}  // namespace

Result<DeclaredType> declared_type(Cursor& in) {
  DeclaredType declared;
  for (;;) {
    STITCH_ASSIGN(const std::string_view text, in.word("type"));
    if (text == ".align") {
      STITCH_ASSIGN(declared.alignment, in.small_integer());
      if (!std::has_single_bit(declared.alignment)) return in.fail("alignment is not a power of two");
    } else if (text == ".v2" || text == ".v4") {
      declared.vector = text == ".v2" ? 2 : 4;
    } else if (text == ".ptr" || text == ".global" || text == ".const" || text == ".shared" || text == ".local" ||
               text.starts_with(".attribute")) {
      continue;
    } else if (const auto type = type_from_name(text.substr(text.starts_with('.') ? 1 : 0))) {
      declared.type = *type;
      break;
    } else {
      return in.fail(fmt::format("unknown type '{}'", text));
    }
  }
  // `.param .u64 .ptr .global .align 16 name`: what follows the type says where the pointer points.
  while (in.peek().kind == TokenKind::word && in.peek().text.starts_with('.')) {
    if (in.accept(".align")) {
      STITCH_TRY(in.integer());
    } else {
      in.take();
    }
  }
  const std::uint32_t natural = bytes(declared.type) * declared.vector;
  if (declared.alignment == 0) declared.alignment = std::max(natural, 1U);
  return declared;
}

Result<Variable> declared_variable(Cursor& in, StateSpace space, bool is_extern, std::uint32_t scope) {
  STITCH_ASSIGN(const DeclaredType declared, declared_type(in));
  Variable result;
  result.space = space;
  result.type = declared.type;
  result.vector = declared.vector;
  result.alignment = declared.alignment;
  result.is_extern = is_extern;
  result.scope = scope;
  result.line = in.peek().line;
  STITCH_ASSIGN(result.name, in.word("variable name"));
  result.bytes = std::uint64_t{declared.vector} * bytes(declared.type);
  bool open_ended = false;
  while (in.accept('[')) {
    result.is_array = true;
    if (in.accept(']')) {
      open_ended = true;
      continue;
    }
    STITCH_ASSIGN(const std::uint64_t count, in.integer());
    if (count != 0 && result.bytes > (std::uint64_t{1} << 40) / count) return in.fail("array too large");
    result.bytes *= count;
    STITCH_TRY(in.expect(']'));
  }
  // A thread's frame and a block's memory are far smaller on any GPU, and offsets into them have 32 bits.
  constexpr std::uint64_t most_local_bytes = std::uint64_t{1} << 20;
  const bool in_memory = space == StateSpace::global || space == StateSpace::constant;
  if (!in_memory && result.bytes > most_local_bytes) return in.fail("variable too large");
  if (in.accept('=')) STITCH_TRY(initialiser(in, result));
  if (open_ended) result.bytes = result.initial.size();
  return result;
}

Result<std::vector<Variable>> parameter_list(Cursor& in) {
  std::vector<Variable> list;
  if (!in.accept('(')) return list;
  while (!in.accept(')')) {
    if (in.accept(".reg")) return in.fail("register parameters are not supported");
    if (!in.accept(".param")) return in.fail(fmt::format("expected '.param' before '{}'", in.peek().text));
    STITCH_ASSIGN(Variable declared, declared_variable(in, StateSpace::param, false, 0));
    list.push_back(std::move(declared));
    if (!in.accept(',') && !in.peek().is(')')) return in.fail("expected ',' or ')' in a parameter list");
  }
  return list;
}

}  // namespace stitch::emulator::ptx
