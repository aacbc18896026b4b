#include "cli/startup/startup_bench.h"

#include <array>
#include <charconv>

#include "api/package_document.h"
#include "base/device_class.h"
#include "base/sha256.h"
#include "cli/remote.h"
#include "client/emulated_executor.h"
#include "client/open_program.h"
#include "client/program.h"
#include "profiler/device/emulated_device.h"

namespace stitch::cli {
namespace {

/// Collects how long each phase took, time after time.
class Phases {
 public:
  Phases(const Clock& clock, StartupReport& report) : clock_(clock), report_(report) {}

  /// Begins the phases anew: all of the first time are cold, later ones warm.
  void begin() { next_ = 0, at_ = clock_.now_us(), ++times_; }
  /// What was done since the last phase's end is nobody's wait.
  void go_on() { at_ = clock_.now_us(); }
  void end(std::string_view name) {
    const std::int64_t now = clock_.now_us();
    if (times_ == 1) report_.phases.push_back({std::string(name), 0, {}});
    StartupPhase& phase = report_.phases[next_++];
    const auto took = static_cast<double>(now - at_);
    if (times_ == 1) {
      phase.cold_us = took;
    } else {
      phase.warm_us.push_back(took);
    }
    go_on();
  }

 private:
  const Clock& clock_;
  StartupReport& report_;
  std::size_t next_ = 0;
  std::int64_t at_ = 0;
  int times_ = 0;
};

void describe(const api::Program& program, StartupReport& report) {
  report.fragments = std::ssize(program.fragments);
  report.planned = report.launches = report.code_bytes = 0;
  for (const api::ProgramFragment& fragment : program.fragments) {
    report.planned += fragment.plan ? 1 : 0;
    report.launches += fragment.plan ? std::ssize(fragment.plan->launches) * fragment.occurrences : 0;
  }
  for (const api::ProgramArtifact& artifact : program.artifacts) report.code_bytes += std::ssize(artifact.bytes);
}

/// Loads the program as a process of its own would.
Status load(api::Program program, Phases& phases) {
  profiler::EmulatedDevice device;
  client::EmulatedExecutor executor(device);
  STITCH_ASSIGN(const auto runner, client::ProgramRunner::open(std::move(program), executor));
  phases.end("load");
  return {};
}

Status start_from_server(const StartupOptions& options, const FileSystem& files, Phases& phases,
                         StartupReport& report) {
  phases.begin();
  STITCH_ASSIGN(const std::string bytes, files.read(options.model));
  const Sha256 key = sha256(bytes);
  phases.end("read");
  STITCH_ASSIGN(const auto server, connect(options.server));
  phases.end("connect");
  // What the device that it is loaded on runs.
  constexpr auto emulated = api::CodeInside::ptx;
  STITCH_ASSIGN(client::FetchedProgram fetched, server->program_unless(key, {}, emulated));
  phases.end("fetch");
  STITCH_TRY(server->program_unless(key, fetched.tag, emulated));
  phases.end("ask again");
  if (!fetched.program) return make_error(ErrorKind::corrupt, "{}: no program came", options.server);
  describe(*fetched.program, report);
  phases.go_on();
  return load(*std::move(fetched.program), phases);
}

/// Of what a server makes, without "stitch_" and "_total".
constexpr std::array made_counters = {"kernels_compiled", "kernels_verified", "measurements",
                                      "plans_predicted",  "plans_tuned",      "programs_made"};

/// The server's counters in their order. Error: those of the client; parse (one is not there).
Result<std::vector<std::int64_t>> made_by(const std::string& address) {
  STITCH_ASSIGN(const auto server, connect(address));
  STITCH_ASSIGN(const std::string metrics, server->metrics());
  std::vector<std::int64_t> counts;
  for (const char* name : made_counters) {
    const std::string line = fmt::format("\nstitch_{}_total ", name);
    const std::size_t at = metrics.find(line);
    std::int64_t count = 0;
    const std::string digits = at == std::string::npos ? "" : metrics.substr(at + line.size(), 20);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec != std::errc())
      return make_error(ErrorKind::parse, "{}: its metrics have no stitch_{}_total", address, name);
    counts.push_back(count);
  }
  return counts;
}

Status start_from_package(const StartupOptions& options, const FileSystem& files, Phases& phases,
                          StartupReport& report) {
  phases.begin();
  STITCH_ASSIGN(const std::string bytes, files.read(options.model));
  phases.end("read");
  STITCH_ASSIGN(api::Package package, api::decode_package(bytes));
  STITCH_ASSIGN(const DeviceClass device,
                find_device_class(options.common.target.empty() ? "h100" : options.common.target));
  STITCH_ASSIGN(api::Program program, client::program_for(std::move(package), device.spec));
  phases.end("decode");
  describe(program, report);
  phases.go_on();
  return load(std::move(program), phases);
}

}  // namespace

Result<StartupReport> measure_startup(const StartupOptions& options) {
  RealFileSystem files;
  const SystemClock clock;
  STITCH_ASSIGN(const std::string bytes, files.read(options.model));
  const bool package = api::looks_like_package(bytes);
  if (!package && options.server.empty())
    return make_error(ErrorKind::invalid_argument,
                      "{}: a model: --server is wanted, the stitchd that tuned it (or a package instead)",
                      options.model.string());
  StartupReport report;
  report.model = options.model.filename().string();
  report.from = package ? "a package" : options.server;
  Phases phases(clock, report);
  std::vector<std::int64_t> before;
  if (!package) {
    STITCH_ASSIGN(before, made_by(options.server));
  }
  for (int i = 0; i <= options.repeat; ++i) {
    const Status started = package ? start_from_package(options, files, phases, report)
                                   : start_from_server(options, files, phases, report);
    if (started) continue;
    const bool tuned = package || started.error().kind != ErrorKind::not_found;
    return Error{started.error().kind, fmt::format("{}: {}{}", options.model.string(), started.error().message,
                                                   tuned ? "" : "; stitch tune MODEL --server ADDRESS makes one")};
  }
  if (package) return report;
  STITCH_ASSIGN(const std::vector<std::int64_t> after, made_by(options.server));
  for (std::size_t i = 0; i < after.size(); ++i) report.made.emplace_back(made_counters[i], after[i] - before[i]);
  return report;
}

}  // namespace stitch::cli
