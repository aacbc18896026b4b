#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "daemon/http/http_server.h"
#include "daemon/http/routes.h"
#include "daemon/jobs/service.h"
#include "db/sqlite_store.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/plans/tuner.h"

// The whole daemon inside the test: SQLite, NVRTC, the emulated device, and sockets when asked for.
namespace stitch::daemon {

struct RunningOptions {
  bool work = true;  ///< on jobs
  bool serve = false;
  std::int64_t most_queued = 1000;
  int predictions = 64;
  int busy_timeout_ms = 10'000;          ///< for another's lock on the store
  const tuning::Tuner* tuner = nullptr;  ///< the shared one, which measures nothing, when null
  std::int64_t fragment_trials = 0;
  std::int64_t keep_us = 0;  ///< 0: everything
  bool other_gpus = false;   ///< plans for clients' GPUs of other classes, too
};

class RunningService {
 public:
  RunningService(const std::filesystem::path& database, RunningOptions options) : socket(database.string() + ".sock") {
    db::SqliteOptions storage;
    storage.path = database;
    storage.max_queued_jobs = options.most_queued;
    storage.busy_timeout_ms = options.busy_timeout_ms;
    auto opened = db::open_sqlite_store(storage, clock);
    EXPECT_TRUE(opened.ok()) << (opened ? "" : opened.error().message);
    store = *std::move(opened);
    ServiceOptions serving;
    serving.jobs.owner = "the test";
    serving.jobs.poll_us = 20'000;
    serving.predictions.most_waiting = options.predictions;
    serving.fragment_trials = options.fragment_trials;
    serving.keep_us = options.keep_us;
    if (options.other_gpus) {
      serving.make_tuner = [this](const DeviceSpec& spec) {
        tuning::TunerOptions other;
        other.device = spec;
        other.verify.distributions.resize(1);
        return tuning::Tuner::create(std::move(other), tuning::shared_device(), nullptr, files, clock);
      };
    }
    const tuning::Tuner& tuner =
        options.tuner != nullptr ? *options.tuner : tuning::shared_tuner(tuning::shared_device());
    auto made = Service::create(*store, tuner, clock, serving);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    service = *std::move(made);
    if (options.work) service->start();
    if (!options.serve) return;
    HttpServerOptions http;
    http.socket = socket;
    auto started = HttpServer::start(
        http, [this](const http::Request& request) { return dispatch(*service, clock, request); },
        [this](const http::Request& request) { return dispatch_quickly(*service, clock, request); });
    EXPECT_TRUE(started.ok()) << (started ? "" : started.error().message);
    server = *std::move(started);
  }
  ~RunningService() {
    server.reset();
    EXPECT_TRUE(service->stop().ok());
  }
  RunningService(const RunningService&) = delete;
  RunningService& operator=(const RunningService&) = delete;

  /// Waits until the job has ended.
  api::JobStatus wait_for(std::int64_t job) const {
    while (true) {
      const auto status = service->job(job);
      EXPECT_TRUE(status.ok());
      if (!status || status->finished()) return status.value_or({});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  SystemClock clock;
  RealFileSystem files;
  std::filesystem::path socket;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> server;
};

}  // namespace stitch::daemon
