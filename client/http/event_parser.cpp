#include "client/http/event_parser.h"

namespace stitch::client {

bool EventParser::feed(std::string_view bytes) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool more = take_line(line);
    begin = end + 1;
    if (!more) return false;
  }
  rest_.erase(0, begin);
  return true;
}

bool EventParser::take_line(std::string_view line) {
  if (line.empty()) {
    bool more = true;
    if (has_data_) more = sink_(event_);
    event_ = {event_.id, "message", ""};
    has_data_ = false;
    return more;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") event_.id = value;
  if (field == "event") event_.kind = value;
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
  return true;
}

}  // namespace stitch::client
