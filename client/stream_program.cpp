#include "client/stream_program.h"

#include <algorithm>
#include <functional>

#include "base/trace.h"
#include "client/cuda_context.h"
#include "client/device_steps.h"
#include "client/library_calls.h"
#include "client/program_plans.h"
#include "client/program_ports.h"
#include "library/device_events.h"

namespace stitch::client {

/// All that is on the device, and what is done with it.
struct StreamProgram::Contents {
  Contents(std::shared_ptr<const CudaContext> of, const StreamLibraries& libraries)
      : context(std::move(of)), driver(*context->driver), arena(driver) {
    calls = std::make_unique<LibraryCalls>(context, libraries);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents();

  [[nodiscard]] std::uint64_t address(DevicePlace place, Addresses inputs, Addresses outputs) const {
    switch (place.base) {
      case DevicePlace::Base::input: return inputs[place.number] + place.offset;
      case DevicePlace::Base::output: return outputs[place.number] + place.offset;
      case DevicePlace::Base::arena: break;
    }
    return arena.address() + place.offset;
  }
  Status prepare_calls(const api::Program& program);
  /// Behind `tail`, which becomes what stands last then.
  Status enqueue(StreamTail& tail, std::vector<DeviceStep>& of, Addresses inputs, Addresses outputs, void* stream);
  Status enqueue(StreamTail& tail, DeviceStep& step, Addresses inputs, Addresses outputs, void* stream);

  std::shared_ptr<const CudaContext> context;
  const cuda::DriverApi& driver;
  std::vector<std::unique_ptr<LoadedPlan>> plans;  ///< per fragment; null: none
  std::unique_ptr<LibraryCalls> calls;             ///< null: it is being destroyed
  DeviceMemory arena;
  std::vector<DeviceStep> steps;
};

StreamProgram::Contents::~Contents() {
  const CurrentContext current(*context);
  if (!current.status()) return;
  driver.synchronize_context();  // nothing that was enqueued may lose its memory
  plans.clear();
  calls.reset();
  arena.release();
}

/// Loads nothing where the program has no calls.
Status StreamProgram::Contents::prepare_calls(const api::Program& program) {
  if (program.calls.empty()) return {};
  trace::Phase phase("prepare libraries", {{"calls", program.calls.size()}});
  const CurrentContext current(*context);
  STITCH_TRY(current.status());
  const BesideCaptures beside(driver);
  return trace::noted(phase, calls->prepare(program.calls));
}

Status StreamProgram::Contents::enqueue(StreamTail& tail, DeviceStep& step, Addresses inputs, Addresses outputs,
                                        void* stream) {
  if (auto* plan = std::get_if<PlanStep>(&step.work)) {
    for (std::size_t i = 0; i < plan->from.size(); ++i) plan->from[i] = address(plan->parameters[i], inputs, outputs);
    for (std::size_t i = 0; i < plan->to.size(); ++i) plan->to[i] = address(plan->results[i], inputs, outputs);
    return plans[plan->fragment]->launch_behind(tail, plan->from, plan->to, stream);
  }
  if (auto* call = std::get_if<CallStep>(&step.work)) {
    for (std::size_t i = 0; i < call->from.size(); ++i) call->from[i] = address(call->parameters[i], inputs, outputs);
    tail = StreamTail::other;
    return calls->launch(call->call, call->from, address(call->result, inputs, outputs), static_cast<CUstream>(stream));
  }
  if (const auto* copy = std::get_if<DeviceCopy>(&step.work)) {
    const CUdeviceptr to = address(copy->to, inputs, outputs), from = address(copy->from, inputs, outputs);
    if (to == from) return {};
    tail = StreamTail::other;
    return driver.check(driver.copy_on_device(to, from, copy->bytes, static_cast<CUstream>(stream)),
                        "cuMemcpyDtoDAsync");
  }
  auto& turns = std::get<TurnsStep>(step.work);
  for (std::int64_t turn = 0; turn < turns.turns; ++turn)
    STITCH_TRY(enqueue(tail, turn % 2 == 0 ? turns.even : turns.odd, inputs, outputs, stream));
  return {};
}

Status StreamProgram::Contents::enqueue(StreamTail& tail, std::vector<DeviceStep>& of, Addresses inputs,
                                        Addresses outputs, void* stream) {
  for (DeviceStep& step : of) {
    if (const Status done = enqueue(tail, step, inputs, outputs, stream); !done) return done.error().within(step.place);
  }
  return {};
}

namespace {

/// What is enqueued on a stream of its own, as an executable CUDA graph.
class Replay {
 public:
  explicit Replay(const cuda::DriverApi& driver) : driver_(driver), stream_(driver) {}
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    if (executable_ != nullptr) driver_.destroy_executable(executable_);
    if (graph_ != nullptr) driver_.destroy_graph(graph_);
  }
  [[nodiscard]] static bool is_possible(const cuda::DriverApi& driver) {
    return driver.begin_capture != nullptr && driver.end_capture != nullptr && driver.instantiate != nullptr &&
           driver.launch_graph != nullptr && driver.destroy_graph != nullptr && driver.destroy_executable != nullptr;
  }

