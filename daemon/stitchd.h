#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "api/protocol.h"
#include "daemon/http/http_server.h"

namespace stitch::daemon {

struct StitchdOptions {
  std::filesystem::path database = default_database_path();
  std::filesystem::path socket = api::default_socket_path();  ///< empty: none
  std::optional<std::string> tcp;                             ///< port, or loopback address with port
  std::filesystem::path token_file;  ///< of the secret over TCP; empty: api::default_token_path
  std::string target;                ///< entry of the device table; empty: the GPU's own, or h100
  std::string architecture;          ///< compiled for; empty: the target's
  std::string device = "emulated";   ///< where plans are verified, and measured if it can
  int keep_days = 30;                ///< of ServiceOptions::keep_us
  std::int64_t trials = 0;           ///< of ServiceOptions::fragment_trials
  int workers = 1;                   ///< jobs at once
  std::string scorer = "auto";       ///< what predicts (tuning/cost_models/cost_model_training.h)
  std::filesystem::path cache;       ///< compiled kernels; empty: beside the database
  std::string log_level = "info";    ///< trace, debug, info, warning, error, off
  HttpLimits limits;

  /// $XDG_DATA_HOME/stitch/stitch.db, or ~/.local/share/stitch/stitch.db.
  static std::filesystem::path default_database_path();
};

/// Serves until SIGTERM or SIGINT, then stops in order: no new connections, requests finish, jobs go back to the queue.
/// A second signal ends the process at once. An error, which is on standard error already, when it could not start or
/// the store failed while stopping.
Status run_stitchd(const StitchdOptions& options);

}  // namespace stitch::daemon
