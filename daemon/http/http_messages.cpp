#include "daemon/http/http_messages.h"

#include <fmt/format.h>

#include <iterator>

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
  if (error == boost::system::errc::not_enough_memory) {
    return refuse(503, ErrorKind::resource_exhausted, "too many large requests at once");
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

http::Request request_of(wire::request<CountedBody>&& message) {
  http::Request request;
  request.method = text_of(message.method_string());
  request.target = text_of(message.target());
  request.content_type = text_of(message[wire::field::content_type]);
  request.accept = text_of(message[wire::field::accept]);
  request.last_event_id = text_of(message["Last-Event-ID"]);
  request.if_none_match = text_of(message[wire::field::if_none_match]);
  request.body = std::move(message.body().bytes);
  return request;
}

std::string head_of(const http::Response& response, unsigned version, bool keep_alive) {
  std::string head;
  head.reserve(256);
  const auto out = std::back_inserter(head);
  fmt::format_to(out, "HTTP/1.{} {} {}\r\nServer: stitchd/{}\r\nContent-Type: {}\r\n", version % 10, response.status,
                 text_of(wire::obsolete_reason(static_cast<wire::status>(response.status))), tool_version,
                 response.content_type);
  for (const auto& [name, value] : response.headers) fmt::format_to(out, "{}: {}\r\n", name, value);
  const bool usual = version >= 11;  // what the version does without being told
  if (keep_alive != usual) head += keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  // What was not modified has no body, and its length would be that of the one which the client has.
  if (response.status != 304) fmt::format_to(out, "Content-Length: {}\r\n", response.bytes().size());
  head += "\r\n";
  return head;
}

std::string head_of(const http::Stream& stream) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nServer: stitchd/{}\r\nContent-Type: {}\r\nCache-Control: no-store\r\nConnection: close\r\n"
      "Transfer-Encoding: chunked\r\n\r\n",
      tool_version, stream.content_type);
}

}  // namespace stitch::daemon
