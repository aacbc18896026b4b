#include "profiler/runner/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "graph/codec/codec.h"

namespace stitch::profiler {

/// What a device and its sessions have in common.
struct RunnerDevice::Shared {
  Shared(ProcessLauncher& launcher, RunnerOptions options, Quarantine& list)
      : process(launcher, std::move(options)), quarantine(list) {}

  std::mutex mutex;  ///< held for a whole exchange with the runner
  RunnerProcess process;
  Quarantine& quarantine;
  std::string device;  ///< DeviceIdentity::key
};

namespace {

using Body = decltype(Reply::body);

/// "library call dot(f16[64,64], f16[64,64])": for whoever reads of one that hung.
std::string name_of_call(const graph::Graph& call) {
  std::string text = "library call ";
  for (const graph::Node& node : call.nodes()) {
    if (graph::is_contraction(node.op)) text += to_string(node.op);
  }
  const char* between = "(";
  for (const graph::NodeId parameter : call.parameters()) {
    text += between + to_string(call.node(parameter).type());
    between = ", ";
  }
  return text + ")";
}

class RunnerSession final : public TimedSession {
 public:
  RunnerSession(std::shared_ptr<RunnerDevice::Shared> shared, OpenedReply opened, int generation)
      : shared_(std::move(shared)), opened_(opened), generation_(generation) {}
  RunnerSession(const RunnerSession&) = delete;
  RunnerSession& operator=(const RunnerSession&) = delete;
  ~RunnerSession() override {
    const std::lock_guard lock(shared_->mutex);
    if (alive()) (void)shared_->process.call(CloseRequest{}, opened_.session, shared_->process.options().call_seconds);
  }

  Result<KernelHandle> load(const KernelImage& image) override;
  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) override;
  Status free(BufferHandle buffer) override;
  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override;
  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override;
  Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape, std::span<const LaunchValue> arguments,
                              std::span<const std::uint64_t> blocks) override;
  Result<Measurement> measure(const MeasureTask& task) override;
  Result<PreparedCall> prepare(const graph::Graph& call) override;
  [[nodiscard]] bool is_gone() const override {
    const std::lock_guard lock(shared_->mutex);
    return !alive();
  }
  [[nodiscard]] bool samples_blocks() const override { return opened_.samples_blocks; }
  [[nodiscard]] std::vector<WrittenRange> written(BufferHandle buffer) const override {
    const auto found = written_.find(buffer.id);
    return found == written_.end() ? std::vector<WrittenRange>() : found->second;
  }

 private:
  /// Of calls the hash of their graphs, and no shape.
  using Launches = std::vector<std::pair<Hash128, LaunchShape>>;

  [[nodiscard]] bool alive() const {
    return shared_->process.running() && shared_->process.generation() == generation_;
  }
  /// A reply of the wanted type.
  template <class Wanted>
  Result<Wanted> call(decltype(Request::body) request, double seconds);
  /// A request that runs kernels: refused when they are quarantined, and they are when it ends the runner.
  template <class Wanted>
  Result<Wanted> run(decltype(Request::body) request, const Launches& launches, double seconds);
  template <class Wanted>
  Result<Wanted> exchange(decltype(Request::body) request, double seconds);
  Result<std::pair<Hash128, LaunchShape>> identify(KernelHandle kernel, const LaunchShape& shape) const;
  Result<std::pair<Hash128, LaunchShape>> identify(CallHandle call) const;
  [[nodiscard]] std::string describe(const Launches& launches) const;
  [[nodiscard]] double call_seconds() const { return shared_->process.options().call_seconds; }

  std::shared_ptr<RunnerDevice::Shared> shared_;
  OpenedReply opened_;
  int generation_;
  std::map<int, std::pair<Hash128, std::string>> kernels_;  ///< hash of the image, name
  std::map<int, Hash128> calls_;                            ///< hash of the graph
  std::map<Hash128, std::string> call_names_;               ///< by that hash: "library call dot(…)"
  std::map<int, std::vector<WrittenRange>> written_;        ///< by the latest launch
};

template <class Wanted>
Result<Wanted> RunnerSession::exchange(decltype(Request::body) request, double seconds) {
  if (!alive()) {
    return make_error(ErrorKind::unavailable, "this session was lost with its runner: {}", shared_->process.last_end());
  }
  STITCH_ASSIGN(Body body, shared_->process.call(std::move(request), opened_.session, seconds));
  if (auto* wanted = std::get_if<Wanted>(&body)) return std::move(*wanted);
  return make_error(ErrorKind::internal, "the runner's reply is of another kind than its request");
}

template <class Wanted>
Result<Wanted> RunnerSession::call(decltype(Request::body) request, double seconds) {
  const std::lock_guard lock(shared_->mutex);
  return exchange<Wanted>(std::move(request), seconds);
}

