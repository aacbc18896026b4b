#include "import/hlo/scanner.h"

#include <cctype>
#include <charconv>
#include <string>

namespace stitch::import::hlo {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

char closing(char open) {
  switch (open) {
    case '(': return ')';
    case '[': return ']';
    case '{': return '}';
    default: return '\0';
  }
}

constexpr std::int64_t largest_integer = std::int64_t{1} << 40;

}  // namespace

Error parse_error(Position at, std::string_view message) {
  return make_error(ErrorKind::parse, "line {}, column {}: {}", at.line, at.column, message);
}

void Scanner::advance(std::size_t count) {
  for (const std::size_t end = next_ + count; next_ < end; ++next_) {
    if (text_[next_] == '\n') {
      ++line_;
      line_start_ = static_cast<std::int64_t>(next_) + 1;
    }
  }
}

void Scanner::skip_space() {
  while (next_ < text_.size()) {
    if (is_space(text_[next_])) {
      advance(1);
    } else if (text_.substr(next_).starts_with("/*")) {
      const std::size_t end = text_.find("*/", next_ + 2);
      advance((end == std::string_view::npos ? text_.size() : end + 2) - next_);
    } else if (text_.substr(next_).starts_with("//")) {
      skip_line();
    } else {
      return;
    }
  }
}

void Scanner::skip_line() {
  const std::size_t end = text_.find('\n', next_);
  advance((end == std::string_view::npos ? text_.size() : end) - next_);
}

Position Scanner::position_of(std::size_t offset) const {
  Position at{line_, 0};
  std::int64_t start = line_start_;
  for (std::size_t i = next_; i < offset && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++at.line;
      start = static_cast<std::int64_t>(i) + 1;
    }
  }
  at.column = static_cast<std::int64_t>(offset) - start + 1;
  return at;
}

Position Scanner::position() {
  skip_space();
  return position_of(next_);
}

bool Scanner::at_end() {
  skip_space();
  return next_ == text_.size();
}

char Scanner::peek() {
  skip_space();
  return here();
}

bool Scanner::take(std::string_view token) {
  skip_space();
  if (!text_.substr(next_).starts_with(token)) return false;
  advance(token.size());
  return true;
}

Status Scanner::expect(std::string_view token, std::string_view what) {
  if (take(token)) return {};
  return error(fmt::format("expected '{}' {}", token, what));
}

std::string_view Scanner::word() {
  skip_space();
  std::size_t end = next_;
  while (end < text_.size() && is_word_character(text_[end]) && !text_.substr(end).starts_with("->")) ++end;
  const std::string_view found = text_.substr(next_, end - next_);
  next_ = end;  // words have no line ends
  return found;
}

Result<std::string_view> Scanner::name(std::string_view what) {
  const bool percent = take("%");
  if (percent && !is_word_character(here())) return error(fmt::format("expected {}", what));
  const std::string_view found = word();
  if (found.empty()) return error(fmt::format("expected {}", what));
  return found;
}

Result<std::int64_t> Scanner::integer(std::string_view what) {
  skip_space();
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text_.data() + next_, text_.data() + text_.size(), value);
  if (status != std::errc{}) return error(fmt::format("expected {}", what));
  if (value > largest_integer || value < -largest_integer) return error(fmt::format("{} is out of range", what));
  next_ = end - text_.data();
  return value;
}

std::size_t Scanner::behind_string(std::size_t from) const {
  for (std::size_t i = from + 1; i < text_.size(); ++i) {
    if (text_[i] == '\\') {
      ++i;
    } else if (text_[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

Result<std::size_t> Scanner::behind_brackets(std::size_t from) {
  std::string open;  // the closing brackets still awaited
  std::size_t i = from;
  do {
    const char c = text_[i];
    if (c == '"') {
      const std::size_t end = behind_string(i);
      if (end == std::string_view::npos) return parse_error(position_of(i), "the string does not end");
      i = end;
      continue;
    }
    if (text_.substr(i).starts_with("/*")) {
      const std::size_t end = text_.find("*/", i + 2);
      if (end == std::string_view::npos) return parse_error(position_of(i), "the comment does not end");
      i = end + 2;
      continue;
    }
    if (closing(c) != '\0') {
      open.push_back(closing(c));
    } else if (c == ')' || c == ']' || c == '}') {
      if (c != open.back()) {
        return parse_error(position_of(i), fmt::format("found '{}' where '{}' should close", c, open.back()));
      }
      open.pop_back();
    }
    ++i;
  } while (!open.empty() && i < text_.size());
  if (!open.empty()) return parse_error(position_of(from), fmt::format("'{}' is not closed", text_[from]));
  return i;
}

Result<std::string_view> Scanner::balanced() {
  skip_space();
  if (closing(here()) == '\0') return error("expected a bracket");
  STITCH_ASSIGN(const std::size_t end, behind_brackets(next_));
  const std::string_view found = text_.substr(next_, end - next_);
  advance(end - next_);
  return found;
}

Status Scanner::skip_balanced() {
  const Result<std::string_view> text = balanced();
  return text ? Status() : text.error();
}

Result<std::string_view> Scanner::attribute_value() {
  skip_space();
  std::size_t end = next_;
  while (end < text_.size()) {
    const char c = text_[end];
    if (c == ',' || c == '\n' || c == ')' || c == ']' || c == '}') break;
    if (c == '"') {
      const std::size_t behind = behind_string(end);
      if (behind == std::string_view::npos) return parse_error(position_of(end), "the string does not end");
      end = behind;
    } else if (closing(c) != '\0') {
      STITCH_ASSIGN(end, behind_brackets(end));
    } else {
      ++end;
    }
  }
  std::string_view found = text_.substr(next_, end - next_);
  while (!found.empty() && is_space(found.back())) found.remove_suffix(1);
  if (found.empty()) return error("expected a value");
  advance(end - next_);
  return found;
}

Error Scanner::error(std::string_view message) {
  const Position at = position();
  if (next_ == text_.size()) return parse_error(at, fmt::format("{}, found the end of the text", message));
  std::size_t end = next_ + 1;
  if (is_word_character(here())) {
    while (end < text_.size() && end < next_ + 24 && is_word_character(text_[end])) ++end;
  }
  return parse_error(at, fmt::format("{}, found '{}'", message, text_.substr(next_, end - next_)));
}

}  // namespace stitch::import::hlo
