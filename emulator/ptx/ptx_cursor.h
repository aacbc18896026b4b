#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "emulator/dim3.h"
#include "emulator/ptx/ptx_lexer.h"

namespace stitch::emulator::ptx {

/// A numeric literal: "12", "0x1F", "0f3F800000" (an f32's bits), "0d…" or "1.5" (an f64's).
struct Number {
  enum class Kind : std::uint8_t { integer, real32, real64 } kind = Kind::integer;
  std::uint64_t bits = 0;
};

/// The reader's place in the tokens of a module. What it reads is taken when it is what was asked for; otherwise the
/// place stays, and where something must stand there is an error that names the line.
class Cursor {
 public:
  explicit Cursor(std::string_view source) : source_(source), lexer_(source) {}

  [[nodiscard]] const Token& peek() const { return lexer_.peek(); }
  [[nodiscard]] const Token& peek_second() const { return lexer_.peek_second(); }
  Token take() { return lexer_.take(); }

  /// A parse error at the next token's line, or at `line`.
  [[nodiscard]] Error fail(std::string_view message) const { return fail(peek().line, message); }
  [[nodiscard]] Error fail(std::uint32_t line, std::string_view message) const;

  /// Takes the punctuation, or the word, if it is next.
  bool accept(char punctuation);
  bool accept(std::string_view word);
  Status expect(char punctuation);
  /// A word, whatever it says; `what` names it in the error.
  Result<std::string_view> word(std::string_view what);
  /// A literal without its sign; false when the next token is none.
  bool number(Number& number);
  Result<std::uint64_t> integer();
  Result<std::uint32_t> small_integer();
  /// "x", "x, y" or "x, y, z".
  Result<Dim3> dimensions();
  Status skip_to_semicolon();

 private:
  std::string_view source_;
  Lexer lexer_;
};

}  // namespace stitch::emulator::ptx
