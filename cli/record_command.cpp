#include <cstdio>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "codegen/compile/compiler.h"
#include "lab/recording/recorder.h"
#include "tuning/devices/calibrated_device.h"

namespace stitch::cli {
namespace {

struct RecordOptions {
  CommonOptions common;
  std::vector<std::filesystem::path> models;
  std::filesystem::path output;
  lab::RecorderOptions recorder;
};

/// Thousands of candidates are measured: each for a short while. They were verified just before, so that the clocks
/// have risen.
tuning::TimerOptions short_timing() {
  tuning::TimerOptions timing;
  timing.kernel.rotations = 2;
  timing.kernel.measure.warm_up_us = 2000;
  timing.kernel.measure.counters = false;
  timing.kernel.measure.stopping.max_time_us = 300'000;
  timing.kernel.measure.stopping.max_samples = 400;
  return timing;
}

Result<ExitCode> record(const RecordOptions& options) {
  const Interruption interruption;
  RealFileSystem files;
  const SystemClock clock;
  tuning::DeviceOptions where;
  where.name = options.common.device;
  where.quarantine = (options.common.cache.empty() ? default_cache() : options.common.cache) / "quarantine.json";
  where.timing = short_timing();
  STITCH_ASSIGN(const auto devices, tuning::DeviceSet::open(where, files, clock));
  if (devices->timed() == nullptr) {
    return make_error(ErrorKind::invalid_argument, "device '{}' measures nothing; record on gpu:N or emulated:counts",
                      where.name);
  }
  tuning::TunerOptions planning;
  STITCH_ASSIGN(const DeviceSpec entry, tuning::planning_entry(options.common.target, devices->gpu()));
  planning.target = entry.name;
  planning.architecture = options.common.architecture;
  planning.threads = options.common.threads;
  STITCH_ASSIGN(const auto tuner, tuning::Tuner::create(planning, devices->verifier(), nullptr, files, clock));
  STITCH_ASSIGN(const auto compiler, codegen::NvrtcCompiler::create());
  lab::Recorder recorder(*tuner, *compiler, devices->verifier(), *devices->timer(), files, clock, options.recorder);
  lab::RecordingReport report;
  for (const std::filesystem::path& model : options.models) {
    STITCH_ASSIGN(const std::string bytes, files.read(model));
    const Status recorded = recorder.record(bytes, model.filename().string(), options.output,
                                            progress_display(options.common.quiet), interruption.token(), report);
    if (!recorded) return recorded.error().within(model.string());
    if (interruption.token().stop_requested()) break;
  }
  std::printf("%s\n", options.common.json ? lab::to_json(report).c_str() : lab::to_table(report).c_str());
  return interruption.token().stop_requested() ? ExitCode::interrupted : ExitCode::success;
}

}  // namespace

void add_record_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<RecordOptions>();
  options->common.device = "gpu:0";
  CLI::App* command =
      app.add_subcommand("record", "Verify and measure every candidate of models' kernels, and keep it all in a file");
  command->add_option("models", options->models, "model files, as tune takes them")->required();
  command->add_option("--output", options->output, "recording; what is in it already is not done again")->required();
  command->add_option("--candidates", options->recorder.space.candidates, "of a kernel, at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--combinations", options->recorder.space.combinations,
                   "of several groups' mappings that are looked at under one choice of everything else")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--within", options->recorder.seconds, "seconds for all; 0: no limit")->capture_default_str();
  command->add_option("--kernel-within", options->recorder.seconds_of_kernel, "seconds for a kernel; 0: no limit")
      ->capture_default_str();
  command->add_option("--seed", options->recorder.verify.seed, "of the inputs of verification")->capture_default_str();
  add_common_options(*command, options->common);
  command->callback([options, &code] {
    options->recorder.threads = options->common.threads;
    const Result<ExitCode> result = record(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