  Status capture(const std::function<Status(CUstream)>& enqueue) {
    STITCH_TRY(stream_.make());
    STITCH_TRY(
        driver_.check(driver_.begin_capture(stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture"));
    const Status enqueued = enqueue(stream());
    const CUresult ended = driver_.end_capture(stream(), &graph_);
    STITCH_TRY(enqueued);
    STITCH_TRY(driver_.check(ended, "cuStreamEndCapture"));
    return driver_.check(driver_.instantiate(&executable_, graph_, 0), "cuGraphInstantiate");
  }
  [[nodiscard]] Status launch() const {
    return driver_.check(driver_.launch_graph(executable_, stream()), "cuGraphLaunch");
  }
  [[nodiscard]] Status wait() const { return stream_.wait(); }
  [[nodiscard]] CUstream stream() const { return stream_.get(); }

 private:
  const cuda::DriverApi& driver_;
  library::DeviceStream stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

/// µs of replays, each behind a fill of twice the L2, so that it finds nothing there.
Result<std::vector<double>> cold_times(const CudaContext& context, const Replay& replay) {
  const cuda::DriverApi& driver = *context.driver;
  const std::size_t replays = driver.emulated ? 1 : 20;
  const std::int64_t bytes = 2 * context.traits.l2_bytes;
  DeviceMemory filled(driver);
  STITCH_TRY(filled.make(bytes));
  library::DeviceEvents events(driver);
  STITCH_TRY(events.make(2 * replays));
  for (std::size_t i = 0; i < replays; ++i) {
    STITCH_TRY(driver.check(driver.fill_async(filled.address(), 1, static_cast<std::size_t>(bytes), replay.stream()),
                            "cuMemsetD8Async"));
    STITCH_TRY(events.record(2 * i, replay.stream()));
    STITCH_TRY(replay.launch());
    STITCH_TRY(events.record(2 * i + 1, replay.stream()));
  }
  STITCH_TRY(replay.wait());
  std::vector<double> times;
  for (std::size_t i = 0; i < replays && !driver.emulated; ++i) {
    STITCH_ASSIGN(times.emplace_back(), events.after(2 * i));
  }
  return times;
}

struct ReplayTimes {
  std::optional<double> warm_us;  ///< the median
  std::vector<double> cold_us;
};

/// What replays of what is enqueued take, behind a few that are not timed.
Result<ReplayTimes> times_of_replay(const CudaContext& context, const std::function<Status(CUstream)>& enqueue) {
  const cuda::DriverApi& driver = *context.driver;
  if (!Replay::is_possible(driver)) return ReplayTimes();
  constexpr std::size_t warm = 3, replays = 10;
  STITCH_TRY(driver.check(driver.synchronize_stream(nullptr), "cuStreamSynchronize"));
  Replay replay(driver);
  STITCH_TRY(replay.capture(enqueue));
  if (driver.emulated) {
    STITCH_TRY(replay.launch());
    STITCH_TRY(replay.wait());
    STITCH_TRY(cold_times(context, replay));
    return ReplayTimes();
  }
  library::DeviceEvents events(driver);
  STITCH_TRY(events.make(replays + 1));
  for (std::size_t i = 0; i < warm; ++i) STITCH_TRY(replay.launch());
  STITCH_TRY(events.record(0, replay.stream()));
  for (std::size_t i = 0; i < replays; ++i) {
    STITCH_TRY(replay.launch());
    STITCH_TRY(events.record(i + 1, replay.stream()));
  }
  STITCH_TRY(replay.wait());
  std::vector<double> times;
  for (std::size_t i = 0; i < replays; ++i) {
    STITCH_ASSIGN(times.emplace_back(), events.after(i));
  }
  std::ranges::nth_element(times, times.begin() + replays / 2);
  ReplayTimes found{times[replays / 2], {}};
  // Where memory does not suffice for the fill there are no such times.
  if (auto cold = cold_times(context, replay)) found.cold_us = *std::move(cold);
  return found;
}

}  // namespace

StreamProgram::StreamProgram(api::Program program, std::unique_ptr<Contents> contents)
    : program_(std::move(program)), contents_(std::move(contents)) {}
StreamProgram::~StreamProgram() = default;

Result<std::unique_ptr<StreamProgram>> StreamProgram::open(api::Program program, CudaExecutor& executor,
                                                           const ArtifactSource& artifacts,
                                                           const StreamLibraries& libraries) {
  STITCH_TRY(api::check_program(program));
  auto contents = std::make_unique<Contents>(executor.context(), libraries);
  STITCH_TRY(contents->prepare_calls(program));
  STITCH_ASSIGN(contents->steps, device_steps(program, contents->calls->calls()));  // before anything is loaded
  STITCH_ASSIGN(contents->plans, load_plans(program, executor, artifacts));
  const CurrentContext current(*contents->context);
  STITCH_TRY(current.status());
  const BesideCaptures beside(contents->driver);
  STITCH_TRY(contents->calls->make_memory());
  if (const std::int64_t bytes = program.regions[0].arena_bytes; bytes > 0) {
    if (const Status made = contents->arena.make(bytes); !made)
      return made.error().within(fmt::format("an arena of {} bytes", bytes));
  }
  return std::unique_ptr<StreamProgram>(new StreamProgram(std::move(program), std::move(contents)));
}

Result<std::unique_ptr<StreamProgram>> StreamProgram::open_package(std::string_view bytes, graph::Encoding encoding,
                                                                   CudaExecutor& executor,
                                                                   const ArtifactSource& artifacts,
                                                                   const StreamLibraries& libraries) {
  STITCH_ASSIGN(api::Program program, api::decode_program(bytes, encoding));
  return open(std::move(program), executor, artifacts, libraries);
}

std::int64_t StreamProgram::workspace_bytes() const {
  return workspace_bytes_of(program_) + contents_->calls->workspace_bytes();
}
std::string StreamProgram::library() const { return contents_->calls->name(); }
std::int64_t StreamProgram::operations() const {
  return count_operations(contents_->steps, program_, contents_->calls->calls());
}

Status StreamProgram::launch(Addresses parameters, Addresses results, void* stream) {
  STITCH_TRY(check_ports(program_, parameters, results));
  const CurrentContext current(*contents_->context);
  STITCH_TRY(current.status());
  StreamTail tail = StreamTail::other;
  return contents_->enqueue(tail, contents_->steps, parameters, results, stream);
}

Status StreamProgram::run(Inputs parameters, Outputs results) {
  STITCH_TRY(check_ports(program_, parameters, results));
  const CurrentContext current(*contents_->context);
  STITCH_TRY(current.status());
  return run_on_host_memory(contents_->driver, parameters, results, [&](Addresses from, Addresses to) {
    StreamTail tail = StreamTail::other;
    return contents_->enqueue(tail, contents_->steps, from, to, nullptr);
  });
}

Result<ProgramTime> StreamProgram::run_timed(Inputs parameters, Outputs results) {
  STITCH_TRY(check_ports(program_, parameters, results));
  const CurrentContext current(*contents_->context);
  STITCH_TRY(current.status());
  std::vector<DeviceStep>& steps = contents_->steps;
  library::DeviceEvents events(contents_->driver);
  STITCH_TRY(events.make(steps.size() + 1));
  ProgramTime time;
  const auto enqueue = [&](Addresses from, Addresses to) -> Status {
    StreamTail tail = StreamTail::other;
    STITCH_TRY(contents_->enqueue(tail, steps, from, to, nullptr));
    STITCH_TRY(events.record(0, nullptr));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      tail = StreamTail::other;  // an event is
      if (const Status done = contents_->enqueue(tail, steps[s], from, to, nullptr); !done)
        return done.error().within(steps[s].place);
      STITCH_TRY(events.record(s + 1, nullptr));
    }
    // What a library does not let be captured has no such time.
    const auto replays = times_of_replay(*contents_->context, [&](CUstream stream) {
      StreamTail behind = StreamTail::other;
      return contents_->enqueue(behind, steps, from, to, stream);
    });
    if (replays) {
      time.replay_us = replays->warm_us;
      time.cold_us = replays->cold_us;
    }
    return {};
  };
  STITCH_TRY(run_on_host_memory(contents_->driver, parameters, results, enqueue));
  for (std::size_t s = 0; s < steps.size(); ++s) {
    StepTime& step = time.steps.emplace_back();
    step.place = steps[s].place;
    step.number = steps[s].number;
    step.kind = kind_of(steps[s]);
    step.bytes = bytes_of(steps[s]);
    step.operations = count_operations(std::span(&steps[s], 1), program_, contents_->calls->calls());
    if (contents_->driver.emulated) continue;
    STITCH_ASSIGN(step.microseconds, events.after(s));
  }
  return time;
}

}  // namespace stitch::client
