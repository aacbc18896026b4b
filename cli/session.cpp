#include "cli/session.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "db/sqlite_store.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/devices/calibrated_device.h"

namespace stitch::cli {

ExitCode exit_code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::unavailable: return ExitCode::unavailable;
    case ErrorKind::cancelled: return ExitCode::interrupted;
    case ErrorKind::parse:
    case ErrorKind::invalid_argument:
    case ErrorKind::not_found:
    case ErrorKind::corrupt:
    case ErrorKind::version_mismatch:
    case ErrorKind::io: return ExitCode::bad_input;
    default: return ExitCode::failure;
  }
}

Status check_database(const std::filesystem::path& database, const FileSystem& files) {
  if (files.exists(database)) return {};
  return make_error(ErrorKind::not_found, "no database {}; --db FILE or --server ADDRESS names one", database.string());
}

std::filesystem::path default_cache() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0') {
    return std::filesystem::path(folder) / "stitch";
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".cache" / "stitch";
}

Result<std::unique_ptr<Session>> Session::open(const CommonOptions& options, tuning::TunerOptions tuning,
                                               const SessionStore& kept, const tuning::TimerOptions& timing) {
  auto session = std::make_unique<Session>();
  const std::filesystem::path cache = options.cache.empty() ? default_cache() : options.cache;
  tuning::DeviceOptions where;
  where.name = options.device;
  where.quarantine = cache / "quarantine.json";
  where.timing = timing;
  STITCH_ASSIGN(session->devices, tuning::DeviceSet::open(where, session->files, session->clock));
  if (!kept.database.empty()) {
    db::SqliteOptions storage;
    storage.path = kept.database;
    STITCH_ASSIGN(session->store, db::open_sqlite_store(storage, session->clock));
  }
  STITCH_ASSIGN(const auto planned,
                tuning::planning_device(options.target, session->devices->gpu(), session->store.get(), session->clock));
  for (const std::string& note : planned.notes) std::fprintf(stderr, "stitch: %s\n", note.c_str());
  tuning.device = planned.spec;
  if (session->store != nullptr) {
    STITCH_ASSIGN(tuning.cost_model, tuning::choose_cost_model(*session->store, planned.spec.name, kept.scorer));
  }
  tuning.architecture = options.architecture;
  tuning.artifact_folder = cache / "kernels";
  tuning.threads = options.threads;
  STITCH_ASSIGN(session->tuner, tuning::Tuner::create(std::move(tuning), session->devices->verifier(),
                                                      session->devices->timer(), session->files, session->clock));
  return session;
}

tuning::ProgressSink progress_display(bool quiet) {
  if (quiet || isatty(STDERR_FILENO) == 0) return {};
  return [](const tuning::Progress& progress) {
    std::fprintf(stderr, "\r\033[K%3.0f %% %-8s %s", progress.share * 100, progress.stage.c_str(),
                 progress.detail.c_str());
    if (progress.share >= 1) std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

}  // namespace stitch::cli