template <class Wanted>
Result<Wanted> RunnerSession::run(decltype(Request::body) request, const Launches& launches, double seconds) {
  const std::lock_guard lock(shared_->mutex);
  const Hash128 key = quarantine_key(launches);
  STITCH_TRY(shared_->quarantine.check(key, shared_->device));
  const bool was_alive = alive();
  auto result = exchange<Wanted>(std::move(request), seconds);
  // A runner that answers nonsense is a bug of ours, and one that left never began; one that hangs, dies or loses its
  // device does so by the kernel.
  if (result || !was_alive || alive() || shared_->process.left() || result.error().kind == ErrorKind::corrupt)
    return result;
  const std::string kernel = describe(launches);
  const Status noted = shared_->quarantine.add({key, shared_->device, kernel, result.error().message, "", 0});
  Error error = result.error().within(kernel);
  if (!noted) error.message += fmt::format(" (and cannot be quarantined: {})", noted.error().message);
  return error;
}

Result<std::pair<Hash128, LaunchShape>> RunnerSession::identify(KernelHandle kernel, const LaunchShape& shape) const {
  const auto known = kernels_.find(kernel.id);
  if (known == kernels_.end()) {
    return make_error(ErrorKind::invalid_argument, "kernel handle {} is not loaded", kernel.id);
  }
  STITCH_TRY(check_shape(shape));
  return std::pair(known->second.first, shape);
}

Result<std::pair<Hash128, LaunchShape>> RunnerSession::identify(CallHandle call) const {
  const auto known = calls_.find(call.id);
  if (known == calls_.end()) {
    return make_error(ErrorKind::invalid_argument, "call handle {} was not made ready", call.id);
  }
  return std::pair(known->second, LaunchShape{});
}

std::string RunnerSession::describe(const Launches& launches) const {
  std::string text;
  for (const auto& [image, shape] : launches) {
    if (const auto call = call_names_.find(image); call != call_names_.end()) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", call->second);
      continue;
    }
    const auto known = std::find_if(kernels_.begin(), kernels_.end(),
                                    [&hash = image](const auto& one) { return one.second.first == hash; });
    text += fmt::format("{}{} ({} x {} threads)", text.empty() ? "kernel " : ", ",
                        known == kernels_.end() ? "?" : known->second.second, shape.blocks, shape.threads);
  }
  return text;
}

Result<KernelHandle> RunnerSession::load(const KernelImage& image) {
  STITCH_ASSIGN(const auto loaded, call<LoadedReply>(LoadRequest{image}, call_seconds()));
  kernels_[loaded.kernel.id] = {hash_of(image), image.name};
  return loaded.kernel;
}

Result<BufferHandle> RunnerSession::allocate(std::string name, std::int64_t bytes, Fill fill, Access access) {
  AllocateRequest request{std::move(name), bytes, Zero{}, access};
  const auto* filler = std::get_if<Filler>(&fill);
  const InputSource* source = filler != nullptr ? filler->target<InputSource>() : nullptr;
  const bool in_parts = filler != nullptr && source == nullptr && bytes > most_data_bytes;
  if (const auto* poison = std::get_if<Poison>(&fill)) {
    request.fill = *poison;
  } else if (source != nullptr && source->type().bytes() == bytes) {
    request.fill = *source;
  } else if (in_parts) {
    request.access = Access::read_write;  // it is written after it was made, so that nobody can watch over it
  } else if (filler != nullptr) {
    std::string data(bytes, '\0');
    (*filler)(0, std::as_writable_bytes(std::span(data.data(), data.size())));
    request.fill = std::move(data);
  }
  STITCH_ASSIGN(const auto allocated, call<AllocatedReply>(std::move(request), call_seconds()));
  for (std::int64_t at = 0; in_parts && at < bytes; at += most_data_bytes) {
    std::vector<std::byte> part(std::min(most_data_bytes, bytes - at));
    (*filler)(at, part);
    STITCH_TRY(write(allocated.buffer, at, part));
  }
  return allocated.buffer;
}

Status RunnerSession::free(BufferHandle buffer) {
  written_.erase(buffer.id);
  STITCH_TRY(call<DoneReply>(FreeRequest{buffer}, call_seconds()));
  return {};
}

Status RunnerSession::read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) {
  for (std::size_t at = 0; at < into.size(); at += most_data_bytes) {
    const auto part = into.subspan(at, std::min<std::size_t>(into.size() - at, most_data_bytes));
    const ReadRequest request{buffer, offset + static_cast<std::int64_t>(at), static_cast<std::int64_t>(part.size())};
    STITCH_ASSIGN(const auto reply, call<DataReply>(request, call_seconds()));
    if (reply.data.size() != part.size()) {
      return make_error(ErrorKind::internal, "the runner read {} bytes instead of {}", reply.data.size(), part.size());
    }
    std::copy_n(std::as_bytes(std::span(reply.data)).begin(), part.size(), part.begin());
  }
  return {};
}

