#include "daemon/http/http.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "api/protocol.h"

namespace stitch::daemon::http {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

Result<std::string> percent_decode(std::string_view text, std::string_view whole) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(text.data() - whole.data()) + i;
    char c = text[i];
    if (c == '%') {
      const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) {
        return make_error(ErrorKind::invalid_argument, "target: byte {}: a percent sign without two hexadecimal digits",
                          at);
      }
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return make_error(ErrorKind::invalid_argument, "target: byte {}: a control character", at);
    }
    decoded += c;
  }
  return decoded;
}

}  // namespace

std::string media_type(std::string_view text) {
  text = text.substr(0, text.find(';'));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

Result<Target> parse_target(std::string_view target) {
  if (!target.starts_with('/')) return make_error(ErrorKind::invalid_argument, "target: not an absolute path");
  const std::size_t mark = target.find('?');
  Target parsed;
  STITCH_ASSIGN(parsed.path, percent_decode(target.substr(0, mark), target));
  if (mark == std::string_view::npos) return parsed;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    const std::size_t equals = field.find('=');
    STITCH_ASSIGN(std::string name, percent_decode(field.substr(0, equals), target));
    std::string value;
    if (equals != std::string_view::npos) {
      STITCH_ASSIGN(value, percent_decode(field.substr(equals + 1), target));
    }
    if (!parsed.query.emplace(name, std::move(value)).second) {
      return make_error(ErrorKind::invalid_argument, "query: '{}' appears twice", name);
    }
  }
  return parsed;
}

Result<graph::Encoding> encoding_of(std::string_view content_type) {
  const std::string type = media_type(content_type);
  if (type.empty() || type == "application/json") return graph::Encoding::json;
  if (type == "application/cbor") return graph::Encoding::cbor;
  return make_error(ErrorKind::unsupported, "content type '{}': application/json and application/cbor are understood",
                    type);
}

graph::Encoding wanted_encoding(std::string_view accept) {
  while (!accept.empty()) {
    const std::string_view one = accept.substr(0, accept.find(','));
    accept.remove_prefix(std::min(accept.size(), one.size() + 1));
    if (media_type(one) == "application/cbor") return graph::Encoding::cbor;
  }
  return graph::Encoding::json;
}

std::string_view content_type_of(graph::Encoding encoding) {
  return encoding == graph::Encoding::json ? "application/json" : "application/cbor";
}

bool has_tag(std::string_view if_none_match, std::string_view tag) {
  while (!if_none_match.empty()) {
    std::string_view each = if_none_match.substr(0, if_none_match.find(','));
    if_none_match.remove_prefix(std::min(each.size() + 1, if_none_match.size()));
    while (!each.empty() && (each.front() == ' ' || each.front() == '\t')) each.remove_prefix(1);
    while (!each.empty() && (each.back() == ' ' || each.back() == '\t')) each.remove_suffix(1);
    if (each == "*") return true;
    if (each.starts_with("W/")) each.remove_prefix(2);
    if (each.size() == tag.size() + 2 && each.front() == '"' && each.back() == '"' && each.substr(1, tag.size()) == tag)
      return true;
  }
  return false;
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::parse:
    case ErrorKind::version_mismatch: return 400;
    case ErrorKind::not_found: return 404;
    case ErrorKind::already_exists:
    case ErrorKind::cancelled: return 409;
    case ErrorKind::unsupported:
    case ErrorKind::constraint:
    case ErrorKind::compile:
    case ErrorKind::correctness:
    case ErrorKind::runtime: return 422;
    case ErrorKind::resource_exhausted:
    case ErrorKind::unavailable: return 503;
    case ErrorKind::timeout: return 504;
    case ErrorKind::io:
    case ErrorKind::corrupt:
    case ErrorKind::internal: return 500;
  }
  return 500;
}

Response error_response(int status, const Error& error, graph::Encoding encoding) {
  Response response;
  response.status = status;
  response.content_type = content_type_of(encoding);
  response.body = api::encode_document(api::to_document(error), encoding);
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "5");
  return response;
}

Response error_response(const Error& error, graph::Encoding encoding) {
  return error_response(status_of(error.kind), error, encoding);
}

}  // namespace stitch::daemon::http
