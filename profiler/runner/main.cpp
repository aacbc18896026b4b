// stitch-runner: owns a device, and serves it to a parent over standard input and output (docs/measurement.md).
#include <sys/signalfd.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "base/confinement.h"
#include "base/parent_watch.h"
#include "base/process_end.h"
#include "base/processors.h"
#include "base/version.h"
#include "profiler/device/device_document.h"
#include "profiler/gpu/session.h"
#include "profiler/measure/counted_device.h"
#include "profiler/runner/server.h"

namespace {

using stitch::Result;
using stitch::profiler::CountedDevice;
using stitch::profiler::EmulatedOptions;
using stitch::profiler::GpuDevice;
using stitch::profiler::GpuOptions;
using stitch::profiler::ServeEnd;
using stitch::profiler::TimedDevice;

struct RunnerMainOptions {
  std::string device = "gpu:0";
  bool probe = false;
  bool counts = false;
  GpuOptions gpu;
  EmulatedOptions emulated;
};

Result<std::unique_ptr<TimedDevice>> open_device(const RunnerMainOptions& options) {
  if (options.device == "emulated") {
    return std::unique_ptr<TimedDevice>(std::make_unique<CountedDevice>(options.emulated, options.counts));
  }
  GpuOptions gpu = options.gpu;
  const std::string number = options.device.substr(options.device.find(':') + 1);
  gpu.ordinal = std::stoi(number);
  return GpuDevice::create(gpu);
}

int probe(const RunnerMainOptions& options) {
  const auto device = open_device(options);
  if (!device) {
    std::fprintf(stderr, "stitch-runner: %s\n", device.error().message.c_str());
    return static_cast<int>(ServeEnd::no_device);
  }
  nlohmann::json document = stitch::profiler::to_document((*device)->identity());
  const auto* gpu = dynamic_cast<const GpuDevice*>(device->get());
  if (gpu != nullptr && !gpu->no_cupti().empty()) document["no_cupti"] = gpu->no_cupti();
  std::printf("%s\n", document.dump().c_str());
  return 0;
}

/// What a runner still needs when it has its device. A driver starts threads and opens files whenever it likes, and
/// reaches its own services by sockets of the machine; an interpreter needs nothing.
stitch::Confinement confinement_of(const RunnerMainOptions& options) {
  stitch::Confinement confinement;
  const bool emulated = options.device == "emulated";
  confinement.files = emulated;
  confinement.local_sockets = !emulated;
  if (emulated) {
    confinement.limits.file_bytes = 0;
    confinement.limits.address_space_bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  }
  return confinement;
}

void give_up_the_rest(const RunnerMainOptions& options) {
  ::signal(SIGXFSZ, SIG_IGN);
  for (const std::string& what : stitch::confine(confinement_of(options))) {
    std::fprintf(stderr, "stitch-runner: less confined: %s\n", what.c_str());
  }
}

/// A descriptor that has something to read once this process is asked to end (SIGTERM). The signal itself is held back
/// from this thread and all that it starts: it would end them in the middle of a kernel, for which that one would be
/// blamed.
int asked_to_end() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC);
}

int run(const RunnerMainOptions& options) {
  const int leave = asked_to_end();
  // Replies have a descriptor of their own: what libraries print must not end up between them.
  const int output = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  // A kernel that hangs would keep the device for good. What was sent before gets five seconds to be served.
  stitch::end_with_parent(STDIN_FILENO, 5, static_cast<int>(ServeEnd::broken));
  ServeEnd end = ServeEnd::finished;
  {
    const auto device = open_device(options);
    give_up_the_rest(options);
    end = stitch::profiler::serve(device, STDIN_FILENO, output, leave);
  }
  // Nothing is left to be done, and libraries' handlers at exit have been seen to wait for a lost device.
  stitch::end_process(static_cast<int>(end));
}

}  // namespace

int main(int argc, char** argv) {
  // What fills buffers and checks kernels side by side is in TBB's default arena, which knows no quota.
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism, stitch::usable_processors());
  RunnerMainOptions options;
  CLI::App app(
      "stitch-runner: owns a GPU and serves it to its parent over standard input and output.\n"
      "Exit codes: 0 done, or asked to end (SIGTERM: what is being served is finished first), 2 wrong usage, 3 the "
      "device was lost to a fault, 4 the parent sent no message or is gone,\n"
      "5 no such device (the reason is on standard error, or in the reply).");
  app.set_version_flag("--version", std::string(stitch::tool_version));
  app.add_option("--device", options.device, "gpu:N, or emulated")
      ->check([](const std::string& text) {
        const bool numbered = text.starts_with("gpu:") && text.size() > 4 && text.size() < 9 &&
                              text.find_first_not_of("0123456789", 4) == std::string::npos;
        return numbered || text == "emulated" ? std::string() : "'" + text + "' is neither gpu:N nor emulated";
      })
      ->capture_default_str();
  app.add_flag("--probe", options.probe, "print the device as JSON, or why there is none, and end");
  app.add_flag("--counts", options.counts, "of the emulated device: answer measurements with sector counts");
  app.add_option("--instruction-budget", options.emulated.instruction_budget,
                 "of the emulated device: warp instructions of one launch")
      ->capture_default_str();
  app.add_option("--threads", options.emulated.host_threads, "of the emulated device: 0 for all");
  app.add_option("--most-memory", options.gpu.most_bytes,
                 "bytes of a GPU's memory to take at once; 0: whatever there is")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--driver", options.gpu.driver, "CUDA driver library")->capture_default_str();
  app.add_option("--cupti", options.gpu.cupti, "CUPTI library; by default the toolkit's");
  app.add_option("--nvml", options.gpu.nvml, "NVML library")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return options.probe ? probe(options) : run(options);
}
