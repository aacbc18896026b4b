#pragma once

#include <boost/beast/http/fields.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/http/http.h"

// Who may ask. A Unix-domain socket is guarded by its mode; a TCP port of this machine can be reached by all its users,
// and by every web page that one of them looks at.
namespace stitch::daemon {

/// "127.0.0.1:8080", "LocalHost", "[::1]:80": names that only this machine has.
bool names_this_machine(std::string_view host);

/// Why a request that came over TCP is not served, if it is not, by its header alone. 403: its Host is not a name of
/// this machine, or not one (a web page made its own name point here); a browser says that a page of another site sent
/// it (any Origin, any Sec-Fetch-Site but none). 401: it has not the secret, as "Authorization: Bearer SECRET".
std::optional<http::Response> refusal_of(const boost::beast::http::fields& header, std::string_view secret);

/// Whether two texts are the same, in a time that does not tell where they differ.
bool same_secret(std::string_view given, std::string_view secret);

/// A secret of 256 bits in hexadecimal digits. Error: io.
Result<std::string> make_secret();

/// Whether the body of a POST is of a type that its route reads and no form of a web page has. `any`: the contents
/// tell. Error: unsupported, names what is understood.
Status check_content_type(std::string_view content_type, bool any);

}  // namespace stitch::daemon
