#include "client/http/request_target.h"

#include <fmt/format.h>

namespace stitch::client {

std::string encoded(std::string_view text) {
  std::string target;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    // A name is for people: what a target cannot carry becomes a space.
    const unsigned char byte = c;
    if (plain) {
      target += c;
    } else {
      target += fmt::format("%{:02X}", byte < 0x20 || byte == 0x7f ? 0x20 : byte);
    }
  }
  return target;
}

std::string with_name(std::string_view path, std::string_view name) {
  return fmt::format("{}?name={}", path, encoded(name));
}

std::string code_query(api::CodeInside inside) {
  if (inside == api::CodeInside::none) return "";
  return inside == api::CodeInside::all ? "?code=1" : fmt::format("?code={}", to_string(inside));
}

}  // namespace stitch::client