Status RunnerSession::write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) {
  for (std::size_t at = 0; at < from.size(); at += most_data_bytes) {
    const auto part = from.subspan(at, std::min<std::size_t>(from.size() - at, most_data_bytes));
    WriteRequest request{buffer, offset + static_cast<std::int64_t>(at), std::string(part.size(), '\0')};
    std::copy(part.begin(), part.end(), std::as_writable_bytes(std::span(request.data)).begin());
    STITCH_TRY(call<DoneReply>(std::move(request), call_seconds()));
  }
  return {};
}

Result<LaunchResult> RunnerSession::launch(KernelHandle kernel, const LaunchShape& shape,
                                           std::span<const LaunchValue> arguments,
                                           std::span<const std::uint64_t> blocks) {
  STITCH_ASSIGN(const auto launch, identify(kernel, shape));
  LaunchRequest request{{kernel, shape, {arguments.begin(), arguments.end()}}, {blocks.begin(), blocks.end()}};
  STITCH_ASSIGN(auto launched,
                run<LaunchedReply>(std::move(request), {launch}, shared_->process.options().launch_seconds));
  written_.clear();
  for (auto& [buffer, ranges] : launched.written) written_[buffer] = std::move(ranges);
  return std::move(launched.result);
}

Result<PreparedCall> RunnerSession::prepare(const graph::Graph& call) {
  // To choose among its plans, a library runs them: what hangs or dies there is the call's fault as well.
  const Hash128 key = hash_bytes("library call " + graph::encode(call, graph::Encoding::cbor));
  call_names_.emplace(key, name_of_call(call));
  const auto& options = shared_->process.options();
  STITCH_ASSIGN(auto reply, run<PreparedReply>(PrepareRequest{call}, {{key, LaunchShape{}}},
                                               options.call_seconds + options.measure_seconds));
  calls_[reply.prepared.call.id] = key;
  return std::move(reply.prepared);
}

Result<Measurement> RunnerSession::measure(const MeasureTask& task) {
  STITCH_TRY(check_task(task));
  Launches launches;
  for (const PlanStep& step : task.rotations.front()) {
    if (const auto* launch = std::get_if<PlannedLaunch>(&step)) {
      STITCH_ASSIGN(const auto identified, identify(launch->kernel, launch->shape));
      launches.push_back(identified);
    } else if (const auto* call = std::get_if<PlannedCall>(&step)) {
      STITCH_ASSIGN(const auto identified, identify(call->call));
      launches.push_back(identified);
    }
  }
  const MeasureOptions& options = task.options;
  const double own = (options.warm_up_us + options.stopping.max_time_us) * 1e-6;
  STITCH_ASSIGN(auto measured,
                run<MeasuredReply>(MeasureRequest{task}, launches, own + shared_->process.options().measure_seconds));
  return std::move(measured.measurement);
}

}  // namespace

Result<std::unique_ptr<RunnerDevice>> RunnerDevice::create(ProcessLauncher& launcher, RunnerOptions options,
                                                           Quarantine& quarantine) {
  auto shared = std::make_shared<Shared>(launcher, std::move(options), quarantine);
  STITCH_ASSIGN(WelcomeReply welcome, shared->process.start());
  shared->device = welcome.identity.key;
  return std::unique_ptr<RunnerDevice>(new RunnerDevice(std::move(shared), std::move(welcome.identity)));
}

RunnerDevice::~RunnerDevice() = default;

Result<std::unique_ptr<TimedSession>> RunnerDevice::timed_session() {
  const std::lock_guard lock(shared_->mutex);
  const auto open = [&]() -> Result<Body> {
    STITCH_ASSIGN(const WelcomeReply welcome, shared_->process.start());
    if (welcome.identity.key != identity_.key) {
      return make_error(ErrorKind::unavailable, "the runner that was started anew has {} ({}) instead of {}",
                        welcome.identity.name, welcome.identity.key, identity_.key);
    }
    return shared_->process.call(OpenRequest{}, 0, shared_->process.options().call_seconds);
  };
  Result<Body> body = open();
  // One that was asked to end between the two.
  if (!body && !shared_->process.running() && shared_->process.left()) body = open();
  if (!body) return body.error();
  const auto* opened = std::get_if<OpenedReply>(&*body);
  if (opened == nullptr) return make_error(ErrorKind::internal, "the runner opened no session");
  return std::unique_ptr<TimedSession>(
      std::make_unique<RunnerSession>(shared_, *opened, shared_->process.generation()));
}

int RunnerDevice::runner_id() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->process.id();
}

int RunnerDevice::generation() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->process.generation();
}

}  // namespace stitch::profiler
