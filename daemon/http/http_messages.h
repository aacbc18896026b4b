#pragma once

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string>
#include <string_view>

#include "daemon/http/http.h"
#include "daemon/http/http_limits.h"
#include "daemon/http/request_body.h"

// Between the messages of Boost.Beast, as they travel, and those that routes see.
namespace stitch::daemon {

namespace wire = boost::beast::http;

/// Read ahead of what is being parsed. What lies between the parts of a body (extensions of chunks, trailers) has to
/// fit, and no limit of the parser is for it.
inline constexpr std::size_t most_read_ahead = 64 * 1024;

/// What to answer when a request cannot be read; status 0: nobody listens any more, or the request took too long (the
/// connection is closed then).
http::Response refusal_of(const boost::system::error_code& error, const HttpLimits& limits);

http::Request request_of(wire::request<CountedBody>&& message);
std::string_view text_of(boost::beast::string_view text);

/// What comes before a response's body; `keep_alive`: whether the connection goes on.
std::string head_of(const http::Response& response, unsigned version, bool keep_alive);
/// What comes before the parts of a stream, which ends the connection.
std::string head_of(const http::Stream& stream);

}  // namespace stitch::daemon
