#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

/// Walks over HLO text, keeping count of lines. White space and comments (/* */ and //) separate tokens and are
/// skipped in front of each. Every error is ErrorKind::parse and begins with "line L, column C: ".
class Scanner {
 public:
  /// `start` is where `text` stands in the file, when it is a piece of one.
  explicit Scanner(std::string_view text, Position start = {}) : text_(text), line_(start.line) {
    line_start_ = -static_cast<std::int64_t>(start.column - 1);
  }

  /// Of the next token.
  Position position();
  bool at_end();
  /// First character of the next token, 0 at the end.
  char peek();
  /// The character right here, without skipping anything: "f32[2]{0}" and "f32[] {" differ by it.
  [[nodiscard]] char here() const { return next_ < text_.size() ? text_[next_] : '\0'; }

  bool take(std::string_view token);
  Status expect(std::string_view token, std::string_view what);
  /// Letters, digits, '_', '.', '-' (but no "->"); empty when none stands here.
  std::string_view word();
  /// A name, its % removed.
  Result<std::string_view> name(std::string_view what);
  /// A decimal integer of at most 2^40 in magnitude: beyond any extent, and products of two do not overflow unseen.
  Result<std::int64_t> integer(std::string_view what);
  /// From an opening bracket through the closing one; strings and comments inside are skipped over.
  Result<std::string_view> balanced();
  Status skip_balanced();
  /// An attribute's value: up to a comma, line end or closing bracket outside of brackets and strings.
  Result<std::string_view> attribute_value();
  void skip_line();

  /// A parse error at the next token.
  [[nodiscard]] Error error(std::string_view message);

 private:
  void skip_space();
  void advance(std::size_t count);
  /// Behind a string that begins here; npos when it does not end.
  [[nodiscard]] std::size_t behind_string(std::size_t from) const;
  /// Behind the bracketed text that begins here, or the error.
  Result<std::size_t> behind_brackets(std::size_t from);
  [[nodiscard]] Position position_of(std::size_t offset) const;

  std::string_view text_;
  std::size_t next_ = 0;
  std::int32_t line_ = 1;
  std::int64_t line_start_ = 0;  ///< offset of the current line's first character
};

/// "line L, column C: message", kind parse.
Error parse_error(Position at, std::string_view message);

}  // namespace stitch::import::hlo
