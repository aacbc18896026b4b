#include "daemon/http/admission.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/field.hpp>
#include <cerrno>
#include <cstring>

#include "daemon/http/http_messages.h"

namespace stitch::daemon {
namespace {

constexpr std::string_view scheme = "Bearer ";

http::Response forbidden(std::string message) {
  return http::error_response(403, {ErrorKind::invalid_argument, std::move(message)}, graph::Encoding::json);
}

http::Response unauthorized(std::string_view what) {
  http::Response response = http::error_response(
      401,
      make_error(ErrorKind::invalid_argument,
                 "Authorization: {}; over TCP stitchd wants the secret of its token file, as 'Bearer SECRET'", what),
      graph::Encoding::json);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

bool names_this_machine(std::string_view host) {
  std::string_view name = host.substr(0, host.find(':'));
  if (const std::size_t end = host.find(']'); host.starts_with('[') && end != std::string_view::npos) {
    name = host.substr(1, end - 1);
  }
  if (boost::beast::iequals({name.data(), name.size()}, "localhost")) return true;
  boost::system::error_code error;
  const boost::asio::ip::address address = boost::asio::ip::make_address(std::string(name), error);
  return !error && address.is_loopback();
}

bool same_secret(std::string_view given, std::string_view secret) {
  return given.size() == secret.size() && CRYPTO_memcmp(given.data(), secret.data(), secret.size()) == 0;
}

std::optional<http::Response> refusal_of(const wire::fields& header, std::string_view secret) {
  if (header.count(wire::field::host) != 1) return forbidden("Host: not given once");
  if (!names_this_machine(text_of(header[wire::field::host]))) return forbidden("Host: not a name of this machine");
  if (header.count(wire::field::origin) != 0)
    return forbidden("Origin: requests of web pages are not served, whatever page it is");
  const auto site = header.find("Sec-Fetch-Site");
  if (site != header.end() && site->value() != "none")
    return forbidden("Sec-Fetch-Site: requests of web pages are not served");
  if (header.count(wire::field::authorization) != 1) return unauthorized("not given once");
  const std::string_view given = text_of(header[wire::field::authorization]);
  const bool bearer = given.size() > scheme.size() &&
                      boost::beast::iequals({given.data(), scheme.size()}, {scheme.data(), scheme.size()});
  if (secret.empty() || !bearer || !same_secret(given.substr(scheme.size()), secret))
    return unauthorized("not the secret");
  return std::nullopt;
}

Result<std::string> make_secret() {
  std::array<unsigned char, 32> bits{};
  std::size_t filled = 0;
  while (filled < bits.size()) {
    const ssize_t got = ::getrandom(bits.data() + filled, bits.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_error(ErrorKind::io, "no random bits: {}", std::strerror(errno));
    filled += got;
  }
  std::string digits;
  for (const unsigned char octet : bits) digits += fmt::format("{:02x}", octet);
  return digits;
}

Status check_content_type(std::string_view content_type, bool any) {
  if (content_type.empty())
    return make_error(ErrorKind::unsupported, "a POST needs a Content-Type: application/json or application/cbor{}",
                      any ? ", or application/octet-stream" : "");
  const std::string type = http::media_type(content_type);
  if (type == "application/json" || type == "application/cbor" || (any && type == "application/octet-stream"))
    return {};
  return make_error(ErrorKind::unsupported, "content type '{}': application/json and application/cbor are understood{}",
                    type, any ? ", and application/octet-stream" : "");
}

}  // namespace stitch::daemon
