#include "daemon/stitchd.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/file.h"
#include "base/version.h"
#include "daemon/http/file_lock.h"
#include "daemon/http/routes.h"
#include "daemon/jobs/service.h"
#include "db/sqlite_store.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/devices/calibrated_device.h"
#include "tuning/devices/device_set.h"
#include "tuning/plans/tuner.h"

namespace stitch::daemon {
namespace {

/// The signals that end the daemon, held back from every thread that is started while this lives.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int wait() const {
    int signal = 0;
    ::sigwait(&set_, &signal);
    return signal;
  }
  /// From now on a signal ends the process.
  void let_through() const { ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

/// Everything between the options and the socket; members in order of dependence.
struct Daemon {
  SystemClock clock;
  RealFileSystem files;
  std::optional<FileLock> lock;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<tuning::DeviceSet> devices;
  std::unique_ptr<tuning::Tuner> tuner;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> server;

  Status start(const StitchdOptions& options);

 private:
  /// What is planned for and with, as far as device and database tell: a GPU's own constants, the newest cost model.
  Result<tuning::TunerOptions> planning(const StitchdOptions& options);
};

Result<tuning::TunerOptions> Daemon::planning(const StitchdOptions& options) {
  if (const profiler::TimedDevice* gpu = devices->gpu()) {
    const profiler::DeviceIdentity& identity = gpu->identity();
    spdlog::info("{} ({}), {} SMs, driver {}", identity.name, identity.key, identity.sm_count, identity.driver);
  }
  STITCH_ASSIGN(const auto planned, tuning::planning_device(options.target, devices->gpu(), store.get(), clock));
  for (const std::string& note : planned.notes) spdlog::warn("calibration: {}", note);
  tuning::TunerOptions tuning;
  tuning.device = planned.spec;
  STITCH_ASSIGN(tuning.cost_model, tuning::choose_cost_model(*store, planned.spec.name, options.scorer));
  return tuning;
}

Status Daemon::start(const StitchdOptions& options) {
  STITCH_ASSIGN(lock, FileLock::acquire(options.database.string() + ".lock", "another stitchd uses the database"));
  db::SqliteOptions storage;
  storage.path = options.database;
  STITCH_ASSIGN(store, db::open_sqlite_store(storage, clock));
  tuning::DeviceOptions where;
  where.name = options.device;
  where.quarantine = options.database.parent_path() / "quarantine.json";
  STITCH_ASSIGN(devices, tuning::DeviceSet::open(where, files, clock));
  STITCH_ASSIGN(tuning::TunerOptions tuning, planning(options));
  tuning.architecture = options.architecture;
  tuning.artifact_folder = options.cache.empty() ? options.database.parent_path() / "kernels" : options.cache;
  STITCH_ASSIGN(tuner, tuning::Tuner::create(tuning, devices->verifier(), devices->timer(), files, clock));
  ServiceOptions serving;
  serving.jobs.workers = options.workers;
  serving.fragment_trials = options.trials;
  serving.keep_us = std::chrono::microseconds(std::chrono::days(options.keep_days)).count();
  serving.jobs.owner = fmt::format("stitchd {} since {}", ::getpid(), clock.wall_us());
  serving.jobs.complain = [](std::string_view message) { spdlog::error("jobs: {}", message); };
  STITCH_ASSIGN(service, Service::create(*store, *tuner, clock, serving));
  service->start();
  HttpServerOptions http;
  http.socket = options.socket;
  http.tcp = options.tcp;
  http.limits = options.limits;
  STITCH_ASSIGN(server, HttpServer::start(http, [this](const http::Request& request) {
                  spdlog::debug("{} {} ({} bytes)", request.method, request.target, request.body.size());
                  return dispatch(*service, clock, request);
                }));
  return {};
}

}  // namespace

std::filesystem::path StitchdOptions::default_database_path() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::filesystem::path(data) / "stitch" / "stitch.db";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/var/lib") / ".local/share/stitch/stitch.db";
}

Status run_stitchd(const StitchdOptions& options) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("stitchd", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_level(spdlog::level::from_str(options.log_level));
  // A file that may not grow is an error of the write, which the store reports, and no reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  const StopSignals signals;
  Daemon daemon;
  if (const Status started = daemon.start(options); !started) {
    spdlog::critical("{}", started.error().message);
    return started;
  }
  spdlog::info("stitchd {}: database {}, target {} {}", tool_version, options.database.string(),
               daemon.tuner->target().device, daemon.tuner->target().architecture);
  spdlog::info("times are predicted by: {}", daemon.tuner->scorer_name());
  if (!options.socket.empty()) spdlog::info("serving on unix://{}", options.socket.string());
  if (options.tcp) spdlog::info("serving on http://localhost:{}", daemon.server->port());

  spdlog::info("signal {}: stopping", signals.wait());
  signals.let_through();
  daemon.server->stop();
  if (const Status stopped = daemon.service->stop(); !stopped) {
    spdlog::critical("{}", stopped.error().message);
    return stopped;
  }
  spdlog::info("stopped");
  return {};
}

}  // namespace stitch::daemon
