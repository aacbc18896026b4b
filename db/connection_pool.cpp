#include "db/connection_pool.h"

#include <algorithm>

#include "db/database_file.h"

namespace stitch::db {

ConnectionPool::ConnectionPool(sqlite::OpenOptions options, int size)
    : options_(std::move(options)), unopened_(std::max(1, size)) {}

Result<ConnectionPool::Loan> ConnectionPool::borrow() {
  {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !idle_.empty() || unopened_ > 0; });
    if (!idle_.empty()) {
      std::unique_ptr<sqlite::Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return Loan(*this, std::move(connection));
    }
    --unopened_;
  }
  auto opened = open_reader(options_);
  if (opened) return Loan(*this, std::move(*opened));
  {
    const std::lock_guard lock(mutex_);
    ++unopened_;
  }
  returned_.notify_one();
  return opened.error();
}

void ConnectionPool::take_back(std::unique_ptr<sqlite::Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
  }
  returned_.notify_one();
}

}  // namespace stitch::db
