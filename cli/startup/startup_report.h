#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stitch::cli {

/// What a process that starts with a model's program waits for, one after the other.
struct StartupPhase {
  std::string name;             ///< "fetch"
  double cold_us = 0;           ///< the first time in this process
  std::vector<double> warm_us;  ///< each time after it
};

/// What `stitch bench --startup` tells.
struct StartupReport {
  std::string model, from;  ///< from: the server's address, or "package"
  std::int64_t fragments = 0, planned = 0, launches = 0;
  std::int64_t code_bytes = 0;
  std::vector<StartupPhase> phases;
  /// What the server made meanwhile, for whomever: the counters of docs/api.md, by name ("plans_predicted").
  std::vector<std::pair<std::string, std::int64_t>> made;
};

std::string to_table(const StartupReport& report);
std::string to_json(const StartupReport& report);

}  // namespace stitch::cli
