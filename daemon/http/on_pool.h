#pragma once

#include <utility>  // before awaitable.hpp, which uses it

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>

namespace stitch::daemon {

/// Runs `work` on the pool and comes back with its result.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work>> on_pool(boost::asio::thread_pool& pool, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto initiation = [&pool](auto handler, Work task) {
    boost::asio::post(pool, [handler = std::move(handler), task = std::move(task)]() mutable {
      Value value = task();
      auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [handler = std::move(handler), value = std::move(value)]() mutable {
        std::move(handler)(std::move(value));
      });
    });
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Value)>(
      initiation, boost::asio::use_awaitable, std::move(work));
}

}  // namespace stitch::daemon
