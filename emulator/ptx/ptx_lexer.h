#pragma once

#include <cstdint>
#include <string_view>

namespace stitch::emulator::ptx {

enum class TokenKind : std::uint8_t {
  word,         ///< directive, opcode with its modifiers, register, symbol: "ld.global.f32", "%r1", ".param"
  number,       ///< as written: "12", "0x1F", "0f3F800000", "1.5"
  text,         ///< a string literal without its quotes
  punctuation,  ///< one character
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  std::uint32_t line = 1;  ///< 1-based

  [[nodiscard]] bool is(char punctuation) const {
    return kind == TokenKind::punctuation && text.front() == punctuation;
  }
  [[nodiscard]] bool is(std::string_view word) const { return kind == TokenKind::word && text == word; }
};

/// Splits PTX text into tokens; comments and white space vanish. "::" belongs to words, since it occurs in modifiers
/// (shared::cluster). Tokens view the text, which must outlive them.
class Lexer {
 public:
  explicit Lexer(std::string_view source);

  [[nodiscard]] const Token& peek() const { return current_; }
  [[nodiscard]] const Token& peek_second() const { return next_; }
  Token take();

 private:
  Token scan();
  void skip_blank();

  std::string_view source_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  Token current_;
  Token next_;
};

}  // namespace stitch::emulator::ptx
