#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/http/http.h"
#include "daemon/http/http_limits.h"
#include "daemon/http/http_sessions.h"
#include "daemon/http/request_body.h"

// One connection of the HTTP server.
namespace stitch::daemon {

/// What all connections share.
struct HttpShared {
  HttpShared(HttpLimits with, std::string of_network, http::Handler handle, http::QuickHandler handle_quickly,
             int handler_threads)
      : limits(with),
        secret(std::move(of_network)),
        handler(std::move(handle)),
        quick(std::move(handle_quickly)),
        bodies(with),
        pool(handler_threads) {}

  const HttpLimits limits;
  const std::string secret;  ///< of requests over TCP
  const http::Handler handler;
  const http::QuickHandler quick;  ///< may be empty
  BodyBudget bodies;
  boost::asio::thread_pool pool;  ///< where handlers run
  std::atomic<bool> stopping = false;
};

/// Serves a connection until it ends, on the thread of its socket's executor. `check_sender`: refuse requests that
/// daemon/http/admission.h refuses, as of a web page or of another user.
void serve_connection(boost::asio::generic::stream_protocol::socket socket, HttpShared& shared, HttpSessions& sessions,
                      bool check_sender, Admission admission);

}  // namespace stitch::daemon
