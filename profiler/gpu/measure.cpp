#include "profiler/gpu/measure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "profiler/gpu/cupti_counters.h"
#include "profiler/gpu/cupti_timer.h"
#include "profiler/measure/sampler.h"

namespace stitch::profiler {
namespace {

/// An executable CUDA graph of what a function puts on the context's stream.
class CapturedGraph {
 public:
  explicit CapturedGraph(GpuContext& gpu) : gpu_(gpu) {}
  CapturedGraph(CapturedGraph&& other) noexcept
      : gpu_(other.gpu_), executable_(std::exchange(other.executable_, nullptr)) {}
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  ~CapturedGraph() {
    if (executable_ != nullptr && !gpu_.lost()) gpu_.driver->destroy_executable(executable_);
  }

  Status capture(const std::function<Status()>& enqueue) {
    const cuda::DriverApi& driver = *gpu_.driver;
    STITCH_TRY(
        gpu_.check(driver.begin_capture(gpu_.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture"));
    Status enqueued = enqueue();
    CUgraph graph = nullptr;
    const CUresult ended = driver.end_capture(gpu_.stream, &graph);
    if (!enqueued) {
      if (graph != nullptr) driver.destroy_graph(graph);
      return enqueued;
    }
    STITCH_TRY(gpu_.check(ended, "cuStreamEndCapture"));
    Status made = gpu_.check(driver.instantiate(&executable_, graph, 0), "cuGraphInstantiate");
    driver.destroy_graph(graph);
    if (!made) return made;
    return gpu_.check(driver.upload_graph(executable_, gpu_.stream), "cuGraphUpload");
  }

  Status launch() { return gpu_.check(gpu_.driver->launch_graph(executable_, gpu_.stream), "cuGraphLaunch"); }

 private:
  GpuContext& gpu_;
  CUgraphExec executable_ = nullptr;
};

/// Launches on the context's stream, timed by CUPTI, each by so many `records`.
class TimedLaunches final : public SampleSource {
 public:
  TimedLaunches(GpuContext& gpu, CuptiTimer& timer, const GpuWork& work, std::size_t records, bool cold_l2)
      : gpu_(gpu), timer_(timer), work_(work), records_(records), cold_l2_(cold_l2) {}

  Status warm_up(double us) {
    constexpr int least = 3;
    const Stopwatch watch;
    for (int i = 0; i < least || watch.seconds() * 1e6 < us; ++i) STITCH_TRY(take(1));
    return {};
  }

  Result<std::vector<double>> take(int count) override {
    for (int i = 0; i < count; ++i) {
      if (cold_l2_) STITCH_TRY(gpu_.flush_l2());
      const std::size_t turn = turn_++ % work_.size();
      STITCH_TRY(work_[turn]());
    }
    STITCH_TRY(gpu_.synchronize());
    STITCH_ASSIGN(const auto intervals, timer_.take(count * records_));
    STITCH_ASSIGN(const auto spans, spans_of(intervals, records_));
    std::vector<double> durations;
    for (const ActivityInterval& span : spans) durations.push_back(span.us());
    return durations;
  }

  DeviceState state() override { return gpu_.state(); }
  void pause(double us) override { std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us)); }

 private:
  GpuContext& gpu_;
  CuptiTimer& timer_;
  const GpuWork& work_;
  std::size_t records_;
  bool cold_l2_;
  std::size_t turn_ = 0;
};

/// Counters are an extra: what goes wrong with them is noted, and no reason to have measured in vain.
void add_counters(GpuContext& gpu, const GpuWork& work, const MeasureTask& task, Measurement& measurement) {
  if (!task.options.counters) return;
  if (task.cuda_graph) {
    measurement.no_counters = "a CUDA graph is counted by its kernels";
    return;
  }
  if (gpu.no_counters.empty()) {
    const auto prepare = [&]() -> Status {
      if (task.options.cold_l2) STITCH_TRY(gpu.flush_l2());
      return gpu.synchronize();
    };
    const auto run = [&]() -> Status {
      STITCH_TRY(work.front()());
      return gpu.synchronize();
    };
    const auto counters = count_hardware(gpu.cupti, gpu.context, gpu.ordinal, prepare, run);
    if (counters) {
      measurement.counters = *counters;
    } else {
      gpu.no_counters = counters.error().message;
    }
  }
  measurement.no_counters = gpu.no_counters;
}

/// How a sample is timed.
struct Timing {
  std::unique_ptr<CuptiTimer> timer;
  std::size_t records = 1;  ///< of a sample
  std::string method = "CUPTI activity";
};

Result<Measurement> measure_enqueued(GpuContext& gpu, Timing timing, const GpuWork& work, const MeasureTask& task) {
  Measurement measurement = begin_measurement(task);
  measurement.method = timing.method;
  measurement.driver = gpu.identity.driver;
  measurement.toolkit = fmt::format("CUPTI {}", gpu.cupti->api_version);
  TimedLaunches launches(gpu, *timing.timer, work, timing.records, task.options.cold_l2);
  STITCH_TRY(launches.warm_up(task.options.warm_up_us));
  measurement.before = gpu.state();
  STITCH_ASSIGN(Sampling sampling, take_samples(launches, SystemClock(), task.options));
  measurement.after = gpu.state();
  timing.timer.reset();  // CUPTI traces or counts, one at a time
  measurement.samples = std::move(sampling.samples);
  measurement.dropped_samples = std::move(sampling.dropped);
  measurement.dropped_reasons = std::move(sampling.dropped_reasons);
  if (measurement.samples.empty()) {
    return make_error(ErrorKind::unavailable, "all {} samples were taken while the GPU throttled ({})",
                      measurement.dropped_samples.size(), fmt::join(measurement.dropped_reasons, ", "));
  }
  summarise(measurement, sampling.verdict);
  add_counters(gpu, work, task, measurement);
  if (gpu.lost()) return make_error(ErrorKind::runtime, "counting failed: {}", measurement.no_counters);
  return measurement;
}

bool has_calls(const MeasureTask& task) {
  return std::ranges::any_of(task.rotations.front(),
                             [](const PlanStep& step) { return std::holds_alternative<PlannedCall>(step); });
}

/// How many kernels a sample runs, seen by a timer that was there when its graphs were made. What libraries launch for
/// a call is theirs to know: a product whose depth is split is two kernels, a convolution may be five.
Result<std::size_t> count_kernels(GpuContext& gpu, CuptiTimer& timer, const std::function<Status()>& run,
                                  const MeasureTask& task) {
  if (task.options.cold_l2) STITCH_TRY(gpu.flush_l2());
  STITCH_TRY(run());
  STITCH_TRY(gpu.synchronize());
  STITCH_ASSIGN(const std::size_t kernels, timer.count());
  if (kernels == 0) return make_error(ErrorKind::unsupported, "the library's call runs no kernel");
  return kernels;
}

/// A plan's samples, each a graph launch. CUPTI traces the graphs that it saw come into being: the timer is there
/// first.
Result<Measurement> measure_graphs(GpuContext& gpu, Timing timing, const GpuWork& work, const MeasureTask& task) {
  std::vector<CapturedGraph> graphs;
  for (const auto& enqueue : work) STITCH_TRY(graphs.emplace_back(gpu).capture(enqueue));
  GpuWork launches;
  for (CapturedGraph& graph : graphs) launches.emplace_back([&graph] { return graph.launch(); });
  if (timing.method != Timing().method && has_calls(task)) {
    STITCH_ASSIGN(timing.records, count_kernels(gpu, *timing.timer, launches.front(), task));
  }
  return measure_enqueued(gpu, std::move(timing), launches, task);
}

std::size_t kernels_of(const std::vector<PlanStep>& steps) {
  return static_cast<std::size_t>(
      std::ranges::count_if(steps, [](const PlanStep& step) { return std::holds_alternative<PlannedLaunch>(step); }));
}

/// Whether CUPTI tells what one graph takes as a whole. Errors: those of the work.
Status try_graph_times(GpuContext& gpu, const GpuWork& work) {
  gpu.graph_times_tried = true;
  auto timer = CuptiTimer::start(gpu.cupti, CuptiTimer::Kind::graphs);
  if (!timer) {
    gpu.no_graph_times = timer.error().message;
    return {};
  }
  CapturedGraph graph(gpu);
  STITCH_TRY(graph.capture(work.front()));
  STITCH_TRY(graph.launch());
  STITCH_TRY(gpu.synchronize());
  const auto taken = (*timer)->take(1);
  if (!taken) gpu.no_graph_times = taken.error().message;
  return {};
}

/// All that a measurement does on an emulated driver but to look at a clock: warms L2's buffer, launches or captures
/// and launches every rotation, and waits. Never a measurement: the error is `unavailable`, or that of the work.
Error rehearse(GpuContext& gpu, const GpuWork& work, const MeasureTask& task) {
  const auto run = [&]() -> Status {
    for (const auto& enqueue : work) {
      if (task.options.cold_l2) STITCH_TRY(gpu.flush_l2());
      if (task.cuda_graph) {
        CapturedGraph graph(gpu);
        STITCH_TRY(graph.capture(enqueue));
        STITCH_TRY(graph.launch());
        STITCH_TRY(gpu.synchronize());
      } else {
        STITCH_TRY(enqueue());
      }
    }
    return gpu.synchronize();
  };
  if (Status done = run(); !done) return done.error();
  return make_error(ErrorKind::unavailable, "{}", gpu.no_cupti);
}

}  // namespace

Result<Measurement> measure_work(GpuContext& gpu, const GpuWork& work, const MeasureTask& task) {
  if (gpu.identity.emulated) return rehearse(gpu, work, task);
  if (!gpu.cupti) return make_error(ErrorKind::unavailable, "{}", gpu.no_cupti);
  Timing timing;
  if (!task.cuda_graph) {
    STITCH_ASSIGN(timing.timer, CuptiTimer::start(gpu.cupti, CuptiTimer::Kind::kernels));
    if (has_calls(task)) {
      STITCH_ASSIGN(timing.records, count_kernels(gpu, *timing.timer, work.front(), task));
      timing.method = "CUPTI activity, the call's kernels";
    }
    return measure_enqueued(gpu, std::move(timing), work, task);
  }
  if (!gpu.graph_times_tried) STITCH_TRY(try_graph_times(gpu, work));
  const std::size_t kernels = kernels_of(task.rotations.front());
  if (gpu.no_graph_times.empty() || (kernels == 0 && !has_calls(task))) {
    STITCH_ASSIGN(timing.timer, CuptiTimer::start(gpu.cupti, CuptiTimer::Kind::graphs));
    return measure_graphs(gpu, std::move(timing), work, task);
  }
  // From the first kernel to the last one. Copies before and behind them are missing, and observing costs a little.
  STITCH_ASSIGN(timing.timer, CuptiTimer::start(gpu.cupti, CuptiTimer::Kind::kernels));
  timing.records = kernels;
  timing.method = "CUPTI activity, the graph's kernels";
  return measure_graphs(gpu, std::move(timing), work, task);
}

}  // namespace stitch::profiler
