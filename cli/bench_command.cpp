#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/package_document.h"
#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/startup/startup_bench.h"
#include "tuning/models/model_tuning.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

struct BenchOptions {
  CommonOptions common;
  std::filesystem::path model;
  bool predicted = false;
  bool tuned = false;
  bool startup = false;
  std::string server;
  int repeat = 20;
};

/// Sums over the fragments of a model, which follow one another.
struct Sum {
  std::vector<double> samples;  ///< the k-th: of the k-th samples of all fragments
  double median = 0, worst = 0, verified_share = 1;
  std::string unit = "us";
  std::int64_t kernels = 0;

  void add(const tuning::TunedFragment& tuned, std::int64_t times) {
    const db::MeasurementRecord& measured = tuned.bundle.measurements.front();
    if (measured.kind != db::MeasurementRecord::Kind::device_time) unit = "sectors";
    const double count = times;
    const bool first = samples.empty() && kernels == 0;
    samples.resize(first ? measured.samples.size() : std::min(samples.size(), measured.samples.size()));
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] += count * measured.samples[i];
    median += count * db::summarise(measured.samples).median;
    kernels += times * std::ssize(tuned.plan.launches);
    verified_share = std::min(verified_share, tuned.plan.verified_share);
    for (const tuning::KernelReport& kernel : tuned.kernels) {
      if (kernel.verification) worst = std::max(worst, kernel.verification->worst);
    }
  }
};

void print(const BenchOptions& options, const tuning::ModelReport& report, const Sum& sum, std::string_view device) {
  if (!options.common.json) {
    std::puts(fmt::format("{}: {:.2f} {} in {} kernels ({} candidates of each), predicted {:.2f} us",
                          options.model.filename().string(), sum.median, sum.unit, sum.kernels,
                          options.predicted ? "the best predicted" : "the fastest measured", report.predicted_us)
                  .c_str());
    return;
  }
  // Counts of the emulated device are never called a time.
  const json document = {{sum.unit == "us" ? "time_us" : "sectors", sum.median},
                         {"samples_" + sum.unit, sum.samples},
                         {"kernels", sum.kernels},
                         {"correct", report.wrong_kernels == 0},
                         {"worst", sum.worst},
                         {"verified_share", sum.verified_share},
                         {"predicted_us", report.predicted_us},
                         {"label", options.predicted ? "predicted" : "measured"},
                         {"device", device}};
  std::puts(document.dump().c_str());
}

Result<ExitCode> bench_startup(const BenchOptions& options) {
  STITCH_ASSIGN(const StartupReport report,
                measure_startup({options.common, options.model, options.server, options.repeat}));
  std::puts((options.common.json ? to_json(report) : to_table(report)).c_str());
  return report.planned == report.fragments ? ExitCode::success : ExitCode::failure;
}

Result<ExitCode> bench(const BenchOptions& options) {
  if (options.startup) return bench_startup(options);
  const Interruption interruption;
  tuning::TunerOptions tuning;
  // One candidate: the plan as it is predicted to be best, were it not for kernels that turn out to be wrong.
  if (options.predicted) tuning.measured_candidates = tuning.compiled_candidates = 1;
  tuning::TimerOptions timing;
  timing.kernel.measure.counters = false;  // nobody sees them here, and each kernel's take a launch under the profiler
  STITCH_ASSIGN(const auto session, Session::open(options.common, tuning, {}, timing));
  STITCH_ASSIGN(const auto bytes, session->files.read(options.model));
  if (api::looks_like_package(bytes)) {
    return make_error(ErrorKind::invalid_argument,
                      "{}: a package, and no model: --startup says how long it takes to start", options.model.string());
  }
  if (session->devices->timer() == nullptr) {
    return make_error(ErrorKind::unavailable, "device {} measures nothing: --device gpu:N is wanted, or --startup",
                      options.common.device);
  }
  STITCH_ASSIGN(const auto done, tuning::tune_model(bytes, options.model.filename().string(), *session->tuner,
                                                    progress_display(options.common.quiet || options.common.json),
                                                    interruption.token(), nullptr));
  if (done.report.library_calls > 0) {
    return make_error(ErrorKind::unsupported, "{}: {} of its operators are left to libraries, which this does not time",
                      options.model.string(), done.report.library_calls);
  }
  if (!done.report.failures.empty()) return make_error(ErrorKind::correctness, "{}", done.report.failures.front());
  Sum sum;
  for (const tuning::TunedFragment& tuned : done.fragments) {
    const auto part = std::find_if(done.workload.parts.begin(), done.workload.parts.end(),
                                   [&](const auto& p) { return p.fragment == tuned.fragment.key; });
    if (tuned.bundle.measurements.empty())
      return make_error(ErrorKind::unavailable, "fragment {} was not measured", tuned.fragment.key.hex());
    sum.add(tuned, part == done.workload.parts.end() ? 1 : part->occurrences);
  }
  print(options, done.report, sum, session->devices->timer()->identity().name);
  return ExitCode::success;
}

}  // namespace

void add_bench_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Time what a file's fragments take by our plans, on a GPU, or how long a process starts");
  command
      ->add_option("model", options->model,
                   "HLO text, ONNX or fragment, without library calls; with --startup any model, or a package")
      ->required();
  add_common_options(*command, options->common);
  auto* predicted = command->add_flag("--predicted", options->predicted, "of each kernel the best predicted candidate");
  auto* startup = command->add_flag("--startup", options->startup,
                                    "until a model's program can run: from a server, or of a package; cold and warm");
  startup->excludes(predicted);
  command->add_option("--server", options->server, "of --startup: the stitchd that tuned the model")->needs(startup);
  command->add_option("--repeat", options->repeat, "of --startup: how often, after the first time")
      ->needs(startup)
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_flag("--tuned", options->tuned, "of each kernel the fastest of several candidates; the default")
      ->excludes(predicted);
  command->callback([options, &code] {
    const Result<ExitCode> result = bench(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
