#pragma once

#include <CLI/CLI.hpp>

#include "daemon/stitchd.h"

namespace stitch::daemon {

/// The options of `stitchd` and of `stitch serve`, which are one program.
inline void add_options(CLI::App& app, StitchdOptions& options) {
  app.add_option("--db", options.database, "database file")->capture_default_str();
  app.add_option("--socket", options.socket, "Unix-domain socket; \"\" for none")->capture_default_str();
  app.add_option("--tcp", options.tcp, "also serve on this loopback port or address:port");
  app.add_option("--token-file", options.token_file,
                 "where the secret is written that requests over TCP must carry; by default beside the default socket");
  app.add_option("--target", options.target, "GPU that is planned for; by default the one that is there, or h100");
  app.add_option("--arch", options.architecture, "architecture compiled for; by default the target's");
  app.add_option("--device", options.device,
                 "where plans are verified, and measured if it can: emulated, emulated:counts, gpu:N, recorded:FILE")
      ->capture_default_str();
  app.add_option("--scorer", options.scorer, "what predicts times; auto: the newest model that is fit")
      ->check(CLI::IsMember({"auto", "analytical", "combined"}))
      ->capture_default_str();
  app.add_option("--trials", options.trials,
                 "of each fragment that is tuned: candidates that are tried beyond the first few of each kernel")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option(
         "--keep-days", options.keep_days,
         "finished jobs, unmeasured plans that were overtaken and models' files are dropped when older; 0: never")
      ->check(CLI::Range(0, 36'500))
      ->capture_default_str();
  app.add_option("--workers", options.workers, "jobs at once")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--connections", options.limits.connections,
                 "open at once; when there are more, the one that is silent for longest is closed")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--cache", options.cache, "folder of compiled kernels; by default beside the database");
  app.add_option("--log-level", options.log_level, "how much is written to standard error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

}  // namespace stitch::daemon
