#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/session.h"
#include "cli/startup/startup_report.h"

namespace stitch::cli {

struct StartupOptions {
  CommonOptions common;
  std::filesystem::path model;  ///< a model's file, or a package
  std::string server;           ///< of a model: has its program
  int repeat = 20;              ///< how often, after the first time
};

/// How long a process waits until a model's program can run, by phase: the model's file is read (and hashed: that is
/// its program's key), the server asked for the program with all code, asked whether it is still right, and the code
/// loaded on the device; of a package, read, decoded and loaded. Nothing is imported, planned or compiled. Errors:
/// those of the client (not_found: the model was not tuned there), of packages and of client::ProgramRunner::open.
Result<StartupReport> measure_startup(const StartupOptions& options);

}  // namespace stitch::cli
