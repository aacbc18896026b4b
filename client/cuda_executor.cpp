#include "client/cuda_executor.h"

#include <array>
#include <map>
#include <vector>

#include "api/launch_limits.h"
#include "base/device_class.h"
#include "base/tally.h"
#include "base/trace.h"
#include "client/cuda_context.h"
#include "cuda/device_traits.h"

namespace stitch::client {
namespace {

using api::LaunchArgument;

/// A kernel as it is launched: all but the addresses is known when it is loaded, and they are written into `values`, so
/// that a launch allocates nothing.
struct ReadyLaunch {
  CUfunction function = nullptr;
  std::vector<std::uint64_t> values;  ///< per argument
  std::vector<void*> pointers;        ///< to them
  /// The last one that is set is the dependent launch's, which is not always counted in.
  std::array<CUlaunchAttribute, 3> attributes{};
  unsigned own_attributes = 0;  ///< without that
  bool dependent = false;
  CUlaunchConfig config{};
};

/// Compute capability from which on kernels may be launched to begin before their predecessors have ended.
constexpr int dependent_capability = 90;

ReadyLaunch made_ready(const api::KernelLaunch& launch, CUfunction function, CUdeviceptr workspace) {
  ReadyLaunch ready;
  ready.function = function;
  for (const LaunchArgument& argument : launch.arguments) {
    const bool is_workspace = argument.kind == LaunchArgument::Kind::workspace;
    ready.values.push_back(argument.value + (is_workspace ? workspace : 0));
  }
  CUlaunchConfig& config = ready.config;
  config.gridDimX = launch.blocks;
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = launch.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = launch.shared_bytes;
  if (launch.cluster > 1) {
    CUlaunchAttribute& cluster = ready.attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = launch.cluster;
    cluster.value.clusterDim.y = 1;
    cluster.value.clusterDim.z = 1;
  }
  if (launch.cooperative) {
    CUlaunchAttribute& cooperative = ready.attributes[config.numAttrs++];
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
  }
  ready.own_attributes = config.numAttrs;
  ready.dependent = launch.dependent;
  CUlaunchAttribute& dependent = ready.attributes[ready.own_attributes];
  dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  dependent.value.programmaticStreamSerializationAllowed = 1;
  return ready;
}

class CudaPlan final : public LoadedPlan {
 public:
  CudaPlan(api::Plan plan, std::shared_ptr<const CudaContext> context)
      : plan_(std::move(plan)), context_(std::move(context)), driver_(*context_->driver), workspace_(driver_) {}
  ~CudaPlan() override;
  CudaPlan(const CudaPlan&) = delete;
  CudaPlan& operator=(const CudaPlan&) = delete;

  [[nodiscard]] const api::Plan& plan() const override { return plan_; }
  Status load(const ArtifactSource& artifacts);
  Status run(Inputs parameters, Outputs results) override;
  Status launch(Addresses parameters, Addresses results, void* stream) override;
  Status launch_behind(StreamTail& tail, Addresses parameters, Addresses results, void* stream) override;

 private:
  [[nodiscard]] Status check_launches() const;
  Status load_kernel(const api::KernelLaunch& launch, const ArtifactSource& artifacts);
  Status zero_workspace();
  Status enqueue_copies(bool before, StreamTail& tail, Addresses parameters, Addresses results, CUstream stream);
  Status enqueue(StreamTail& tail, Addresses parameters, Addresses results, CUstream stream);
  Status enqueue_kernel(std::size_t index, StreamTail& tail, Addresses parameters, Addresses results, CUstream stream);

