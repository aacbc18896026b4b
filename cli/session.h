#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "db/store.h"
#include "graph/constraints.h"
#include "tuning/devices/device_set.h"
#include "tuning/plans/tuner.h"

namespace stitch::cli {

/// Exit codes of every command; documented in docs/cli.md.
enum class ExitCode : int {
  success = 0,
  failure = 1,      ///< the work was done and found something wrong: a wrong kernel, a fragment without a plan
  usage = 2,        ///< options that make no sense
  bad_input = 3,    ///< a model, fragment or file that cannot be read
  unavailable = 4,  ///< no server, no toolkit, no device
  interrupted = 130
};

ExitCode exit_code_of(const Error& error);

/// Options that commands share.
struct CommonOptions {
  std::string target;  ///< empty: the GPU's own, or h100
  std::string architecture;
  std::string device = "emulated";
  std::filesystem::path cache;  ///< compiled kernels; empty: the user's cache folder
  int threads = 0;
  graph::Constraints constraints;  ///< of whatever is planned; only of commands with add_constraint_options
  bool json = false;
  bool quiet = false;
};

/// What a session takes from a database, and puts there: plans, calibrated constants, cost models.
struct SessionStore {
  std::filesystem::path database;  ///< empty: none
  std::string scorer = "auto";     ///< what predicts (tuning/cost_models/cost_model_training.h)
};

/// What offline commands work with: files, clock, devices and tuner, in the right order of destruction.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const CommonOptions& options, tuning::TunerOptions tuning = {},
                                               const SessionStore& kept = {}, const tuning::TimerOptions& timing = {});

  RealFileSystem files;
  SystemClock clock;
  std::unique_ptr<db::Store> store;  ///< null: none
  std::unique_ptr<tuning::DeviceSet> devices;
  std::unique_ptr<tuning::Tuner> tuner;
};

/// For commands that ask a database, which would make an empty one of a mistyped name: error not_found where there is
/// none.
Status check_database(const std::filesystem::path& database, const FileSystem& files);

/// The user's cache folder: $XDG_CACHE_HOME/stitch or ~/.cache/stitch.
std::filesystem::path default_cache();

/// Progress on a terminal's last line (stderr); nothing when it is not a terminal or `quiet`.
tuning::ProgressSink progress_display(bool quiet);

}  // namespace stitch::cli
