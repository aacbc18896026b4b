#pragma once

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/type_traits.hpp>
#include <boost/optional.hpp>
#include <cstdint>
#include <string>

#include "daemon/http/http_limits.h"

// How the bodies of requests are taken in: memory is set aside for what has arrived, not for what is claimed, so that
// who claims much and sends nothing takes nothing from others.
namespace stitch::daemon {

/// The memory that all bodies may take together.
struct BodyBudget {
  explicit BodyBudget(const HttpLimits& limits)
      : total_bytes(limits.buffered_bytes), small_bytes(limits.small_body_bytes) {}

  const std::int64_t total_bytes;
  const std::int64_t small_bytes;  ///< of each body: not counted, so that small requests are taken at any time
  std::atomic<std::int64_t> held_bytes = 0;
};

/// What one body takes of it; given back on destruction.
class BodyShare {
 public:
  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  ~BodyShare() { budget_.held_bytes -= held_; }

  /// Makes room for a body of so many bytes in all; false when there is none.
  bool grow_to(std::int64_t bytes);

 private:
  BodyBudget& budget_;
  std::int64_t held_ = 0;
};

/// A body for Boost.Beast's parser that grows as it arrives. Reading ends with not_enough_memory when its share cannot.
struct CountedBody {
  struct value_type {
    std::string bytes;
    BodyShare* share = nullptr;  ///< set before the body is read
  };

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>& /*head*/, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error);
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      std::size_t taken = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer buffer(*it);
        if (!append(buffer, error)) return taken;
        taken += buffer.size();
      }
      error = {};
      return taken;
    }
    static void finish(boost::system::error_code& error) { error = {}; }

   private:
    bool append(boost::asio::const_buffer buffer, boost::system::error_code& error);

    value_type& body_;
    std::uint64_t claimed_ = 0;  ///< 0: not said
  };
};

}  // namespace stitch::daemon
