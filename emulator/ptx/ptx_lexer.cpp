#include "emulator/ptx/ptx_lexer.h"

#include <cstddef>

namespace stitch::emulator::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' || c == '.';
}
bool is_word(char c) { return is_word_start(c) || is_digit(c); }

}  // namespace

Lexer::Lexer(std::string_view source) : source_(source) {
  current_ = scan();
  next_ = scan();
}

Token Lexer::take() {
  Token token = current_;
  current_ = next_;
  next_ = scan();
  return token;
}

void Lexer::skip_blank() {
  while (position_ < source_.size()) {
    const char c = source_[position_];
    const char following = position_ + 1 < source_.size() ? source_[position_ + 1] : '\0';
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++position_;
    } else if (c == '/' && following == '/') {
      while (position_ < source_.size() && source_[position_] != '\n') ++position_;
    } else if (c == '/' && following == '*') {
      position_ += 2;
      while (position_ < source_.size() && source_.substr(position_, 2) != "*/") {
        if (source_[position_] == '\n') ++line_;
        ++position_;
      }
      position_ += 2;
    } else {
      return;
    }
  }
}

Token Lexer::scan() {
  skip_blank();
  Token token{TokenKind::end, {}, line_};
  if (position_ >= source_.size()) return token;
  const std::size_t start = position_;
  const char c = source_[start];
  const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
  if (is_digit(c)) {
    while (is_digit(at(position_)) || (is_word_start(at(position_)) && at(position_) != '%')) ++position_;
    token.kind = TokenKind::number;
  } else if (is_word_start(c)) {
    // Directives are split where the next one begins: ".reg.b32".
    const bool is_directive = c == '.';
    for (;;) {
      if (is_directive && position_ > start && at(position_) == '.') break;
      if (is_word(at(position_))) {
        ++position_;
      } else if (at(position_) == ':' && at(position_ + 1) == ':') {
        position_ += 2;
      } else {
        break;
      }
    }
    token.kind = TokenKind::word;
  } else if (c == '"') {
    ++position_;
    while (position_ < source_.size() && at(position_) != '"' && at(position_) != '\n') ++position_;
    token.kind = TokenKind::text;
    token.text = source_.substr(start + 1, position_ - start - 1);
    ++position_;
    return token;
  } else {
    ++position_;
    token.kind = TokenKind::punctuation;
  }
  token.text = source_.substr(start, position_ - start);
  return token;
}

}  // namespace stitch::emulator::ptx