  api::Plan plan_;
  std::shared_ptr<const CudaContext> context_;
  const cuda::DriverApi& driver_;
  std::map<Sha256, CUmodule> modules_;
  std::vector<ReadyLaunch> ready_;  ///< per launch
  DeviceMemory workspace_;
};

CudaPlan::~CudaPlan() {
  const CurrentContext current(*context_);
  if (!current.status()) return;
  driver_.synchronize_context();  // nothing that was enqueued may lose its code or its workspace
  for (const auto& [hash, module] : modules_) driver_.unload_module(module);
  workspace_.release();
}

Status CudaPlan::load_kernel(const api::KernelLaunch& launch, const ArtifactSource& artifacts) {
  auto known = modules_.find(launch.cubin);
  if (known == modules_.end()) {
    STITCH_ASSIGN(const std::string cubin, artifacts(launch.cubin));
    CUmodule module = nullptr;
    CUresult loaded = driver_.load_module(&module, cubin.data());
    if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU) {
      // Machine code of another GPU. Its PTX is beside it, and the driver may be able to compile that.
      const Result<std::string> ptx = artifacts(launch.ptx);
      if (ptx) loaded = driver_.load_module(&module, ptx->c_str());
      if (!ptx || loaded != CUDA_SUCCESS) {
        return make_error(ErrorKind::unsupported, "kernel {} was compiled for {}, this GPU is sm_{}", launch.name,
                          plan_.target.architecture, context_->capability);
      }
    }
    STITCH_TRY(driver_.check(loaded, "cuModuleLoadData"));
    known = modules_.emplace(launch.cubin, module).first;
  }
  CUfunction function = nullptr;
  STITCH_TRY(driver_.check(driver_.get_function(&function, known->second, launch.name.c_str()), "cuModuleGetFunction"));
  // Asked for even where it is little: what is had without asking is 48 KiB together with the kernel's static shared
  // memory, of which a plan knows nothing.
  if (launch.shared_bytes > 0) {
    STITCH_TRY(driver_.check(
        driver_.set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes),
        "cuFuncSetAttribute"));
  }
  // The driver loads a function when it is first launched, or asked for an attribute (CUDA_MODULE_LOADING=LAZY): that
  // would be in a capture, where nothing may be loaded.
  if (driver_.load_function != nullptr) STITCH_TRY(driver_.check(driver_.load_function(function), "cuFuncLoad"));
  ready_.push_back(made_ready(launch, function, workspace_.address()));
  return {};
}

Status CudaPlan::check_launches() const {
  if (!context_->spec) return {};
  const std::string why = api::why_not_launched(plan_, plan_.target.device, *context_->spec);
  if (why.empty()) return {};
  return make_error(ErrorKind::constraint, "{}: the plan is for {}; ask a server, or make a package, for {}", why,
                    plan_.target.device, context_->spec->name);
}

Status CudaPlan::load(const ArtifactSource& artifacts) {
  STITCH_TRY(check_launches());
  const CurrentContext current(*context_);
  STITCH_TRY(current.status());
  const BesideCaptures beside(driver_);
  if (plan_.workspace_bytes > 0) STITCH_TRY(workspace_.make(plan_.workspace_bytes));
  for (const api::KernelLaunch& launch : plan_.launches) {
    if (Status loaded = load_kernel(launch, artifacts); !loaded) return loaded.error().within(launch.name);
  }
  for (ReadyLaunch& ready : ready_) {  // here they stay
    for (std::uint64_t& value : ready.values) ready.pointers.push_back(&value);
    ready.config.attrs = ready.attributes.data();
  }
  return zero_workspace();
}

