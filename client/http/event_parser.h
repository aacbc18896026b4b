#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stitch::client {

/// One server-sent event.
struct ServerEvent {
  std::string id;  ///< of this event, or the last one that had any
  std::string kind = "message";
  std::string data;

  bool operator==(const ServerEvent&) const = default;
};

/// Puts events together from a stream's bytes, however they are cut (HTML standard, "Server-sent events", 9.2.6).
class EventParser {
 public:
  explicit EventParser(std::function<bool(const ServerEvent&)> sink) : sink_(std::move(sink)) {}
  /// False when the sink wanted no more.
  bool feed(std::string_view bytes);

 private:
  bool take_line(std::string_view line);

  std::function<bool(const ServerEvent&)> sink_;
  std::string rest_;  ///< of a line that is not complete
  ServerEvent event_;
  bool has_data_ = false;
};

}  // namespace stitch::client
