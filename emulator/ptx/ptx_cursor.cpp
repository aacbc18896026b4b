#include "emulator/ptx/ptx_cursor.h"

#include <bit>
#include <charconv>
#include <limits>

#include "emulator/ptx/ptx_error.h"

namespace stitch::emulator::ptx {
namespace {

bool parse_digits(std::string_view text, int base, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end;
}

bool parse_number(std::string_view text, Number& number) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
    number.kind = Number::Kind::real32;
    return text.size() == 10 && parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
    number.kind = Number::Kind::real64;
    return text.size() == 18 && parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.find('.') != std::string_view::npos) {
    number.kind = Number::Kind::real64;
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    number.bits = std::bit_cast<std::uint64_t>(value);
    return error == std::errc() && stop == text.data() + text.size();
  }
  if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    return parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
    return parse_digits(text.substr(2), 2, number.bits);
  }
  return parse_digits(text, text.size() > 1 && text[0] == '0' ? 8 : 10, number.bits);
}

}  // namespace

Error Cursor::fail(std::uint32_t line, std::string_view message) const {
  return error_at(ErrorKind::parse, source_, line, message);
}

bool Cursor::accept(char punctuation) {
  if (!peek().is(punctuation)) return false;
  take();
  return true;
}

bool Cursor::accept(std::string_view word) {
  if (!peek().is(word)) return false;
  take();
  return true;
}

Status Cursor::expect(char punctuation) {
  if (accept(punctuation)) return {};
  return fail(fmt::format("expected '{}' before '{}'", punctuation, peek().text));
}

Result<std::string_view> Cursor::word(std::string_view what) {
  if (peek().kind != TokenKind::word) return fail(fmt::format("expected {} before '{}'", what, peek().text));
  return take().text;
}

bool Cursor::number(Number& number) {
  if (peek().kind != TokenKind::number || !parse_number(peek().text, number)) return false;
  take();
  return true;
}

Result<std::uint64_t> Cursor::integer() {
  const bool negative = accept('-');
  const Token token = peek();
  Number number;
  if (token.kind != TokenKind::number || !parse_number(token.text, number) || number.kind != Number::Kind::integer) {
    return fail(fmt::format("expected an integer before '{}'", token.text));
  }
  take();
  return negative ? 0 - number.bits : number.bits;
}

Result<std::uint32_t> Cursor::small_integer() {
  STITCH_ASSIGN(const std::uint64_t value, integer());
  if (value > std::numeric_limits<std::uint32_t>::max()) return fail("integer out of range");
  return static_cast<std::uint32_t>(value);
}

Result<Dim3> Cursor::dimensions() {
  Dim3 result;
  STITCH_ASSIGN(result.x, small_integer());
  if (accept(',')) {
    STITCH_ASSIGN(result.y, small_integer());
  }
  if (accept(',')) {
    STITCH_ASSIGN(result.z, small_integer());
  }
  return result;
}

Status Cursor::skip_to_semicolon() {
  while (!peek().is(';')) {
    if (peek().kind == TokenKind::end) return fail("text ends inside a statement");
    take();
  }
  take();
  return {};
}

}  // namespace stitch::emulator::ptx
