#include "codegen/compile/compile_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace stitch::codegen {
namespace {

constexpr int context_lines = 1;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::optional<int> to_number(std::string_view digits) {
  int value = 0;
  const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// What follows "error:" or "error   :" in `text`, which may stand behind "catastrophic ".
std::optional<std::string> error_text(std::string_view text) {
  constexpr std::array<std::string_view, 3> kinds = {"error", "catastrophic error", "fatal"};
  for (const std::string_view kind : kinds) {
    if (!text.starts_with(kind)) continue;
    const std::size_t colon = text.find_first_not_of(' ', kind.size());
    if (colon == std::string_view::npos || text[colon] != ':') continue;
    const std::size_t begin = text.find_first_not_of(' ', colon + 1);
    return std::string(begin == std::string_view::npos ? std::string_view{} : text.substr(begin));
  }
  return std::nullopt;
}

/// "FILE(LINE): error: TEXT".
std::optional<CompileMessage> front_end_error(std::string_view line) {
  const std::size_t close = line.find("): ");
  if (close == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.rfind('(', close);
  if (open == std::string_view::npos) return std::nullopt;
  const auto number = to_number(line.substr(open + 1, close - open - 1));
  auto text = error_text(line.substr(close + 3));
  if (!number || !text) return std::nullopt;
  return CompileMessage{std::string(line.substr(0, open)), *number, std::move(*text)};
}

/// "ptxas application ptx input, line 29; error   : TEXT" or, without a place, "ptxas error   : TEXT".
std::optional<CompileMessage> assembler_error(std::string_view line) {
  constexpr std::string_view assembler = "ptxas ";
  constexpr std::string_view place = "line ";
  if (!line.starts_with(assembler)) return std::nullopt;
  line.remove_prefix(assembler.size());
  if (auto text = error_text(line)) return CompileMessage{"ptx", 0, std::move(*text)};
  const std::size_t at = line.find(place);
  const std::size_t semicolon = line.find("; ");
  if (at == std::string_view::npos || semicolon == std::string_view::npos || semicolon < at) return std::nullopt;
  const auto number = to_number(line.substr(at + place.size(), semicolon - at - place.size()));
  auto text = error_text(line.substr(semicolon + 2));
  if (!number || !text) return std::nullopt;
  return CompileMessage{"ptx", *number, std::move(*text)};
}

std::string quote(std::string_view contents, int line) {
  const auto lines = lines_of(contents);
  const int last = std::min<int>(line + context_lines, lines.size());
  const std::size_t width = fmt::format("{}", last).size();
  std::string text;
  for (int i = std::max(line - context_lines, 1); i <= last; ++i) {
    text += fmt::format("  {} {:>{}} | {}\n", i == line ? '>' : ' ', i, width, lines[i - 1]);
  }
  return text;
}

bool is_report(std::string_view line) { return line.starts_with("ptxas info") || line.starts_with("ptxas         ."); }

}  // namespace

std::vector<CompileMessage> compile_errors(std::string_view log) {
  constexpr std::string_view farewell = "Ptx assembly aborted due to errors";  // it repeats that there were some
  std::vector<CompileMessage> errors;
  for (const std::string_view line : lines_of(log)) {
    auto error = assembler_error(line);
    if (!error) error = front_end_error(line);
    if (error && error->text != farewell) errors.push_back(std::move(*error));
  }
  return errors;
}

std::string quote_errors(const std::vector<CompileMessage>& errors, const FileContents& contents, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < std::min(errors.size(), limit); ++i) {
    const CompileMessage& error = errors[i];
    if (error.line == 0) {
      text += fmt::format("{}: {}\n", error.file, error.text);
      continue;
    }
    text += fmt::format("{}:{}: {}\n{}", error.file, error.line, error.text, quote(contents(error.file), error.line));
  }
  if (errors.size() > limit) text += fmt::format("and {} more errors\n", errors.size() - limit);
  return text;
}

std::string without_ptxas_report(std::string_view log) {
  std::string text;
  for (const std::string_view line : lines_of(log)) {
    if (!is_report(line)) text.append(line).push_back('\n');
  }
  const std::size_t first = text.find_first_not_of('\n');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of('\n') + 1 - first);
}

}  // namespace stitch::codegen
