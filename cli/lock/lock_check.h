#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/program_lock.h"
#include "client/client.h"
#include "db/store.h"

namespace stitch::cli {

/// What has plans and their code: a database or a server.
class PlanHolder {
 public:
  virtual ~PlanHolder() = default;
  struct Served {
    bool is_known = true;         ///< false: it cannot say what it serves for this target
    std::optional<Hash128> plan;  ///< nothing: none
  };
  virtual Result<Served> served(const Hash128& fragment, const api::PlanTarget& target) = 0;
  /// Errors: not_found.
  virtual Result<api::Plan> plan(const Hash128& id) = 0;
  /// Whether the bytes are there and are what the hash names. Errors: not_found, corrupt.
  virtual Status check_artifact(const Sha256& hash) = 0;
};

/// `store` and `server` must outlive it.
std::unique_ptr<PlanHolder> holder_of(const db::Store& store);
/// The server's artifacts are asked for, not those of a local folder: `server` is opened without one.
std::unique_ptr<PlanHolder> holder_of(client::Client& server);

/// Something that is not as the lock has it.
struct LockFault {
  int line = 0;  ///< of the lock
  std::string text;
};

struct LockReport {
  std::size_t programs = 0, fragments = 0, artifacts = 0;
  std::vector<LockFault> faults;
  /// A target for which the holder cannot say what it serves: only the locked plans themselves were looked at.
  std::optional<std::string> unknown_target;
};

/// Every plan that is locked, its code, and what is served in its place. Errors: those of the holder but for what is
/// missing or damaged.
Result<LockReport> check_plans(const std::vector<api::LockedProgram>& locked, PlanHolder& holder);

}  // namespace stitch::cli
