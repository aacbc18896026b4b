#include "emulator/ptx/ptx_error.h"

namespace stitch::emulator::ptx {

std::string_view line_text(std::string_view source, std::uint32_t line) {
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < line; ++i) {
    const std::size_t end = source.find('\n', begin);
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
  std::string_view text = source.substr(begin, source.find('\n', begin) - begin);
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Error error_at(ErrorKind kind, std::string_view source, std::uint32_t line, std::string_view message) {
  constexpr std::size_t longest = 160;
  std::string_view text = line_text(source, line);
  const bool cut = text.size() > longest;
  return make_error(kind, "PTX line {}: {}: `{}{}`", line, message, text.substr(0, longest), cut ? "…" : "");
}

}  // namespace stitch::emulator::ptx
