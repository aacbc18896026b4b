#include "daemon/http/request_body.h"

#include <algorithm>

namespace stitch::daemon {

bool BodyShare::grow_to(std::int64_t bytes) {
  const std::int64_t more = bytes - budget_.small_bytes - held_;
  if (more <= 0) return true;
  if ((budget_.held_bytes += more) > budget_.total_bytes) {
    budget_.held_bytes -= more;
    return false;
  }
  held_ += more;
  return true;
}

void CountedBody::reader::init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error) {
  claimed_ = length.value_or(0);
  error = {};
}

/// Room is made in steps that double, up to what was claimed: no body takes more than twice what has arrived of it.
bool CountedBody::reader::append(boost::asio::const_buffer buffer, boost::system::error_code& error) {
  constexpr std::size_t least = 4096;
  std::string& bytes = body_.bytes;
  const std::size_t needed = bytes.size() + buffer.size();
  if (needed > bytes.capacity()) {
    std::size_t room = std::max({needed, 2 * bytes.capacity(), least});
    if (claimed_ >= needed) room = std::min<std::size_t>(room, claimed_);
    if (!body_.share->grow_to(static_cast<std::int64_t>(room))) {
      error = make_error_code(boost::system::errc::not_enough_memory);
      return false;
    }
    bytes.reserve(room);
  }
  bytes.append(static_cast<const char*>(buffer.data()), buffer.size());
  error = {};
  return true;
}

}  // namespace stitch::daemon