/// On a stream of its own: nobody else's may be waited for while somebody captures.
Status CudaPlan::zero_workspace() {
  if (plan_.zeroed.empty()) return {};
  CUstream stream = nullptr;
  STITCH_TRY(driver_.check(driver_.create_stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  Status filled;
  for (const api::ZeroedRange& range : plan_.zeroed) {
    const CUdeviceptr from = workspace_.address() + range.offset;
    if (filled) filled = driver_.check(driver_.fill_async(from, 0, range.bytes, stream), "cuMemsetD8Async");
  }
  const Status waited = driver_.check(driver_.synchronize_stream(stream), "cuStreamSynchronize");
  driver_.destroy_stream(stream);
  return filled ? waited : filled;
}

Status CudaPlan::enqueue_kernel(std::size_t index, StreamTail& tail, Addresses parameters, Addresses results,
                                CUstream stream) {
  const api::KernelLaunch& launch = plan_.launches[index];
  ReadyLaunch& ready = ready_[index];
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument& argument = launch.arguments[i];
    if (argument.kind == LaunchArgument::Kind::parameter) ready.values[i] = parameters[argument.value];
    if (argument.kind == LaunchArgument::Kind::result) ready.values[i] = results[argument.value];
  }
  ready.config.hStream = stream;
  const bool depends = tail == StreamTail::kernel && ready.dependent && context_->capability >= dependent_capability;
  ready.config.numAttrs = ready.own_attributes + (depends ? 1 : 0);
  tail = StreamTail::kernel;
  return driver_.check(driver_.launch(&ready.config, ready.function, ready.pointers.data(), nullptr),
                       "cuLaunchKernelEx");
}

Status CudaPlan::enqueue_copies(bool before, StreamTail& tail, Addresses parameters, Addresses results,
                                CUstream stream) {
  for (const api::ResultCopy& copy : plan_.copies) {
    const auto& sources = copy.from.kind == LaunchArgument::Kind::parameter ? parameters : results;
    const CUdeviceptr from = sources[copy.from.value];
    const CUdeviceptr to = results[copy.to];
    if (copy.before != before || from == to) continue;
    tail = StreamTail::other;
    STITCH_TRY(driver_.check(driver_.copy_on_device(to, from, copy.bytes, stream), "cuMemcpyDtoDAsync"));
  }
  return {};
}

Status CudaPlan::enqueue(StreamTail& tail, Addresses parameters, Addresses results, CUstream stream) {
  STITCH_TRY(enqueue_copies(true, tail, parameters, results, stream));
  for (std::size_t i = 0; i < plan_.launches.size(); ++i) {
    if (Status launched = enqueue_kernel(i, tail, parameters, results, stream); !launched) {
      return launched.error().within(fmt::format("launch {} ({})", i, plan_.launches[i].name));
    }
  }
  tally::launched(std::ssize(plan_.launches));
  return enqueue_copies(false, tail, parameters, results, stream);
}

Status CudaPlan::launch(Addresses parameters, Addresses results, void* stream) {
  StreamTail tail = StreamTail::other;
  return launch_behind(tail, parameters, results, stream);
}

Status CudaPlan::launch_behind(StreamTail& tail, Addresses parameters, Addresses results, void* stream) {
  STITCH_TRY(check_addresses(plan_, parameters, results));
  const CurrentContext current(*context_);
  STITCH_TRY(current.status());
  return enqueue(tail, parameters, results, static_cast<CUstream>(stream));
}

Status CudaPlan::run(Inputs parameters, Outputs results) {
  STITCH_TRY(check_buffers(plan_, parameters, results));
  const CurrentContext current(*context_);
  STITCH_TRY(current.status());
  return run_on_host_memory(driver_, parameters, results, [&](Addresses from, Addresses to) {
    StreamTail tail = StreamTail::other;
    return enqueue(tail, from, to, nullptr);
  });
}

}  // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(int device, const std::string& library) {
  auto context = std::make_shared<CudaContext>();
  STITCH_ASSIGN(context->driver, cuda::DriverApi::load(cuda::DriverUse::run_plans, library));
  const cuda::DriverApi& driver = *context->driver;
  STITCH_TRY(driver.check(driver.device_get(&context->device, device), "cuDeviceGet", ErrorKind::unavailable));
  int major = 0, minor = 0;
  STITCH_TRY(
      driver.check(driver.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, context->device),
                   "cuDeviceGetAttribute", ErrorKind::unavailable));
  STITCH_TRY(
      driver.check(driver.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, context->device),
                   "cuDeviceGetAttribute", ErrorKind::unavailable));
  context->capability = major * 10 + minor;
  context->traits = cuda::read_traits(driver, context->device);
  if (context->traits.known()) {
    if (const auto known = classify(context->traits)) context->spec = known->spec;
  }
  STITCH_TRY(driver.check(driver.retain_primary(&context->context, context->device), "cuDevicePrimaryCtxRetain",
                          ErrorKind::unavailable));
  return std::unique_ptr<CudaExecutor>(new CudaExecutor(std::move(context)));
}

std::optional<DeviceTraits> CudaExecutor::traits() const {
  return context_->traits.known() ? std::optional(context_->traits) : std::nullopt;
}

Result<std::unique_ptr<LoadedPlan>> CudaExecutor::load(const api::Plan& plan, const ArtifactSource& artifacts) {
  trace::Phase phase("load", {{"plan", plan.id.hex()}, {"launches", plan.launches.size()}});
  auto loaded = std::make_unique<CudaPlan>(plan, context_);
  STITCH_TRY(trace::noted(phase, loaded->load(artifacts)));
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

}  // namespace stitch::client
