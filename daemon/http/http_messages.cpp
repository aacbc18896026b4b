#include "daemon/http/http_messages.h"

#include <fmt/format.h>

#include "base/version.h"

namespace stitch::daemon {

using boost::system::error_code;

http::Response refusal_of(const error_code& error, const HttpLimits& limits) {
  const auto refuse = [](int status, ErrorKind kind, std::string message) {
    return http::error_response(status, {kind, std::move(message)}, graph::Encoding::json);
  };
  if (error == wire::error::header_limit) {
    return refuse(431, ErrorKind::resource_exhausted,
                  fmt::format("the header is longer than {} bytes", limits.header_bytes));
  }
  if (error == wire::error::body_limit) {
    return refuse(413, ErrorKind::resource_exhausted,
                  fmt::format("the body is longer than {} bytes", limits.body_bytes));
  }
  if (error == wire::error::buffer_overflow) {
    return refuse(431, ErrorKind::resource_exhausted,
                  fmt::format("a chunk's extension or the trailers are longer than {} bytes", most_read_ahead));
  }
  static const error_code any = wire::error::bad_method;
  if (error.category() == any.category() && error != wire::error::end_of_stream &&
      error != wire::error::partial_message) {
    return refuse(400, ErrorKind::parse, fmt::format("not HTTP/1.1: {}", error.message()));
  }
  http::Response nothing;
  nothing.status = 0;
  return nothing;
}

std::string_view text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

http::Request request_of(wire::request<wire::string_body>&& message) {
  http::Request request;
  request.method = text_of(message.method_string());
  request.target = text_of(message.target());
  request.content_type = text_of(message[wire::field::content_type]);
  request.accept = text_of(message[wire::field::accept]);
  request.last_event_id = text_of(message["Last-Event-ID"]);
  request.body = std::move(message.body());
  return request;
}

wire::response<wire::string_body> message_of(http::Response response, unsigned version, bool keep_alive) {
  wire::response<wire::string_body> message(static_cast<wire::status>(response.status), version);
  message.set(wire::field::server, "stitchd/" + std::string(tool_version));
  message.set(wire::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive);
  message.body() = std::move(response.body);
  message.prepare_payload();
  return message;
}

wire::response<wire::empty_body> stream_head(const http::Stream& stream) {
  wire::response<wire::empty_body> head(wire::status::ok, 11);
  head.set(wire::field::server, "stitchd/" + std::string(tool_version));
  head.set(wire::field::content_type, stream.content_type);
  head.set(wire::field::cache_control, "no-store");
  head.keep_alive(false);
  head.chunked(true);
  return head;
}

}  // namespace stitch::daemon
