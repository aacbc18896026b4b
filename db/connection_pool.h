#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "db/sqlite.h"

namespace stitch::db {

/// Connections for reading, opened when first needed and lent to one thread at a time. When all are lent, the next
/// reader waits.
class ConnectionPool {
 public:
  ConnectionPool(sqlite::OpenOptions options, int size);

  /// A lent connection; goes back on destruction.
  class Loan {
   public:
    Loan(ConnectionPool& pool, std::unique_ptr<sqlite::Connection> connection)
        : pool_(&pool), connection_(std::move(connection)) {}
    Loan(Loan&&) noexcept = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (connection_) pool_->take_back(std::move(connection_));
    }
    sqlite::Connection& operator*() { return *connection_; }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<sqlite::Connection> connection_;
  };

  Result<Loan> borrow();

 private:
  void take_back(std::unique_ptr<sqlite::Connection> connection);

  const sqlite::OpenOptions options_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<sqlite::Connection>> idle_;  // guarded by mutex_
  int unopened_;                                           // guarded by mutex_
};

}  // namespace stitch::db
